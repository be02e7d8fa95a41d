"""Arguments of the plain kernels, and the arithmetic of a share of their rows and of its tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deeplfm.kernels.threads import (
    Rectangle,
    TileMemory,
    TileShape,
    rectangles,
    shape_of,
    workspace,
)

# Transients multiplied together, and by how many of the first columns.
Kinds = list[tuple[slice, int]]


class Moments(NamedTuple):
    """Arguments of the moments Φm and Φ²v of F = base + transients·gains + waves, or their gradients.

    Attributes:
        x: inputs, the dimensions of each term in turn; one batch for all or one each.
        frequency: ω of every term, dimension and column.
        amplitude: a of every term and column.
        phase: α of every term and column.
        transients: functions of the inputs that all columns share.
        gains: of the transients, real and imaginary; one that is exactly 0 gets no gradient.
        base: what is added for all samples, real and imaginary: N rows, or none where that is nothing.
        mean: m of the columns, real ones first.
        variance: v of the columns, real ones first.
    """

    x: Float[Tensor, "#B S N P"]
    frequency: Float[Tensor, "B J I K"]
    amplitude: Float[Tensor, "B J K"]
    phase: Float[Tensor, "B J K"]
    transients: Float[Tensor, "B L S N"]
    gains: Float[Tensor, "B 2 L K"]
    base: Float[Tensor, "2 B M K"]
    mean: Float[Tensor, "B 2K U"]
    variance: Float[Tensor, "B 2K U"]

    @property
    def has_base(self) -> bool:
        """Whether there is anything to add for all samples."""
        return self.base.shape[2] > 0

    @property
    def n_waves(self) -> int:
        """Waves in all: of every batch, sample, row, term and column."""
        n_batches, n_terms, _, n_columns = self.frequency.shape
        return n_batches * n_terms * n_columns * math.prod(self.x.shape[1:3])

    def with_columns(self, order: Int[Tensor, "B K"]) -> Moments:
        """The same, the columns of each batch in another order."""

        def ordered(item: Tensor) -> Tensor:  # B … K
            return torch.take_along_dim(
                item, order.view(len(order), *[1] * (item.dim() - 2), -1), -1
            )

        def ordered_weights(item: Tensor) -> Tensor:  # B 2K U
            return ordered(item.mT.unflatten(-1, (2, -1))).flatten(-2).mT

        return self._replace(
            frequency=ordered(self.frequency),
            amplitude=ordered(self.amplitude),
            phase=ordered(self.phase),
            gains=ordered(self.gains),
            base=ordered(self.base.movedim(1, 0)).movedim(0, 1),
            mean=ordered_weights(self.mean),
            variance=ordered_weights(self.variance),
        )

    def empty(self) -> tuple[Float[Tensor, "B S N U"], Float[Tensor, "B S N U"]]:
        """Tensors for the two moments, not yet filled."""
        shape = (*self.x.shape[1:3], len(self.mean), self.mean.shape[-1])  # the order of outputs
        return self.x.new_empty(shape).movedim(2, 0), self.x.new_empty(shape).movedim(2, 0)


class Sums(NamedTuple):
    """Gradients that are sums over rows."""

    angle: Float[Tensor, "B J I+1 K"]  # of ω and, last, of α; still to be multiplied by amplitudes
    amplitude: Float[Tensor, "B J K"]
    gains: Float[Tensor, "B 2 L K"]
    base: Float[Tensor, "2 B M K"]
    mean: Float[Tensor, "B 2 U K"]
    variance: Float[Tensor, "B 2 U K"]

    @classmethod
    def of(cls, given: Moments) -> Sums:
        """Before anything is added to them."""
        n_batches, n_terms, n_dimensions, n_columns = given.frequency.shape
        angle = given.frequency.new_zeros(n_batches, n_terms, n_dimensions + 1, n_columns)
        weights = given.mean.new_zeros(2, n_batches, 2, given.mean.shape[-1], n_columns)
        kept = (given.amplitude, given.gains, given.base)
        return cls(angle, *map(torch.zeros_like, kept), *weights)


class Batch:
    """Arguments of one batch in the parts that tiles need, and where their gradients are added up."""

    def __init__(self, given: Moments, number: int, kinds: Kinds, sums: Sums | None) -> None:
        self.given, self.number = given, number
        self.frequency, self.amplitude = given.frequency[number], given.amplitude[number]
        self.amplitudes, self.phase = self.amplitude.unbind(), given.phase[number, :, None]
        self.base = given.base[:, number, None] if given.has_base else None  # 2 1 N K
        parts = 2, self.frequency.shape[-1]
        self.mean = given.mean[number].unflatten(0, parts)  # 2 K U
        self.variance = given.variance[number].unflatten(0, parts)
        self.means, self.variances = self.mean.unbind(), self.variance.unbind()
        self.kinds = [some for some, _ in kinds]
        self.gains = [given.gains[number, :, some, :n] for some, n in kinds]  # 2 L k
        if sums is None:
            return
        self.mean_rows, self.twice_variance_rows = self.mean.mT, 2 * self.variance.mT  # 2 U K
        self.slopes = (self.frequency * self.amplitude[:, None]).mT.unbind()  # ∂F/∂x over F: K I
        self.to_angle, self.to_amplitudes = sums.angle[number], sums.amplitude[number].unbind()
        self.to_base = sums.base[:, number]
        self.to_gains = [sums.gains[number, :, some, :n] for some, n in kinds]
        self.to_mean, self.to_variance = sums.mean[number], sums.variance[number]


class _TileRows(NamedTuple):
    """Rows of a tile: inputs and transients, and their gradients, to be filled."""

    x: Float[Tensor, "J R I"]
    x_and_one: Float[Tensor, "J I+1 R"]
    by_x: Sequence[Float[Tensor, "R I"]]
    transients: Sequence[Float[Tensor, "L R"]]
    by_transients: Sequence[Float[Tensor, "L R"]]


class Share:
    """Rows of one batch, and the gradients of their inputs and transients."""

    def __init__(self, batch: Batch, place: Rectangle, tile_rows: int) -> None:
        given, (n_terms, n_dimensions, _) = batch.given, batch.frequency.shape
        self.batch, self.place, self.shape = batch, place, shape_of(place)
        self.tile_places = rectangles(place, tile_rows)
        self._tile_sizes = [samples * rows for samples, rows in map(shape_of, self.tile_places)]
        self.x_place = (batch.number if len(given.x) > 1 else 0, *place)
        x = given.x[self.x_place].flatten(0, 1).mT
        n_inputs, n_transients = len(x), given.gains.shape[2]
        self.time, by_time, self.transients, self.by_transients, x_and_one = workspace.of_share(
            x.shape[1],
            [n_inputs, n_inputs, n_transients, n_transients, n_inputs + n_terms],
            x,
        )
        self.time.copy_(x)  # P R
        self.x = self.time.view(n_terms, n_dimensions, -1).mT  # J R I
        self.by_x = by_time.view(self.x.shape)
        self.x_and_one = x_and_one.view(n_terms, n_dimensions + 1, -1)  # J I+1 R
        self.x_and_one[:, :-1], self.x_and_one[:, -1] = self.x.mT, 1.0
        self.transients.unflatten(1, self.shape).copy_(
            given.transients[(batch.number, slice(None), *place)]
        )

    def flat(self, item: Float[Tensor, "B _ N U"]) -> Float[Tensor, "R U"]:
        """Entries of the rows, for each sample."""
        return self._part(item).expand(*self.shape, -1).reshape(-1, item.shape[-1])

    def add(self, item: Float[Tensor, "R U"], total: Float[Tensor, "B _ N U"]) -> None:
        """Add entries of the rows to those of all, or for all samples."""
        part = self._part(total)
        part += item.view(*self.shape, -1).sum_to_size(part.shape)

    def _part(self, item: Float[Tensor, "B _ N U"]) -> Float[Tensor, "_ N U"]:
        samples, rows = self.place
        return item[self.batch.number, samples if item.shape[1] > 1 else slice(None), rows]

    def cut(self, item: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
        """Entries of each tile; views of all tiles are made together, since each costs time."""
        return item.split(self._tile_sizes, dim)

    def tiles(self) -> Iterator[Tile]:
        """One after the other, in the same buffers."""
        kinds, (n_terms, _, n_columns) = self.batch.kinds, self.batch.frequency.shape
        n_starts = tuple(gains.shape[-1] for gains in self.batch.gains)
        of_tiles = zip(
            self.tile_places,
            self.cut(self.x, 1),
            self.cut(self.x_and_one, 2),
            self._cut_each(self.by_x, 0),
            self._cut_each([self.transients[some] for some in kinds], 1),
            self._cut_each([self.by_transients[some] for some in kinds], 1),
            strict=True,
        )
        for place, *parts in of_tiles:
            shape = TileShape(n_terms, *shape_of(place), n_columns, n_starts)
            yield Tile(self.batch, place, _TileRows(*parts), workspace.of_tile(shape, self.time))

    def _cut_each(self, items: Sequence[Tensor] | Tensor, dim: int) -> list[tuple[Tensor, ...]]:
        """Entries of each tile, of several tensors."""
        if not len(items):
            return [()] * len(self.tile_places)
        return list(zip(*(self.cut(item, dim) for item in items), strict=True))


class Tile:
    """Some rows of a share, so few that what is large stays in the cache."""

    def __init__(
        self, batch: Batch, place: Rectangle, given: _TileRows, memory: TileMemory
    ) -> None:
        self.batch, self.place, self.given, self.memory = batch, place, given, memory

    def evaluate(self) -> None:
        """Make F and its square, their parts one after the other: 2 R K."""
        batch, given, memory = self.batch, self.given, self.memory
        if given.x.shape[-1] == 1:
            torch.addcmul(batch.phase, given.x, batch.frequency, out=memory.sine)
        else:
            torch.baddbmm(batch.phase, given.x, batch.frequency, out=memory.sine)
        torch.cos(memory.sine, out=memory.cosine)
        memory.sine.sin_()
        (first, *others), (amplitude, *amplitudes) = memory.waves, batch.amplitudes
        if batch.base is None:
            torch.mul(first, amplitude, out=memory.value)
        else:
            base, wave = batch.base[:, :, self.place[1]], memory.first_wave_by_sample
            torch.addcmul(base, wave, amplitude, out=memory.value_by_sample)
        for wave, amplitude in zip(others, amplitudes, strict=True):
            memory.value.addcmul_(wave, amplitude)
        for start, rows, gains in zip(
            memory.value_starts, given.transients, batch.gains, strict=True
        ):
            start.baddbmm_(rows.mT.expand(2, -1, -1), gains)
        torch.mul(memory.value, memory.value, out=memory.spare)  # twice as fast as its square

    def moments(self) -> tuple[Float[Tensor, "R U"], Float[Tensor, "R U"]]:
        """Fm and F²v."""
        batch, memory = self.batch, self.memory
        mean = _sum_of_products(memory.values, batch.means)
        return mean, _sum_of_products(memory.spares, batch.variances)

    def pull_back(self, of_mean: Float[Tensor, "R U"], of_variance: Float[Tensor, "R U"]) -> None:
        """Add to the gradients of all arguments; F and its square are overwritten."""
        batch, value, gradient = self.batch, self.memory.value, self.memory.spare
        batch.to_mean.baddbmm_(of_mean.mT.expand(2, -1, -1), value)
        batch.to_variance.baddbmm_(of_variance.mT.expand(2, -1, -1), gradient)
        if of_mean.shape[-1] == 1:  # outer products, in one pass each
            torch.mul(value, batch.twice_variance_rows, out=gradient).mul_(of_variance)
            gradient.addcmul_(of_mean, batch.mean_rows)
        else:
            torch.matmul(of_variance, batch.twice_variance_rows, out=gradient).mul_(value)
            gradient.baddbmm_(of_mean.expand(2, -1, -1), batch.mean_rows)
        if batch.base is not None:
            batch.to_base[:, self.place[1]] += self.memory.spare_by_sample.sum(1)
        self._pull_waves()
        self._pull_transients()

    def _pull_waves(self) -> None:
        """Gradients of the waves' arguments; the waves and F are overwritten."""
        batch, memory = self.batch, self.memory
        real, imag = memory.spares
        for to_amplitude, wave in zip(batch.to_amplitudes, memory.waves, strict=True):
            torch.mul(wave, memory.spare, out=memory.value)
            to_amplitude.addmv_(memory.turned_value, memory.ones)
        across = memory.cosine.mul_(imag).addcmul_(memory.sine, real, value=-1)
        batch.to_angle.baddbmm_(self.given.x_and_one, across)
        for by_x, term, slope in zip(self.given.by_x, memory.cosines, batch.slopes, strict=True):
            torch.mm(term, slope, out=by_x)

    def _pull_transients(self) -> None:
        """Gradients of the transients and their gains."""
        batch, given, memory = self.batch, self.given, self.memory
        for rows, by_rows, gains, to_gains, start, (real, imag) in zip(
            given.transients,
            given.by_transients,
            batch.gains,
            batch.to_gains,
            memory.spare_starts,
            memory.turned_spare_starts,
            strict=True,
        ):
            to_gains.baddbmm_(rows.expand(2, -1, -1), start)
            torch.mm(gains[0], real, out=by_rows)
            by_rows.addmm_(gains[1], imag)


def _sum_of_products(matrices: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Products of real parts and of imaginary parts, together.

    Not in one batch: for weights of a single column that is ten times slower on a CPU.
    """
    (real, imag), (first, second) = matrices, weights
    return torch.mm(real, first).addmm_(imag, second)
