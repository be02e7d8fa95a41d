"""The kernels in plain PyTorch: tiles of rows that fit the cache, in buffers that are used again."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from deeplfm.kernels.arguments import Moments, pull_transients, transient_rows

_TILE_WAVES = 2**20


class PlainKernels:
    """Sums of waves, their gradients, and their products with weights."""

    def evaluate(
        self, x: Tensor, frequency: Tensor, amplitude: Tensor, phase: Tensor, *bases: Tensor | None
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """See :func:`deeplfm.features.waves.wave_sum`; cosines and sines are kept."""
        if x.shape[-1] == 1:
            angle = torch.addcmul(phase[:, :, None, None], x, frequency[:, :, None])  # B J S N K
        else:
            angle = (x.flatten(2, 3) @ frequency).add_(phase[:, :, None]).unflatten(2, x.shape[2:4])
        waves = torch.cos(angle), angle.sin_()
        parts = (
            _add_terms(wave, amplitude[:, :, None, None], base)
            for wave, base in zip(waves, bases, strict=True)
        )
        return tuple(parts), waves

    def pull_back(
        self,
        x: Tensor,
        frequency: Tensor,
        amplitude: Tensor,
        phase: Tensor,
        grad_real: Tensor,
        grad_imag: Tensor,
        kept: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:
        """Gradients of x, ω, a and α, from those of :meth:`evaluate`."""
        cosine, sine = kept
        grad_real, grad_imag = grad_real[:, None], grad_imag[:, None]  # B 1 S N K
        along = torch.mul(cosine, grad_real).addcmul_(sine, grad_imag)  # ∂/∂a
        grad_amplitude = along.sum((2, 3))
        across = torch.mul(cosine, grad_imag, out=along).addcmul_(sine, grad_real, value=-1)
        across = across.flatten(2, 3)  # ∂/∂α over a: B J SN K
        rows = x.flatten(2, 3)
        rows = torch.cat([rows, torch.ones_like(rows[..., :1])], dim=-1).mT  # #B J I+1 SN
        grad_table = (rows @ across) * amplitude[:, :, None]
        table = (frequency * amplitude[:, :, None]).mT.flatten(0, 1)
        grad_x = torch.empty(*across.shape[:-1], x.shape[-1], dtype=x.dtype, device=x.device)
        _thin_products(across.flatten(0, 1), table, grad_x.flatten(0, 1))
        grad_x = grad_x.unflatten(2, x.shape[2:4]).sum_to_size(x.shape)
        return grad_x, grad_table[:, :, :-1], grad_amplitude, grad_table[:, :, -1]

    def moments(self, given: Moments) -> tuple[Tensor, Tensor]:
        """Φm and Φ²v: B S N U each."""
        totals = given.empty()
        for tile in _tiles(given):
            value = tile.evaluate()
            for total, weights in zip(totals, tile.weights, strict=True):
                found = value[0] @ weights[0]
                found.addmm_(value[1], weights[1])
                total[tile.place] = found.view(*tile.lines, -1)
                value.square_()
        return totals

    def pull_moments(self, given: Moments, grad_mean: Tensor, grad_variance: Tensor) -> Moments:
        """Gradients of all arguments of :meth:`moments`."""
        total = Moments(*(torch.zeros_like(item) for item in given))
        for tile in _tiles(given):
            of_mean, of_variance = (
                item[tile.place].reshape(-1, item.shape[-1]) for item in (grad_mean, grad_variance)
            )
            tile.pull_back(of_mean, of_variance, total)
        return total


class _Tile:
    """Some rows of one batch, with the tables of the batch and buffers for all that is large."""

    def __init__(
        self,
        given: Moments,
        batch: int,
        samples: slice,
        rows: slice,
    ) -> None:
        self.batch, self.rows, self.place = batch, rows, (batch, samples, rows)
        self.x_place = (batch if len(given.x) > 1 else 0, samples, rows)
        x = given.x[self.x_place]
        self.lines = x.shape[:2]
        self.time = x.flatten(0, 1)  # R P
        n_terms, n_dimensions, n_columns = given.frequency.shape[1:]
        self.x = self.time.unflatten(1, (n_terms, n_dimensions)).movedim(1, 0)  # J R I
        self.frequency, self.amplitude, self.phase = (
            table[batch] for table in (given.frequency, given.amplitude, given.phase)
        )
        self.decay, self.extent = given.decay[batch], given.extent[batch]
        self.transients = x.new_empty(len(self.time), 0)  # R L
        if given.n_powers >= 0:
            self.transients = transient_rows(self.time, self.decay, self.extent, given.n_powers)
        self.gains = given.gains[batch]  # 2 L K
        self.base = given.base[:, batch, rows] if given.has_base else None  # 2 N K
        self.weights = [item[batch].view(2, n_columns, -1) for item in (given.mean, given.variance)]
        n_rows = len(self.time)
        self.large = _buffer("large", (3, n_terms, n_rows, n_columns), x)
        self.small = _buffer("small", (2, 2, n_rows, n_columns), x)

    def evaluate(self) -> Tensor:
        """F, its parts one after the other: 2 R K."""
        cosine, sine, angle = self.large
        value = self.small[0]
        if self.x.shape[-1] == 1:
            torch.addcmul(self.phase[:, None], self.x, self.frequency, out=angle)
        else:
            torch.baddbmm(self.phase[:, None], self.x, self.frequency, out=angle)
        torch.cos(angle, out=cosine)
        torch.sin(angle, out=sine)
        if self.base is not None:
            value.view(2, *self.lines, -1).copy_(self.base[:, None])
        rows = self.transients.expand(2, -1, -1)
        torch.baddbmm(value, rows, self.gains, beta=self.base is not None, out=value)
        for part, wave in zip(value, (cosine, sine), strict=True):
            for term, amplitude in zip(wave, self.amplitude, strict=True):
                part.addcmul_(term, amplitude)
        return value

    def pull_back(self, of_mean: Tensor, of_variance: Tensor, total: Moments) -> None:
        """Add what gradients of the moments say of every argument."""
        value, gradient = self.evaluate(), self.small[1]
        mean, variance = self.weights
        if mean.shape[-1] == 1:  # outer products, in one pass each
            torch.mul(value, 2 * variance.mT, out=gradient).mul_(of_variance)
            gradient.addcmul_(of_mean, mean.mT)
        else:
            torch.matmul(of_variance, variance.mT, out=gradient).mul_(value)
            gradient.baddbmm_(of_mean.expand(2, -1, -1), mean.mT, beta=2)
        for moment, weights in ((of_mean, total.mean), (of_variance, total.variance)):
            by_unit = torch.bmm(moment.mT.expand(2, -1, -1), value).mT  # 2 K U
            weights[self.batch] += by_unit.reshape(weights[self.batch].shape)
            value.square_()
        if self.base is not None:
            total.base[:, self.batch, self.rows] += gradient.view(2, *self.lines, -1).sum(1)
        cosine, sine, buffer = self.large
        along = torch.mul(cosine, gradient[0], out=buffer).addcmul_(sine, gradient[1])
        total.amplitude[self.batch] += along.sum(1)
        across = torch.mul(cosine, gradient[1], out=buffer).addcmul_(sine, gradient[0], value=-1)
        ones = torch.ones_like(self.x[..., :1])
        by_table = torch.cat([self.x, ones], dim=-1).mT @ across * self.amplitude[:, None]
        total.frequency[self.batch] += by_table[:, :-1]
        total.phase[self.batch] += by_table[:, -1]
        table = (self.frequency * self.amplitude[:, None]).mT
        found = self.x.new_empty(self.x.shape)
        _thin_products(across, table, found)
        by_x = found.movedim(0, 1).flatten(1)  # R P
        if self.transients.shape[-1]:
            total.gains[self.batch].baddbmm_(self.transients.mT.expand(2, -1, -1), gradient)
            by_time, by_decay = pull_transients(
                self.time,
                self.decay,
                self.extent,
                self.transients,
                torch.bmm(gradient, self.gains.mT).sum(0),
            )
            by_x += by_time
            total.decay[self.batch] += by_decay
        total.x[self.x_place] += by_x.view(*self.lines, -1)


def _tiles(given: Moments) -> Iterator[_Tile]:
    """Tiles of all batches, samples and rows."""
    n_samples, n_rows = given.x.shape[1:3]
    n_terms, _, n_columns = given.frequency.shape[1:]
    size = max(1, _TILE_WAVES // (n_terms * n_columns))
    row_size = min(n_rows, size)
    sample_size = max(1, size // row_size)
    for batch in range(len(given.frequency)):
        for sample in range(0, n_samples, sample_size):
            for row in range(0, n_rows, row_size):
                samples = slice(sample, min(sample + sample_size, n_samples))
                rows = slice(row, min(row + row_size, n_rows))
                yield _Tile(given, batch, samples, rows)


_workspace = threading.local()


def _buffer(name: str, shape: tuple[int, ...], x: Tensor) -> Tensor:
    """Memory that every tile uses again: to ask the system for fresh pages costs as much as the sines."""
    size = math.prod(shape)
    kept: Tensor | None = getattr(_workspace, name, None)
    if kept is None or kept.numel() < size or kept.dtype != x.dtype or kept.device != x.device:
        kept = x.new_empty(size)
        setattr(_workspace, name, kept)
    return kept[:size].view(shape)


def _add_terms(wave: Tensor, amplitude: Tensor, base: Tensor | None) -> Tensor:
    """Σ_j a_j · wave_j + base."""
    total: Tensor | None = None
    for term, factor in zip(wave.unbind(1), amplitude.unbind(1), strict=True):
        if total is not None:
            total.addcmul_(term, factor)
        else:
            total = term * factor if base is None else torch.addcmul(base, term, factor)
    if total is None:
        raise ValueError("a sum of waves needs at least one term")
    return total


def _thin_products(matrices: Tensor, tables: Tensor, results: Tensor) -> None:
    """Products with tables of few columns; by vectors where it is one: ten times faster on a CPU."""
    if tables.shape[-1] > 1:
        torch.bmm(matrices, tables, out=results)
        return
    for matrix, table, result in zip(matrices, tables, results, strict=True):
        torch.mv(matrix, table[:, 0], out=result[:, 0])
