"""Tiles of rows that fit the cache, in buffers that are used again, shared among threads.

Threads take *shares*: many rows, for which all that is short is made at once. A share goes through its
rows in *tiles*, each so small that what is large stays in the cache, with as few calls as can be: while
one thread is in Python, no other can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from threading import Lock
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.kernels.arguments import Moments, pull_transients, transient_lines
from deeplfm.kernels.rectangles import Lines, rectangles
from deeplfm.kernels.threads import on_threads
from deeplfm.kernels.workspace import workspace

# Waves of a tile, tiles of a share, and how many waves are worth a thread, or sorting columns.
_TILE_WAVES, _SHARE_TILES, _LEAST_WAVES = 3 * 2**18, 3, 2**19


class Tiling:
    """How batches, samples and rows are cut into shares and tiles.

    Args:
        given: what the moments are made of.
        has_gradients: whether tiles are pulled back.
    """

    def __init__(self, given: Moments, has_gradients: bool = True) -> None:
        self.given, self.order, self.kinds = _sorted_by_transients(given)
        # Rows are many: all threads add to one gradient of them, and each to its own of the tables.
        self.by_x, self.adds_to_x = given.x.new_empty(0), Lock()
        if has_gradients:
            self.by_x = torch.zeros_like(given.x)
        n_samples, n_rows = given.x.shape[1:3]
        n_batches, n_terms, _, n_columns = given.frequency.shape
        n_lines = n_batches * n_samples * n_rows
        self.n_threads = 1
        if given.x.device.type == "cpu":
            worthwhile = given.n_waves // _LEAST_WAVES
            self.n_threads = max(1, min(torch.get_num_threads(), worthwhile))
        self.tile_lines = max(1, _TILE_WAVES // (n_terms * n_columns))
        most = max(1, min(_SHARE_TILES * self.tile_lines, n_lines // self.n_threads))
        shares = rectangles((slice(0, n_samples), slice(0, n_rows)), most, self.n_threads)
        self.shares = [(batch, lines) for batch in range(n_batches) for lines in shares]

    def run(self, work: Callable[[Iterator[int]], list[Tensor]]) -> list[Tensor]:
        """The sum of what every thread makes of its shares."""
        first, *others = on_threads(work, len(self.shares), self.n_threads)
        for other in others:
            for total, part in zip(first, other, strict=True):
                total += part
        return first

    def zeros(self) -> Moments:
        """Gradients of a thread's own, before anything is added to them."""
        return self.given._replace(x=self.given.x.new_empty(0)).zeros()

    def tiles(self, numbers: Iterator[int], total: Moments | None = None) -> Iterator[Tile]:
        """Those of some shares; their gradients are added to the total."""
        for number in numbers:
            share = _Share(self, *self.shares[number], total)
            for samples, rows in rectangles(share.lines, self.tile_lines):
                yield Tile(share, samples, rows)
            if total is not None:
                by_rows = share.add_to(total)
                with self.adds_to_x:
                    self.by_x[share.x_place] += by_rows

    def as_given(self, gradients: Moments) -> Moments:
        """Gradients of all threads with that of the rows, columns in the order of what was given."""
        gradients = gradients._replace(x=self.by_x)
        return gradients if self.order is None else gradients.with_columns(self.order.argsort(-1))


