"""Training rows and held-out rows: the tail of a series or random rows of a table, and copies of gaps."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Self

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from deeplfm.randomness import generator_for, numpy_for
from deeplfm.training.rows import Rows, RowSource

_SERIES_TAIL, _TABLE_PART = 0.25, 0.2
# Two numbers for each output and the weights of the average are estimated from the held-out rows, whose
# mean log density this many determine to about 0.01 nats; each is predicted once for every temperature.
_MOST_HELD_OUT = 10_000
MOST_SERIES_ROWS, _MOST_TABLE_ROWS = 100_000, 10_000  # shown to the initialisation of a model

_LONG = 4.5  # steps from one known value to the next: more than three are missing
_MOST_HIDDEN, _MOST_COPIES = 0.3, 8  # of the known values of an output
_FEWEST_GAPS = 3  # to score by: all rows of one gap are about one fact
_N_OFFSETS, _GOLDEN = 34, (5**0.5 - 1) / 2  # any first few of these offsets are far from each other


@dataclass(frozen=True)
class Split:
    """Rows of a selection: to fit on, and to score by.

    Attributes:
        training: rows to fit on.
        held_out: the other rows: the last ones of a series, random ones of a table.
        around_gaps: all rows without the hidden values: candidates for gaps are fitted on these too.
        hidden: values that were hidden in the pattern of the gaps of a series, if it has enough gaps.
        span: first and last time at which each output of a series is known.
        is_series: rows have an order in time.
    """

    training: RowSource
    held_out: Rows
    around_gaps: RowSource
    hidden: Rows | None
    span: Float[Tensor, "2 D"] | None
    is_series: bool

    @classmethod
    def of(cls, rows: RowSource, is_series: bool, seed: int, hide_values: bool = True) -> Self:
        """Split rows; ``hide_values`` in the pattern of the gaps of a series."""
        training, held_out = hold_out(rows, is_series, seed)
        around_gaps, hidden, span = rows, None, None
        if is_series and hide_values and len(rows) <= MOST_SERIES_ROWS:
            ordered = rows.take(order_of(rows))
            around_gaps, hidden = hide_like_gaps(ordered)
            span = known_span(ordered.x, ordered.y)
        return cls(training, held_out, around_gaps, hidden, span, is_series)

    @property
    def reach(self) -> float | None:
        """Half the length of a series' tail: there, on average, its calibration holds."""
        if not self.is_series:
            return None
        time = self.held_out.x[:, 0]
        return float(time.max() - time.min()) / 2 or 1.0


