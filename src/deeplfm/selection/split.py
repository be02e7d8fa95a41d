"""Which rows judge, and which a start is shown: a bounded number of very many."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from deeplfm.randomness import generator_for, numpy_for
from deeplfm.training.rows import Rows, RowSource

_SERIES_TAIL, _TABLE_PART = 0.25, 0.2
# Two numbers for each output and the weights of a stack are learned from the held-out rows, whose mean
# log density this many tell to about 0.01 nats; each is predicted once for every temperature.
_MOST_HELD_OUT = 10_000
_LIGHT = 0.01  # of the usual weight
SERIES_START, _TABLE_START = 100_000, 10_000  # most rows that a start is shown


def start_rows(rows: RowSource, is_series: bool) -> Rows:
    """The last rows of a long series, since thinning would alias it; a table's evenly spaced ones.

    Spectra know no weights: in a series, targets that count next to nothing are as good as missing.
    """
    n_rows, most = len(rows), SERIES_START if is_series else _TABLE_START
    if n_rows <= most:
        shown = rows.everything()
    elif is_series:
        shown = rows.take(torch.arange(n_rows - most, n_rows))
    else:
        shown = rows.take(torch.arange(most) * n_rows // most)
    return without_light(shown) if is_series else shown


def without_light(rows: Rows) -> Rows:
    """Rows in which targets are missing that count next to nothing beside others of the same output."""
    if rows.weight is None:
        return rows
    counts = torch.where(rows.counts > 0, rows.counts, torch.nan)
    is_light = counts < _LIGHT * counts.nanmedian(0).values
    return replace(rows, y=torch.where(is_light, torch.nan, rows.y))


def order_of(rows: RowSource) -> Int64[Tensor, " N"]:
    """Rows by their time."""
    return torch.cat([chunk.x[:, 0] for chunk in rows.chunks()]).argsort(stable=True)


def split(rows: RowSource, is_series: bool, seed: int) -> tuple[RowSource, Rows]:
    """Rows to fit on and rows to judge by: the last ones of a series, random ones of a table."""
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
