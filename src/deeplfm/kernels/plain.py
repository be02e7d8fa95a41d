"""The kernels in plain PyTorch: their rows are cut into shares for threads and tiles that fit the cache.

Threads take *shares*: many rows, for which all that is short is made at once. A share goes through its
rows in *tiles*, each so small that what is large stays in the cache, with as few calls as possible: only
one thread at a time can be in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deeplfm.kernels.threads import Rectangle, on_threads, rectangles
from deeplfm.kernels.tiles import Batch, Kinds, Moments, Share, Sums

if TYPE_CHECKING:
    from deeplfm.kernels.compiled import CompiledKernels

# Waves of a tile, tiles of a share, and how many waves are worth a thread, or sorting columns.
_TILE_WAVES, _SHARE_TILES, _LEAST_WAVES = 3 * 2**18, 5, 2**19

compiled_in_use: ContextVar[CompiledKernels | None] = ContextVar("compiled kernels", default=None)


class Tiling:
    """How batches, samples and rows are cut into shares and tiles."""

    def __init__(self, given: Moments, has_gradients: bool = True) -> None:
        self.given, self.order, self.kinds = _sorted_by_transients(given)
        # Rows are many: threads write to one gradient of them, each at its own place.
        self.by_x, self.by_transients = (
            torch.zeros_like(item, memory_format=torch.contiguous_format)
            if has_gradients
            else item.new_empty(0)
            for item in (given.x, given.transients)
        )
        _, n_terms, _, n_columns = given.frequency.shape
        self.n_threads = 1
        if given.x.device.type == "cpu":
            worthwhile = given.n_waves // _LEAST_WAVES
            self.n_threads = max(1, min(torch.get_num_threads(), worthwhile))
        self.tile_rows = max(1, _TILE_WAVES // (n_terms * n_columns))
        self.tasks = self._tasks()

    def _tasks(self) -> list[list[tuple[int, Rectangle]]]:
        """Shares, by batch and rows; those that add to the gradient of the same rows are one task."""
        batches = range(len(self.given.frequency))
        n_own, n_samples, n_rows, _ = self.given.x.shape
        n_all = n_own * n_samples * n_rows
        most = max(1, min(_SHARE_TILES * self.tile_rows, n_all // self.n_threads))
        parts = rectangles((slice(0, n_samples), slice(0, n_rows)), most, self.n_threads)
        if n_own == 1:
            return [[(batch, part) for batch in batches] for part in parts]
        return [[(batch, part)] for batch in batches for part in parts]

    def run(self, work: Callable[[Iterator[int]], list[Tensor]]) -> list[Tensor]:
        """The sum of the results of all threads."""
        first, *others = on_threads(work, len(self.tasks), self.n_threads)
        for other in others:
            for total, part in zip(first, other, strict=True):
                total += part
        return first

    def shares(self, numbers: Iterator[int], sums: Sums | None = None) -> Iterator[Share]:
        """Those of some tasks; the gradients of a share's rows are kept when it is done."""
        batches: dict[int, Batch] = {}
        for number in numbers:
            for batch, place in self.tasks[number]:
                if batch not in batches:
                    batches[batch] = Batch(self.given, batch, self.kinds, sums)
                share = Share(batches[batch], place, self.tile_rows)
                yield share
                if sums is not None:
                    self.by_x[share.x_place] += share.by_x.movedim(1, 0).reshape(*share.shape, -1)
                    by_transients = share.by_transients.unflatten(1, share.shape)
                    self.by_transients[(batch, slice(None), *place)] = by_transients

    @torch.no_grad()
    def gradients(self, sums: Sums) -> Moments:
        """Gradients of all arguments, columns in the order of what was given."""
        by_angle = sums.angle * self.given.amplitude[:, :, None]
        found = Moments(
            x=self.by_x,
            frequency=by_angle[:, :, :-1],
            amplitude=sums.amplitude,
            phase=by_angle[:, :, -1],
            transients=self.by_transients,
            gains=sums.gains,
            base=sums.base,
            mean=sums.mean.mT.flatten(1, 2),
            variance=sums.variance.mT.flatten(1, 2),
        )
        return found if self.order is None else found.with_columns(self.order.argsort(-1))