def rows_to_initialise(rows: RowSource, is_series: bool) -> Rows:
    """The last rows of a long series, since thinning would alias it; evenly spaced rows of a table.

    Spectra have no weights: in a series, targets of next to no weight are treated as missing.
    """
    n_rows, most = len(rows), MOST_SERIES_ROWS if is_series else _MOST_TABLE_ROWS
    if n_rows <= most:
        shown = rows.everything()
    elif is_series:
        shown = rows.take(torch.arange(n_rows - most, n_rows))
    else:
        shown = rows.take(torch.arange(most) * n_rows // most)
    return shown.without_light_targets() if is_series else shown


def order_of(rows: RowSource) -> Int64[Tensor, " N"]:
    """Rows by their time."""
    return torch.cat([chunk.x[:, 0] for chunk in rows.chunks()]).argsort(stable=True)


def known_span(x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> Float[Tensor, "2 D"]:
    """First and last time at which each output is known; ∞ and −∞ where it never is."""
    time, known = x[:, :1].expand_as(y), ~y.isnan()
    return torch.stack([time.where(known, inf).amin(0), time.where(known, -inf).amax(0)])


def hold_out(rows: RowSource, is_series: bool, seed: int) -> tuple[RowSource, Rows]:
    """Training rows and held-out rows: the last ones of a series, random ones of a table."""
    part = _SERIES_TAIL if is_series else _TABLE_PART
    n_held_out = min(max(1, round(part * len(rows))), _MOST_HELD_OUT)
    if is_series:
        order = order_of(rows)
    elif n_held_out < _MOST_HELD_OUT:
        order = torch.randperm(len(rows), generator=generator_for(seed, "split"))
    else:  # too many for a permutation
        drawn = numpy_for(seed, "split").choice(len(rows), n_held_out, replace=False)
        held_out = torch.as_tensor(drawn).sort().values
        return rows.without(held_out), rows.take(held_out)
    return rows.subset(order[:-n_held_out]), rows.take(order[-n_held_out:])


def hide_like_gaps(rows: Rows) -> tuple[Rows, Rows | None]:
    """Rows without some of their values, and these values; all rows and None where gaps are too few.

    The pattern of the gaps, outputs together, is shifted along time to where it hides the most, again
    and again until enough is hidden. Of many gaps only some are shifted, and none is shortened: a model
    that fills short gaps may fail in long ones. None is shifted to the ends, where it would be no gap.
    One or two long gaps are too few to score by, and copies of them would hide most of the series.
    """
    time, known = rows.x[:, 0], ~rows.y.isnan()
    gaps = [_gaps(time[is_known]) for is_known in known.T]
    span = time[-1] - time[0]
    room = [_MOST_HIDDEN * (span - _length(gap)) for gap in gaps]
    gaps = _some(gaps, _times_in(gaps, room))
    n_copies = max(1, min(_MOST_COPIES, int(_times_in(gaps, room))))
    if n_copies * max(gap.shape[1] for gap in gaps) < _FEWEST_GAPS:
        return rows, None
    offsets = [span * (k * _GOLDEN % 1) for k in range(1, _N_OFFSETS + 1)]
    shifted = [_shifted(time, known, gaps, offset) for offset in offsets]
    hidden, most = torch.zeros_like(known), _MOST_HIDDEN * known.sum(0) + 1
    for _ in range(n_copies):
        more = [both for one in shifted if bool(((both := hidden | one).sum(0) <= most).all())]
        hidden = max([hidden, *more], key=torch.sum)
    if not bool(hidden.any()):
        return rows, None
    at = hidden.any(1).nonzero()[:, 0]
    rest = Rows(rows.x, torch.where(hidden, torch.nan, rows.y), rows.weight)
    return rest, Rows(rows.x, torch.where(hidden, rows.y, torch.nan), rows.weight).take(at)


def _gaps(time: Float[Tensor, " N"]) -> Float[Tensor, "2 G"]:
    """Last times before the gaps among known values, and first times after them."""
    time = time.unique()
    width = time.diff()
    if len(width) == 0:
        return time.new_zeros(2, 0)
    is_gap = width > _LONG * width.median()
    return torch.stack([time[:-1][is_gap], time[1:][is_gap]])


def _length(gap: Float[Tensor, "2 G"]) -> Float[Tensor, ""]:
    """Of all gaps of an output together."""
    return (gap[1] - gap[0]).sum()


def _times_in(gaps: list[Float[Tensor, "2 G"]], room: list[Float[Tensor, ""]]) -> float:
    """How many times the gaps of every output fit into the room that it has."""
    fits = (float(most / _length(gap)) for gap, most in zip(gaps, room, strict=True) if gap.numel())
    return min(fits, default=0.0)


def _some(gaps: list[Float[Tensor, "2 G"]], part: float) -> list[Float[Tensor, "2 G"]]:
    """Gaps that begin at some of their times, at one at least: outputs stay together."""
    begin = torch.cat([start for start, _ in gaps]).unique()
    if len(begin) == 0:
        return gaps
    n_kept = max(1, min(len(begin), int(part * len(begin))))
    kept = begin[torch.arange(n_kept) * len(begin) // n_kept]
    return [gap[:, torch.isin(gap[0], kept)] for gap in gaps]


def _shifted(
    time: Float[Tensor, " N"],
    known: Bool[Tensor, "N D"],
    gaps: list[Float[Tensor, "2 G"]],
    offset: Tensor,
) -> Bool[Tensor, "N D"]:
    """Known values in gaps that were shifted, past the end to the beginning."""
    hidden = torch.zeros_like(known)
    for d, (start, end) in enumerate(gaps):
        if len(start) == 0:
            continue
        ends = time[known[:, d]][[0, -1]]
        low = time[0] + (start + offset - time[0]) % (time[-1] - time[0])
        high = low + (end - start)
        is_inner = (low > ends[0]) & (high < ends[1])
        first = torch.searchsorted(time, low[is_inner].contiguous(), right=True)
        after = torch.searchsorted(time, high[is_inner].contiguous())
        change = torch.zeros(len(time) + 1, dtype=torch.long, device=time.device)
        change.index_add_(0, first, torch.ones_like(first))
        change.index_add_(0, after, -torch.ones_like(after))
        hidden[:, d] = (change.cumsum(0)[:-1] > 0) & known[:, d]
    return hidden
