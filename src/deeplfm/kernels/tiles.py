"""Tiles of rows that fit the cache, in buffers that are used again, shared among threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.kernels.arguments import Moments, pull_transients, transient_lines
from deeplfm.kernels.threads import on_threads

# Waves of a tile, and how many make it worth waking a thread.
_TILE_WAVES, _LEAST_WAVES = 2**20, 2**19


class Tiling:
    """How batches, samples and rows are cut into tiles, which threads share."""

    def __init__(self, given: Moments) -> None:
        self.given = given
        n_samples, n_rows = given.x.shape[1:3]
        n_batches, n_terms, _, n_columns = given.frequency.shape
        n_waves = n_batches * n_samples * n_rows * n_terms * n_columns
        self.n_threads = 1
        if given.x.device.type == "cpu":
            self.n_threads = max(1, min(torch.get_num_threads(), n_waves // _LEAST_WAVES))
        tile_waves = min(_TILE_WAVES, n_waves // self.n_threads)
        size = max(1, tile_waves // (n_terms * n_columns))
        row_size = min(n_rows, size)
        sample_size = max(1, size // row_size)
        self.places = [
            (batch, samples, rows)
            for batch in range(n_batches)
            for samples in _slices(n_samples, sample_size)
            for rows in _slices(n_rows, row_size)
        ]

    def run(self, work: Callable[[Iterator[int]], list[Tensor]]) -> list[Tensor]:
        """The sum of what every thread makes of its tiles."""
        first, *others = on_threads(work, len(self.places), self.n_threads)
        for other in others:
            for total, part in zip(first, other, strict=True):
                total += part
        return first

    def tiles(self, shares: Iterator[int], total: Moments | None = None) -> Iterator[Tile]:
        """Some of the tiles; their gradients are added to the total."""
        batch: _Batch | None = None
        for share in shares:
            number, samples, rows = self.places[share]
            if batch is None or batch.number != number:
                batch = _Batch(self.given, total, number)
            yield Tile(batch, samples, rows)


class _Batch:
    """Tables of a batch and of their gradients, as its tiles want them.

    A tile is so small that to ask for a part of a tensor is not free: it is asked for here, once.
    """

    def __init__(self, given: Moments, total: Moments | None, number: int) -> None:
        self.number, self.n_powers = number, given.n_powers
        self.x_number = number if len(given.x) > 1 else 0
        self.x = given.x[self.x_number]  # S N P
        self.frequency, amplitude = given.frequency[number], given.amplitude[number]
        self.amplitudes, self.amplitude = amplitude.unbind(), amplitude[:, None]
        self.phase = given.phase[number, :, None]
        self.slope = (self.frequency * self.amplitude).mT  # ∂F/∂x of a wave, over the wave: J K I
        self.decay, self.extent = given.decay[number], given.extent[number]
        self.gains = given.gains[number]  # 2 L K
        self.base = given.base[:, number] if given.has_base else None  # 2 N K
        parts = 2, self.frequency.shape[-1]
        self.mean = given.mean[number].unflatten(0, parts)  # 2 K U
        self.variance = given.variance[number].unflatten(0, parts)
        if total is not None:
            self.to_x = total.x[self.x_number]
            self.to_frequency, self.to_phase = total.frequency[number], total.phase[number]
            self.to_amplitudes = total.amplitude[number].unbind()
            self.to_decay, self.to_gains = total.decay[number], total.gains[number]
            self.to_base = total.base[:, number]
            self.to_mean = total.mean[number].unflatten(0, parts)
            self.to_variance = total.variance[number].unflatten(0, parts)


class Tile:
    """Some rows of one batch, with buffers for all that is large."""

    def __init__(self, batch: _Batch, samples: slice, rows: slice) -> None:
        self.batch, self.rows, self.place = batch, rows, (batch.number, samples, rows)
        x = batch.x[samples, rows]
        self.x_place, self.lines = (samples, rows), x.shape[:2]
        self.time = x.flatten(0, 1).mT.contiguous()  # P R
        n_terms, n_dimensions, n_columns = batch.frequency.shape
        self.x = self.time.view(n_terms, n_dimensions, -1).mT  # J R I
        self.transients: Tensor | None = None  # L R
        if batch.n_powers >= 0:
            self.transients = transient_lines(self.time, batch.decay, batch.extent, batch.n_powers)
        n_rows = self.time.shape[1]
        self.waves = _buffer("large", (2, n_terms, n_rows, n_columns), x).unbind()
        self.value, self.spare = _buffer("small", (2, 2, n_rows, n_columns), x).unbind()

    def evaluate(self) -> None:
        """Make F, its parts one after the other: 2 R K."""
        batch, (cosine, angle) = self.batch, self.waves
        if self.x.shape[-1] == 1:
            torch.addcmul(batch.phase, self.x, batch.frequency, out=angle)
        else:
            torch.baddbmm(batch.phase, self.x, batch.frequency, out=angle)
        torch.cos(angle, out=cosine)
        angle.sin_()
        bases = (None, None) if batch.base is None else batch.base[:, self.rows]
        for value, wave, base in zip(self.value, self.waves, bases, strict=True):
            terms, (first, *others) = wave.unbind(), batch.amplitudes
            if base is None:
                torch.mul(terms[0], first, out=value)
            else:
                term, total = (item.view(*self.lines, -1) for item in (terms[0], value))
                torch.addcmul(base, term, first, out=total)
            for term, factor in zip(terms[1:], others, strict=True):
                value.addcmul_(term, factor)
        if self.transients is not None:
            self.value.baddbmm_(self.transients.mT.expand(2, -1, -1), batch.gains)

    def moments(self) -> tuple[Tensor, ...]:
        """Fm and F²v, S N U each."""
        square = torch.square(self.value, out=self.spare)
        products = (
            thin_products(value, weights)
            for value, weights in ((self.value, self.batch.mean), (square, self.batch.variance))
        )
        return tuple((real + imag).view(*self.lines, -1) for real, imag in products)

    def pull_back(self, of_mean: Tensor, of_variance: Tensor) -> None:
        """Add what gradients of the moments say of every argument; F is spent on it."""
        batch, value, gradient = self.batch, self.value, self.spare
        of_mean, of_variance = (item.flatten(0, 1) for item in (of_mean, of_variance))  # R U
        if of_mean.shape[-1] == 1:  # outer products, in one pass each
            torch.mul(value, 2 * batch.variance.mT, out=gradient).mul_(of_variance)
            gradient.addcmul_(of_mean, batch.mean.mT)
        else:
            torch.matmul(of_variance, batch.variance.mT, out=gradient).mul_(value)
            gradient.baddbmm_(of_mean.expand(2, -1, -1), batch.mean.mT, beta=2)
        batch.to_mean += torch.bmm(of_mean.mT.expand(2, -1, -1), value).mT
        batch.to_variance += torch.bmm(of_variance.mT.expand(2, -1, -1), value.square_()).mT
        if batch.base is not None:
            batch.to_base[:, self.rows] += gradient.view(2, *self.lines, -1).sum(1)
        self._pull_waves(gradient, value[0])
        if self.transients is not None:
            self._pull_transients(self.transients, gradient)

    def _pull_waves(self, gradient: Tensor, spare: Tensor) -> None:
        """What the gradient of F says of the waves; they are spent on it, as is R K of memory."""
        batch, (cosine, sine), (real, imag) = self.batch, self.waves, gradient
        for to_amplitude, c, s in zip(batch.to_amplitudes, cosine, sine, strict=True):
            to_amplitude += torch.mul(c, real, out=spare).addcmul_(s, imag).sum(0)
        across = cosine.mul_(imag).addcmul_(sine, real, value=-1)
        rows = torch.cat([self.x, torch.ones_like(self.x[..., :1])], dim=-1).mT
        by_table = rows @ across * batch.amplitude
        batch.to_frequency += by_table[:, :-1]
        batch.to_phase += by_table[:, -1]
        self._add_to_x(thin_products(across, batch.slope).mT.flatten(0, 1))

    def _pull_transients(self, lines: Tensor, gradient: Tensor) -> None:
        """What the gradient of F says of the transients."""
        batch = self.batch
        batch.to_gains.baddbmm_(lines.expand(2, -1, -1), gradient)
        (first, second), (real, imag) = batch.gains, gradient
        by_line = torch.addmm(first @ real.mT, second, imag.mT)
        by_time, by_decay = pull_transients(self.time, batch.decay, batch.extent, lines, by_line)
        batch.to_decay += by_decay
        self._add_to_x(by_time)

    def _add_to_x(self, by_time: Float[Tensor, "P R"]) -> None:
        self.batch.to_x[self.x_place] += by_time.mT.view(*self.lines, -1)


def _slices(total: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, total)) for first in range(0, total, size)]


_workspace = threading.local()


def _buffer(name: str, shape: tuple[int, ...], x: Tensor) -> Tensor:
    """Memory that every tile uses again: to ask the system for fresh pages costs as much as the sines."""
    size = math.prod(shape)
    kept: Tensor | None = getattr(_workspace, name, None)
    if kept is None or kept.numel() < size or kept.dtype != x.dtype or kept.device != x.device:
        kept = x.new_empty(size)
        setattr(_workspace, name, kept)
    return kept[:size].view(shape)


def thin_products(matrices: Tensor, tables: Tensor) -> Tensor:
    """Products with tables of few columns; by vectors where it is one: ten times faster on a CPU."""
    if tables.shape[-1] > 1:
        return torch.bmm(matrices, tables)
    lines = [torch.mv(a, b) for a, b in zip(matrices, tables[..., 0], strict=True)]
    return torch.stack(lines).unsqueeze(-1)
