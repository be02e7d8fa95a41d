"""The kernels in plain PyTorch: tiles of rows that fit the cache, in buffers that are used again."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from deeplfm.kernels.arguments import Moments, pull_transients, transient_lines

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
        grad_x = _thin_products(across.flatten(0, 1), table).unflatten(0, across.shape[:2])
        grad_x = grad_x.unflatten(2, x.shape[2:4]).sum_to_size(x.shape)
        return grad_x, grad_table[:, :, :-1], grad_amplitude, grad_table[:, :, -1]

    def moments(self, given: Moments) -> tuple[Tensor, Tensor]:
        """Φm and Φ²v: B S N U each."""
        totals = given.empty()
        for tile in _tiles(given):
            tile.evaluate()
            for total, found in zip(totals, tile.moments(), strict=True):
                total[tile.place] = found
        return totals

    def pull_moments(self, given: Moments, grad_mean: Tensor, grad_variance: Tensor) -> Moments:
        """Gradients of all arguments of :meth:`moments`."""
        total = Moments(*(torch.zeros_like(item) for item in given))
        for tile in _tiles(given):
            tile.evaluate()
            tile.pull_back(grad_mean[tile.place], grad_variance[tile.place], total)
        return total

    def squares(
        self, given: Moments, target: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Moments]:
        """Σ_s (y − Φm)² + Φ²v, and the gradients of its sum weighted by w: of y, and of all else.

        What the mean and the variance of a row are to the sum is known as soon as they are. So sines
        and cosines are evaluated once for both, and no moment is kept.

        Args:
            given: what the moments are made of.
            target: y for all samples or for each, B #S N U.
            weight: w, B N U.
        """
        squares, by_target = torch.zeros_like(weight), torch.zeros_like(target)
        total = Moments(*(torch.zeros_like(item) for item in given))
        for tile in _tiles(given):
            batch, samples, rows = tile.place
            own = (batch, samples if target.shape[1] > 1 else slice(None), rows)
            tile.evaluate()
            mean, variance = tile.moments()
            error = mean - target[own]
            squares[batch, rows] += (error.square() + variance).sum(0)
            of_variance = weight[batch, rows].expand_as(error)
            of_mean = 2 * of_variance * error
            by_target[own] -= of_mean.sum_to_size(target[own].shape)
            tile.pull_back(of_mean, of_variance, total)
        return squares, by_target, total


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
        self.time = x.flatten(0, 1).mT.contiguous()  # P R
        n_terms, n_dimensions, n_columns = given.frequency.shape[1:]
        self.x = self.time.unflatten(0, (n_terms, n_dimensions)).mT  # J R I
        self.frequency, self.amplitude, self.phase = (
            table[batch] for table in (given.frequency, given.amplitude, given.phase)
        )
        self.decay, self.extent = given.decay[batch], given.extent[batch]
        self.transients: Tensor | None = None  # L R
        if given.n_powers >= 0:
            self.transients = transient_lines(self.time, self.decay, self.extent, given.n_powers)
        self.gains = given.gains[batch]  # 2 L K
        self.base = given.base[:, batch, rows] if given.has_base else None  # 2 N K
        self.weights = [item[batch].view(2, n_columns, -1) for item in (given.mean, given.variance)]
        n_rows = self.time.shape[1]
        self.large = _buffer("large", (2, n_terms, n_rows, n_columns), x)
        self.value, self.spare = _buffer("small", (2, 2, n_rows, n_columns), x)

    def evaluate(self) -> None:
        """Make F, its parts one after the other: 2 R K."""
        cosine, angle = self.large
        if self.x.shape[-1] == 1:
            torch.addcmul(self.phase[:, None], self.x, self.frequency, out=angle)
        else:
            torch.baddbmm(self.phase[:, None], self.x, self.frequency, out=angle)
        torch.cos(angle, out=cosine)
        angle.sin_()
        for part, wave in enumerate(self.large):
            value, amplitude = self.value[part], self.amplitude
            if self.base is None:
                torch.mul(wave[0], amplitude[0], out=value)
            else:
                term, total = (item.view(*self.lines, -1) for item in (wave[0], value))
                torch.addcmul(self.base[part], term, amplitude[0], out=total)
            for term, factor in zip(wave[1:], amplitude[1:], strict=True):
                value.addcmul_(term, factor)
        if self.transients is not None:
            self.value.baddbmm_(self.transients.mT.expand(2, -1, -1), self.gains)

    def moments(self) -> tuple[Tensor, ...]:
        """Fm and F²v, S N U each."""
        square = torch.square(self.value, out=self.spare)
        products = (
            _thin_products(value, weights)
            for value, weights in zip((self.value, square), self.weights, strict=True)
        )
        return tuple((real + imag).view(*self.lines, -1) for real, imag in products)

    def pull_back(self, of_mean: Tensor, of_variance: Tensor, total: Moments) -> None:
        """Add what gradients of the moments say of every argument; F is spent on it."""
        of_mean, of_variance = (item.flatten(0, 1) for item in (of_mean, of_variance))  # R U
        value, gradient = self.value, self.spare
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
        cosine, sine = self.large
        for by_amplitude, *term in zip(total.amplitude[self.batch], cosine, sine, strict=True):
            along = torch.mul(term[0], gradient[0], out=value[0]).addcmul_(term[1], gradient[1])
            by_amplitude += along.sum(0)
        across = cosine.mul_(gradient[1]).addcmul_(sine, gradient[0], value=-1)
        ones = torch.ones_like(self.x[..., :1])
        by_table = torch.cat([self.x, ones], dim=-1).mT @ across * self.amplitude[:, None]
        total.frequency[self.batch] += by_table[:, :-1]
        total.phase[self.batch] += by_table[:, -1]
        table = (self.frequency * self.amplitude[:, None]).mT
        by_time = _thin_products(across, table).mT.flatten(0, 1)  # P R
        if self.transients is not None:
            total.gains[self.batch].baddbmm_(self.transients.expand(2, -1, -1), gradient)
            by_line = torch.addmm(self.gains[0] @ gradient[0].mT, self.gains[1], gradient[1].mT)
            by_transients, by_decay = pull_transients(
                self.time, self.decay, self.extent, self.transients, by_line
            )
            by_time = by_time + by_transients
            total.decay[self.batch] += by_decay
        total.x[self.x_place] += by_time.mT.view(*self.lines, -1)


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


def _thin_products(matrices: Tensor, tables: Tensor) -> Tensor:
    """Products with tables of few columns; by vectors where it is one: ten times faster on a CPU."""
    if tables.shape[-1] > 1:
        return torch.bmm(matrices, tables)
    lines = [torch.mv(a, b) for a, b in zip(matrices, tables[..., 0], strict=True)]
    return torch.stack(lines).unsqueeze(-1)
