"""Gaps of a series, moved to where values are known: what is to fill a gap is judged by gaps."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from deeplfm.training.rows import Rows

_LONG = 4.5  # steps from one known value to the next: more than three are missing
_MOST_HIDDEN, _MOST_COPIES = 0.3, 8  # of the known values of an output
_FEWEST = 3  # gaps to judge by: all rows of one are about one fact
_N_OFFSETS, _GOLDEN = 34, (5**0.5 - 1) / 2  # any first few of these offsets are far from each other


def hide_like_gaps(rows: Rows) -> tuple[Rows, Rows | None]:
    """Rows without some of their values, and these values; all and none where gaps say too little.

    The pattern of the gaps, outputs together, is moved along time to where it hides the most, again and
    again until enough is hidden. Of many gaps only some are moved, and none is shortened: what fills
    short ones may fail in long ones. None is moved to the ends, where it would be no gap. One long gap or
    two say too little, and would hide what the series is made of.

    Args:
        rows: in order of time.
    """
    time, known = rows.x[:, 0], ~rows.y.isnan()
    gaps = [_gaps(time[is_known]) for is_known in known.T]
    span = time[-1] - time[0]
    room = [_MOST_HIDDEN * (span - _length(gap)) for gap in gaps]
    gaps = _some(gaps, _times_in(gaps, room))
    n_copies = max(1, min(_MOST_COPIES, int(_times_in(gaps, room))))
    if n_copies * max(gap.shape[1] for gap in gaps) < _FEWEST:
        return rows, None
    offsets = [span * (k * _GOLDEN % 1) for k in range(1, _N_OFFSETS + 1)]
    moved = [_moved(time, known, gaps, offset) for offset in offsets]
    hidden, most = torch.zeros_like(known), _MOST_HIDDEN * known.sum(0) + 1
    for _ in range(n_copies):
        more = [both for one in moved if bool(((both := hidden | one).sum(0) <= most).all())]
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


def _moved(
    time: Float[Tensor, " N"],
    known: Bool[Tensor, "N D"],
    gaps: list[Float[Tensor, "2 G"]],
    offset: Tensor,
) -> Bool[Tensor, "N D"]:
    """Known values in gaps that were moved, round the end."""
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
