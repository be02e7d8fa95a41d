"""The arithmetic of a tile: rows so few that what is large stays in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.kernels.arguments import Moments
from deeplfm.kernels.rectangles import Lines
from deeplfm.kernels.workspace import TileMemory

Kinds = list[tuple[slice, int]]  # of transients: which, and how many columns, from the first on


class Sums(NamedTuple):
    """Gradients as tiles add them up.

    Attributes:
        table: of frequencies and, last, of phases; both are still to be multiplied by amplitudes.
        amplitude: as in the arguments.
        decay: as in the arguments.
        gains: as in the arguments.
        base: as in the arguments.
        mean: by part and unit.
        variance: by part and unit.
    """

    table: Float[Tensor, "B J I+1 K"]
    amplitude: Float[Tensor, "B J K"]
    decay: Float[Tensor, "B P"]
    gains: Float[Tensor, "B 2 L K"]
    base: Float[Tensor, "2 B M K"]
    mean: Float[Tensor, "B 2 U K"]
    variance: Float[Tensor, "B 2 U K"]

    @classmethod
    def of(cls, given: Moments) -> Sums:
        """Before anything is added to them."""
        n_batches, n_terms, n_dimensions, n_columns = given.frequency.shape
        table = given.frequency.new_zeros(n_batches, n_terms, n_dimensions + 1, n_columns)
        weights = given.mean.new_zeros(2, n_batches, 2, given.mean.shape[-1], n_columns)
        kept = (given.amplitude, given.decay, given.gains, given.base)
        return cls(table, *map(torch.zeros_like, kept), *weights)

    def gradients(self, given: Moments, by_x: Tensor) -> Moments:
        """Those of the arguments."""
        by_table = self.table * given.amplitude[:, :, None]
        return Moments(
            x=by_x,
            frequency=by_table[:, :, :-1],
            amplitude=self.amplitude,
            phase=by_table[:, :, -1],
            decay=self.decay,
            extent=torch.zeros_like(given.extent),
            gains=self.gains,
            base=self.base,
            mean=self.mean.mT.flatten(1, 2),
            variance=self.variance.mT.flatten(1, 2),
        )


class BatchTables:
    """Tables of one batch in the parts that tiles ask for, and where their gradients are added up.

    Args:
        given: arguments of all batches.
        number: which of them.
        kinds: transients that are multiplied together.
        sums: of a thread, where gradients are asked for.
    """

    def __init__(self, given: Moments, number: int, kinds: Kinds, sums: Sums | None) -> None:
        self.given, self.number = given, number
        self.frequency, self.amplitude = given.frequency[number], given.amplitude[number]
        self.amplitudes, self.phase = self.amplitude.unbind(), given.phase[number, :, None]
        self.decay, self.extent = given.decay[number], given.extent[number]
        self.base = given.base[:, number, None] if given.has_base else None  # 2 1 N K
        parts = 2, self.frequency.shape[-1]
        self.mean = given.mean[number].unflatten(0, parts)  # 2 K U
        self.variance = given.variance[number].unflatten(0, parts)
        self.means, self.variances = self.mean.unbind(), self.variance.unbind()
        self.kinds = [some for some, _ in kinds]
        self.gains = [given.gains[number, :, some, :n] for some, n in kinds]  # 2 L k
        if sums is None:
            return
        self.mean_lines, self.twice_variance_lines = self.mean.mT, 2 * self.variance.mT  # 2 U K
        self.slopes = (self.frequency * self.amplitude[:, None]).mT.unbind()  # ∂F/∂x over F: K I
        self.to_table, self.to_amplitudes = sums.table[number], sums.amplitude[number].unbind()
        self.to_decay, self.to_base = sums.decay[number], sums.base[:, number]
        self.to_gains = [sums.gains[number, :, some, :n] for some, n in kinds]
        self.to_mean, self.to_variance = sums.mean[number], sums.variance[number]


class TileRows(NamedTuple):
    """What belongs to the rows of a tile.

    Attributes:
        x: inputs of each term.
        table: inputs of each term, and ones.
        by_x: gradient of each term's inputs, to be filled.
        transients: of each kind.
        by_transients: their gradients, to be filled.
    """

    x: Float[Tensor, "J R I"]
    table: Float[Tensor, "J I+1 R"]
    by_x: Sequence[Float[Tensor, "R I"]]
    transients: Sequence[Float[Tensor, "L R"]]
    by_transients: Sequence[Float[Tensor, "L R"]]


class Tile:
    """Some rows of a share.

    Args:
        batch: tables of the rows' batch.
        lines: samples and rows.
        given: what belongs to them.
        memory: buffers for all that is large.
    """

    def __init__(
        self, batch: BatchTables, lines: Lines, given: TileRows, memory: TileMemory
    ) -> None:
        self.batch, self.lines, self.given, self.memory = batch, lines, given, memory

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
            base, wave = batch.base[:, :, self.lines[1]], memory.first_wave_by_sample
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
        """Add what gradients of the moments say of every argument; F and its square are spent on it."""
        batch, value, gradient = self.batch, self.memory.value, self.memory.spare
        batch.to_mean.baddbmm_(of_mean.mT.expand(2, -1, -1), value)
        batch.to_variance.baddbmm_(of_variance.mT.expand(2, -1, -1), gradient)
        if of_mean.shape[-1] == 1:  # outer products, in one pass each
            torch.mul(value, batch.twice_variance_lines, out=gradient).mul_(of_variance)
            gradient.addcmul_(of_mean, batch.mean_lines)
        else:
            torch.matmul(of_variance, batch.twice_variance_lines, out=gradient).mul_(value)
            gradient.baddbmm_(of_mean.expand(2, -1, -1), batch.mean_lines)
        if batch.base is not None:
            batch.to_base[:, self.lines[1]] += self.memory.spare_by_sample.sum(1)
        self._pull_waves()
        self._pull_transients()

    def _pull_waves(self) -> None:
        """What the gradient of F says of the waves; they are spent on it, and F as well."""
        batch, memory = self.batch, self.memory
        real, imag = memory.spares
        for to_amplitude, wave in zip(batch.to_amplitudes, memory.waves, strict=True):
            torch.mul(wave, memory.spare, out=memory.value)
            to_amplitude.addmv_(memory.turned_value, memory.ones)
        across = memory.cosine.mul_(imag).addcmul_(memory.sine, real, value=-1)
        batch.to_table.baddbmm_(self.given.table, across)
        for by_x, term, slope in zip(self.given.by_x, memory.cosines, batch.slopes, strict=True):
            torch.mm(term, slope, out=by_x)

    def _pull_transients(self) -> None:
        """What the gradient of F says of the transients."""
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


def _sum_of_products(matrices: Sequence[Tensor], tables: Sequence[Tensor]) -> Tensor:
    """Products of real parts and of imaginary parts, together.

    Not in one batch: for tables of a single column that is ten times slower on a CPU.
    """
    (real, imag), (first, second) = matrices, tables
    return torch.mm(real, first).addmm_(imag, second)