def _sorted_by_transients(
    given: Moments,
) -> tuple[Moments, Tensor | None, list[tuple[slice, int]]]:
    """Columns that have powers among their transients first, their order, and which are how many.

    All columns have exponentials, few have powers: those are a small product, if they are together. For
    a few rows that is not worth the sorting.

    Returns:
        Arguments, the order, and for each kind of transients which they are and how many columns, from
        the first on, may have them.
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


class _Transients(NamedTuple):
    """One kind of transients of a share: rows, gains of the columns that have them, gradients of both."""

    rows: Float[Tensor, "L R"]
    gains: tuple[Float[Tensor, "L K"], ...]  # real and imaginary
    by_rows: Float[Tensor, "L R"]
    to_gains: tuple[Float[Tensor, "L K"], ...]


class _Share:
    """Rows of one batch with their transients, its tables, and gradients of both."""

    def __init__(self, tiling: Tiling, batch: int, lines: Lines, total: Moments | None) -> None:
        given = tiling.given
        self.number, self.lines = batch, lines
        self.frequency, self.amplitude = given.frequency[batch], given.amplitude[batch]
        self.amplitudes, self.phase = self.amplitude.unbind(), given.phase[batch, :, None]
        self.decay, self.extent = given.decay[batch], given.extent[batch]
        self.base = given.base[:, batch] if given.has_base else None  # 2 N K
        n_terms, n_dimensions, n_columns = self.frequency.shape
        parts = 2, n_columns
        self.mean = given.mean[batch].unflatten(0, parts)  # 2 K U
        self.variance = given.variance[batch].unflatten(0, parts)
        self.means, self.variances = self.mean.unbind(), self.variance.unbind()

        self.x_place = (batch if len(given.x) > 1 else 0, *lines)
        x = given.x[self.x_place].flatten(0, 1).mT
        self.time, self.by_time, self.transient_rows, self.by_transients, rows = workspace.of_share(
            x, given.gains.shape[2], n_terms * (n_dimensions + 1)
        )
        self.time.copy_(x)  # P R
        self.x = self.time.view(n_terms, n_dimensions, -1).mT  # J R I
        sums = total or given  # without a total nothing is pulled back, and nothing added
        self.transients = self._transients(tiling, given.gains[batch], sums.gains[batch])
        if total is None:
            return
        self.rows = rows.view(n_terms, n_dimensions + 1, -1)  # J I+1 R: inputs and ones
        self.rows[:, :-1], self.rows[:, -1] = self.x.mT, 1.0
        self.slopes = (self.frequency * self.amplitude[:, None]).mT.unbind()  # ∂F/∂x over F: K I
        self.by_table = self.time.new_zeros(n_terms, n_dimensions + 1, n_columns)
        self.by_x = self.by_time.view(self.x.shape).unbind()  # R I of each term
        self.to_amplitudes, self.to_base = total.amplitude[batch].unbind(), total.base[:, batch]
        self.to_mean = total.mean[batch].unflatten(0, parts).mT  # 2 U K
        self.to_variance = total.variance[batch].unflatten(0, parts).mT

    def _transients(self, tiling: Tiling, gains: Tensor, to_gains: Tensor) -> list[_Transients]:
        if not tiling.kinds:
            return []
        lines = transient_lines(self.time, self.decay, self.extent, tiling.given.n_powers)
        for rows, line in zip(self.transient_rows.split(len(self.time)), lines, strict=True):
            rows.copy_(line)
        return [
            _Transients(
                self.transient_rows[some],
                gains[:, some, :n_columns].unbind(),
                self.by_transients[some],
                to_gains[:, some, :n_columns].unbind(),
            )
            for some, n_columns in tiling.kinds
        ]

    def add_to(self, total: Moments) -> Float[Tensor, "S N P"]:
        """Add what gradients of waves and transients, now complete, say of tables; return that of x."""
        by_table = self.by_table * self.amplitude[:, None]
        total.frequency[self.number] += by_table[:, :-1]
        total.phase[self.number] += by_table[:, -1]
        by_x = torch.stack(self.by_x).mT.reshape(self.time.shape)
        if self.transients:
            by_time, by_decay = pull_transients(
                self.time, self.decay, self.extent, self.transient_rows, self.by_transients
            )
            total.decay[self.number] += by_decay
            by_x = by_time.add_(by_x)
        samples, _ = self.lines
        return by_x.mT.unflatten(0, (samples.stop - samples.start, -1))


class Tile:
    """Some rows of a share, with buffers for all that is large."""

    def __init__(self, share: _Share, samples: slice, rows: slice) -> None:
        self.share, self.rows, self.place = share, rows, (share.number, samples, rows)
        self.lines = samples.stop - samples.start, rows.stop - rows.start
        all_samples, all_rows = share.lines
        first = (samples.start - all_samples.start) * (all_rows.stop - all_rows.start)
        first += rows.start - all_rows.start
        n_lines = math.prod(self.lines)
        self.here = slice(first, first + n_lines)
        n_terms, _, n_columns = share.frequency.shape
        self.memory = workspace.of_tile(n_terms, n_lines, n_columns, share.x)

    def evaluate(self) -> None:
        """Make F and its square, their parts one after the other: 2 R K."""
        share, memory = self.share, self.memory
        x, angle = share.x[:, self.here], memory.sine
        if x.shape[-1] == 1:
            torch.addcmul(share.phase, x, share.frequency, out=angle)
        else:
            torch.baddbmm(share.phase, x, share.frequency, out=angle)
        torch.cos(angle, out=memory.cosine)
        angle.sin_()
        bases = (None, None) if share.base is None else share.base[:, self.rows]
        first_factor, *factors = share.amplitudes
        for value, (first, *terms), base in zip(
            memory.values, (memory.cosines, memory.sines), bases, strict=True
        ):
            if base is None:
                torch.mul(first, first_factor, out=value)
            else:
                term, total = (item.view(*self.lines, -1) for item in (first, value))
                torch.addcmul(base, term, first_factor, out=total)
            for term, factor in zip(terms, factors, strict=True):
                value.addcmul_(term, factor)
        for kind in share.transients:
            rows = kind.rows[:, self.here].mT
            for value, gains in zip(memory.values, kind.gains, strict=True):
                value[:, : gains.shape[-1]].addmm_(rows, gains)
        torch.mul(memory.value, memory.value, out=memory.spare)  # twice as fast as its square

    def moments(self) -> tuple[Tensor, Tensor]:
        """Fm and F²v, S N U each."""
        share, memory = self.share, self.memory
        mean = _sum_of_products(memory.values, share.means)
        variance = _sum_of_products(memory.spares, share.variances)
        return mean.view(*self.lines, -1), variance.view(*self.lines, -1)

    def pull_back(self, of_mean: Tensor, of_variance: Tensor) -> None:
        """Add what gradients of the moments say of every argument; F and its square are spent on it."""
        share, value, gradient = self.share, self.memory.value, self.memory.spare
        of_mean, of_variance = (item.flatten(0, 1) for item in (of_mean, of_variance))  # R U
        share.to_mean.baddbmm_(of_mean.mT.expand(2, -1, -1), value)
        share.to_variance.baddbmm_(of_variance.mT.expand(2, -1, -1), gradient)
        if of_mean.shape[-1] == 1:  # outer products, in one pass each
            torch.mul(value, 2 * share.variance.mT, out=gradient).mul_(of_variance)
            gradient.addcmul_(of_mean, share.mean.mT)
        else:
            torch.matmul(of_variance, share.variance.mT, out=gradient).mul_(value)
            gradient.baddbmm_(of_mean.expand(2, -1, -1), share.mean.mT, beta=2)
        if share.base is not None:
            share.to_base[:, self.rows] += gradient.view(2, *self.lines, -1).sum(1)
        self._pull_waves()
        self._pull_transients()

    def _pull_waves(self) -> None:
        """What the gradient of F says of the waves; they are spent on it, and F as well."""
        share, memory, (real, imag) = self.share, self.memory, self.memory.spares
        along, ones = memory.values[0], share.rows[0, -1, self.here]
        for to_amplitude, cosine, sine in zip(
            share.to_amplitudes, memory.cosines, memory.sines, strict=True
        ):
            torch.mul(cosine, real, out=along).addcmul_(sine, imag)
            to_amplitude.addmv_(along.mT, ones)
        across = memory.cosine.mul_(imag).addcmul_(memory.sine, real, value=-1)
        share.by_table.baddbmm_(share.rows[:, :, self.here], across)
        for by_x, term, slope in zip(share.by_x, memory.cosines, share.slopes, strict=True):
            torch.mm(term, slope, out=by_x[self.here])

    def _pull_transients(self) -> None:
        """What the gradient of F says of the transients."""
        for kind in self.share.transients:
            rows, by_rows = kind.rows[:, self.here], kind.by_rows[:, self.here]
            real, imag = (part[:, : kind.gains[0].shape[-1]] for part in self.memory.spares)
            for to_gains, part in zip(kind.to_gains, (real, imag), strict=True):
                to_gains.addmm_(rows, part)
            torch.mm(kind.gains[0], real.mT, out=by_rows)
            by_rows.addmm_(kind.gains[1], imag.mT)


def _sum_of_products(matrices: tuple[Tensor, ...], tables: tuple[Tensor, ...]) -> Tensor:
    """Products of real parts and of imaginary parts, together.

    Not in one batch: for tables of a single column that is ten times slower on a CPU.
    """
    (real, imag), (first, second) = matrices, tables
    return torch.mm(real, first).addmm_(imag, second)