def _sorted_by_transients(given: Moments) -> tuple[Moments, Tensor | None, Kinds]:
    """Columns that use the later transients first, their order, and which transients go together.

    All columns have free responses, few have powers: those are a small product if they are adjacent. For
    a few rows that is not worth the sorting.
    """
    n_columns, n_transients = given.frequency.shape[-1], given.gains.shape[2]
    everything: Kinds = [(slice(None), n_columns)]
    if not n_transients:
        return given, None, []
    if given.n_waves < _LEAST_WAVES:
        return given, None, everything
    is_used = (given.gains != 0).any(1)  # B L K
    is_later = is_used.int().flip(1).cummax(1).values.flip(1)  # uses this one or a later one
    n_later = is_later.sum(-1).amax(0)  # L
    place = torch.arange(n_transients, device=n_later.device)
    cost = place * n_columns + (n_transients - place) * n_later
    first = int(cost.argmin())
    if int(n_later[first]) == n_columns:
        return given, None, everything
    order = is_later[:, first].argsort(dim=-1, descending=True, stable=True)
    kinds = [(slice(first, None), int(n_later[first]))]
    if first:
        kinds = [(slice(0, first), n_columns), *kinds]
    return given.with_columns(order), order, kinds


class PlainKernels:
    """Sums of waves, their gradients, and their products with weights."""

    def evaluate(
        self, x: Tensor, frequency: Tensor, amplitude: Tensor, phase: Tensor, *bases: Tensor | None
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """See :func:`deeplfm.features.harmonic.harmonic_sum`; cosines and sines are kept."""
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
        grad_angle = (rows @ across) * amplitude[:, :, None]
        slopes = (frequency * amplitude[:, :, None]).mT.flatten(0, 1)
        # not in one batch: that is ten times slower for matrices of a single column
        products = [torch.mm(a, b) for a, b in zip(across.flatten(0, 1), slopes, strict=True)]
        grad_x = (
            torch.stack(products).view(*across.shape[:2], *x.shape[2:4], -1).sum_to_size(x.shape)
        )
        return grad_x, grad_angle[:, :, :-1], grad_amplitude, grad_angle[:, :, -1]

    def moments(self, given: Moments) -> tuple[Tensor, Tensor]:
        """Φm and Φ²v: B S N U each."""
        totals, tiling = given.empty(), Tiling(given, has_gradients=False)

        def work(numbers: Iterator[int]) -> list[Tensor]:
            for share in tiling.shares(numbers):
                for tile in share.tiles():
                    tile.evaluate()
                    for total, found in zip(totals, tile.moments(), strict=True):
                        part = total[(share.batch.number, *tile.place)]
                        part.copy_(found.view(part.shape))
            return []

        tiling.run(work)
        return totals

    def pull_moments(self, given: Moments, grad_mean: Tensor, grad_variance: Tensor) -> Moments:
        """Gradients of all arguments of :meth:`moments`."""
        tiling = Tiling(given)

        def work(numbers: Iterator[int]) -> list[Tensor]:
            sums = Sums.of(tiling.given)
            for share in tiling.shares(numbers, sums):
                of_mean, of_variance = map(share.flat, (grad_mean, grad_variance))
                for tile, *slopes in zip(
                    share.tiles(), share.cut(of_mean), share.cut(of_variance), strict=True
                ):
                    tile.evaluate()
                    tile.pull_back(*slopes)
            return list(sums)

        return tiling.gradients(Sums(*tiling.run(work)))

    def squares(
        self, given: Moments, target: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Moments]:
        """Σ_s (y − Φm)² + Φ²v, and the gradients of its sum weighted by w: of y, and of all else.

        The gradient of the sum with respect to the moments of a row follows from these moments alone. So
        sines and cosines are evaluated once for both, and no moment is kept.
        """
        tiling = Tiling(given)

        def work(numbers: Iterator[int]) -> list[Tensor]:
            squares, by_target = torch.zeros_like(weight), torch.zeros_like(target)
            sums = Sums.of(tiling.given)
            for share in tiling.shares(numbers, sums):
                wanted, of_variance = share.flat(target), share.flat(weight[:, None])
                found, of_mean = torch.empty_like(wanted), 2 * of_variance
                parts = map(share.cut, (wanted, found, of_mean, of_variance))
                for tile, y, square, slope, factor in zip(share.tiles(), *parts, strict=True):
                    tile.evaluate()
                    mean, variance = tile.moments()
                    error = mean.sub_(y)
                    torch.addcmul(variance, error, error, out=square)
                    tile.pull_back(slope.mul_(error), factor)
                share.add(found, squares[:, None])
                share.add(-of_mean, by_target)
            return [squares, by_target, *sums]

        squares, by_target, *sums = tiling.run(work)
        return squares, by_target, tiling.gradients(Sums(*sums))


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


_plain = PlainKernels()


def kernels_for(x: Tensor) -> CompiledKernels | PlainKernels:
    """The kernels in use for this kind of tensor."""
    kernels = compiled_in_use.get()
    if kernels is None or x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return _plain
    return kernels
