"""Rows of one batch, with all that is short made for them at once, and cut for tiles at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.kernels.arguments import pull_transients, transient_rows
from deeplfm.kernels.rectangles import Lines, rectangles, shape_of
from deeplfm.kernels.tiles import BatchTables, Tile, TileRows
from deeplfm.kernels.workspace import TileShape, workspace


class Share:
    """Rows of one batch with their transients, and gradients of both.

    Args:
        batch: tables of the rows' batch.
        lines: samples and rows.
        tile_lines: how many of them a tile may have.
    """

    def __init__(self, batch: BatchTables, lines: Lines, tile_lines: int) -> None:
        given, (n_terms, n_dimensions, _) = batch.given, batch.frequency.shape
        self.batch, self.lines, self.shape = batch, lines, shape_of(lines)
        self.tile_places = rectangles(lines, tile_lines)
        self._tile_sizes = [samples * rows for samples, rows in map(shape_of, self.tile_places)]
        self.x_place = (batch.number if len(given.x) > 1 else 0, *lines)
        x = given.x[self.x_place].flatten(0, 1).mT
        n_inputs, n_transients = len(x), given.gains.shape[2]
        self.time, by_time, self.transients, self.by_transients, table = workspace.of_share(
            x.shape[1],
            [n_inputs, n_inputs, n_transients, n_transients, n_inputs + n_terms],
            x,
        )
        self.time.copy_(x)  # P R
        self.x = self.time.view(n_terms, n_dimensions, -1).mT  # J R I
        self.by_x = by_time.view(self.x.shape)
        self.table = table.view(n_terms, n_dimensions + 1, -1)  # J I+1 R: inputs and ones
        self.table[:, :-1], self.table[:, -1] = self.x.mT, 1.0
        if batch.kinds:
            lines_of_all = transient_rows(self.time, batch.decay, batch.extent, given.n_powers)
            torch.cat(list(lines_of_all), out=self.transients)

    def flat(self, item: Float[Tensor, "B _ N U"]) -> Float[Tensor, "R U"]:
        """What belongs to the rows, for each sample."""
        return self._part(item).expand(*self.shape, -1).reshape(-1, item.shape[-1])

    def add(self, item: Float[Tensor, "R U"], total: Float[Tensor, "B _ N U"]) -> None:
        """Add what was made of the rows to that of all, or for all samples."""
        part = self._part(total)
        part += item.view(*self.shape, -1).sum_to_size(part.shape)

    def _part(self, item: Float[Tensor, "B _ N U"]) -> Float[Tensor, "_ N U"]:
        samples, rows = self.lines
        return item[self.batch.number, samples if item.shape[1] > 1 else slice(None), rows]

    def cut(self, item: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
        """What belongs to each tile: parts of all are asked for together, since to ask is not free."""
        return item.split(self._tile_sizes, dim)

    def tiles(self) -> Iterator[Tile]:
        """One after the other, in the same buffers."""
        kinds, (n_terms, _, n_columns) = self.batch.kinds, self.batch.frequency.shape
        n_starts = tuple(gains.shape[-1] for gains in self.batch.gains)
        of_tiles = zip(
            self.tile_places,
            self.cut(self.x, 1),
            self.cut(self.table, 2),
            self._cut_each(self.by_x, 0),
            self._cut_each([self.transients[some] for some in kinds], 1),
            self._cut_each([self.by_transients[some] for some in kinds], 1),
            strict=True,
        )
        for place, *parts in of_tiles:
            shape = TileShape(n_terms, *shape_of(place), n_columns, n_starts)
            memory = workspace.of_tile(shape, self.time)
            yield Tile(self.batch, place, TileRows(*parts), memory)

    def _cut_each(self, items: Sequence[Tensor] | Tensor, dim: int) -> list[tuple[Tensor, ...]]:
        """What belongs to each tile, of several things."""
        if not len(items):
            return [()] * len(self.tile_places)
        return list(zip(*(self.cut(item, dim) for item in items), strict=True))

    def pull_back(self) -> Float[Tensor, "S N P"]:
        """Add what the gradients of transients say of decays; return that of the rows."""
        by_x = self.by_x.mT.reshape(self.time.shape)
        if self.batch.kinds:
            by_time, by_decay = pull_transients(
                self.time,
                self.batch.decay,
                self.batch.extent,
                self.transients,
                self.by_transients,
            )
            self.batch.to_decay += by_decay
            by_x = by_time.add_(by_x)
        return by_x.mT.unflatten(0, self.shape)
