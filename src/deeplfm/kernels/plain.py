"""The kernels in plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deeplfm.kernels.tiles import Moments, Sums, Tiling

if TYPE_CHECKING:
    from deeplfm.kernels.compiled import CompiledKernels

compiled_in_use: ContextVar[CompiledKernels | None] = ContextVar("compiled kernels", default=None)


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

        Args:
            given: arguments of the moments.
            target: y for all samples or for each, B #S N U.
            weight: w, B N U.
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
