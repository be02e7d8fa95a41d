"""Rows that are cut into tiles, in buffers that are used again, shared among threads.

Threads take *shares*: many rows, for which all that is short is made at once. A share goes through its
rows in *tiles*, each so small that what is large stays in the cache, with as few calls as can be: while
one thread is in Python, no other can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from deeplfm.kernels.arguments import Moments
from deeplfm.kernels.rectangles import Lines, rectangles
from deeplfm.kernels.shares import Share
from deeplfm.kernels.threads import on_threads
from deeplfm.kernels.tiles import BatchTables, Kinds, Sums

# Waves of a tile, tiles of a share, and how many waves are worth a thread, or sorting columns.
_TILE_WAVES, _SHARE_TILES, _LEAST_WAVES = 3 * 2**18, 5, 2**19


class Tiling:
    """How batches, samples and rows are cut into shares and tiles.

    Args:
        given: what the moments are made of.
        has_gradients: whether tiles are pulled back.
    """

    def __init__(self, given: Moments, has_gradients: bool = True) -> None:
        self.given, self.order, self.kinds = _sorted_by_transients(given)
        # Rows are many: threads add to one gradient of them, each at its own, but have tables each.
        self.by_x = torch.zeros_like(given.x) if has_gradients else given.x.new_empty(0)
        n_batches, n_terms, _, n_columns = given.frequency.shape
        self.n_threads = 1
        if given.x.device.type == "cpu":
            worthwhile = given.n_waves // _LEAST_WAVES
            self.n_threads = max(1, min(torch.get_num_threads(), worthwhile))
        self.tile_lines = max(1, _TILE_WAVES // (n_terms * n_columns))
        self.tasks = self._tasks(range(n_batches))

    def _tasks(self, batches: range) -> list[list[tuple[int, Lines]]]:
        """Shares, by batch and lines; those that add to the gradient of the same rows are one task."""
        n_own, n_samples, n_rows, _ = self.given.x.shape
        n_lines = n_own * n_samples * n_rows
        most = max(1, min(_SHARE_TILES * self.tile_lines, n_lines // self.n_threads))
        parts = rectangles((slice(0, n_samples), slice(0, n_rows)), most, self.n_threads)
        if n_own == 1:
            return [[(batch, lines) for batch in batches] for lines in parts]
        return [[(batch, lines)] for batch in batches for lines in parts]

    def run(self, work: Callable[[Iterator[int]], list[Tensor]]) -> list[Tensor]:
        """The sum of what every thread makes of its shares."""
        first, *others = on_threads(work, len(self.tasks), self.n_threads)
        for other in others:
            for total, part in zip(first, other, strict=True):
                total += part
        return first

    def shares(self, numbers: Iterator[int], sums: Sums | None = None) -> Iterator[Share]:
        """Those of some tasks; gradients of a share are added up when the next is asked for."""
        tables: dict[int, BatchTables] = {}
        for number in numbers:
            for batch, lines in self.tasks[number]:
                if batch not in tables:
                    tables[batch] = BatchTables(self.given, batch, self.kinds, sums)
                share = Share(tables[batch], lines, self.tile_lines)
                yield share
                if sums is not None:
                    self.by_x[share.x_place] += share.pull_back()

    @torch.no_grad()
    def gradients(self, sums: Sums) -> Moments:
        """Those of all threads and of the rows, columns in the order of what was given."""
        found = sums.gradients(self.given, self.by_x)
        return found if self.order is None else found.with_columns(self.order.argsort(-1))


def _sorted_by_transients(given: Moments) -> tuple[Moments, Tensor | None, Kinds]:
    """Columns that have powers among their transients first, their order, and which are how many.

    All columns have exponentials, few have powers: those are a small product, if they are together. For
    a few rows that is not worth the sorting.
    """
    n_columns, n_exponentials = given.frequency.shape[-1], given.decay.shape[-1]
    if given.n_powers < 0:
        return given, None, []
    if given.n_powers == 0 or given.n_waves < _LEAST_WAVES:
        return given, None, [(slice(None), n_columns)]
    exponentials, powers = slice(0, n_exponentials), slice(n_exponentials, None)
    has_powers = (given.gains[:, :, powers] != 0).flatten(1, 2).any(1)  # B K
    n_first = int(has_powers.sum(-1).max())
    order = has_powers.int().argsort(-1, descending=True)
    kinds = [(exponentials, n_columns), (powers, n_first)]
    return given.with_columns(order), order, kinds
