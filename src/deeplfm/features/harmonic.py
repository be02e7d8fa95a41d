r"""Sums of waves: the one operation whose cost grows with samples × rows × features.

Every linear system with constant coefficients answers a wave with a wave and a transient,

    F_k(x) = Σ_j a_jk e^{j(ω_jk·x_j + α_jk)} + transients_k(x),

where amplitudes a, phases α and the gains of the transients are small tables, one entry per column.
All that is large is here, in real arithmetic, with a backward pass of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from deeplfm.features.base import FeatureMap, Tables
from deeplfm.kernels import kernels_for
from deeplfm.kernels.arguments import Moments, transient_rows


class Coefficients(NamedTuple):
    """What a harmonic map knows before it sees rows; a leading sample dimension where Ω has one.

    Attributes:
        frequency: ω of every term, its dimensions and columns.
        amplitude: a of every term and column.
        phase: α of every term and column.
        transient_real: real part of the gains of the transients.
        transient_imag: imaginary part of the gains of the transients.
        decay: of the transients e^{−γx} of each input; the others are powers of x.
        extent: largest absolute value of each input, the unit of the powers.
    """

    frequency: Float[Tensor, "*S G J I K"]
    amplitude: Float[Tensor, "*S G J K"]
    phase: Float[Tensor, "*S G J K"]
    transient_real: Float[Tensor, "*S G L K"]
    transient_imag: Float[Tensor, "*S G L K"]
    decay: Float[Tensor, "*S G P"]
    extent: Float[Tensor, "*S P"]


def steady_coefficients(frequency: Tensor, amplitude: Tensor, phase: Tensor) -> Coefficients:
    """Tables of waves without transients."""
    none = amplitude[..., :0, :]
    decay = amplitude.new_zeros(*frequency.shape[:-3], 0)
    return Coefficients(frequency, amplitude, phase, none, none, decay, decay[..., 0, :])


def response_transients(
    x: Float[Tensor, "*S N P"], tables: Coefficients
) -> Float[Tensor, "*S G N L"]:
    """Row by row what the gains of the transients multiply."""
    n_powers = tables.transient_real.shape[-2] // x.shape[-1] - 1
    extent = tables.extent.unsqueeze(-2)
    lines = transient_rows(x.mT.unsqueeze(-3), tables.decay, extent, n_powers)
    return torch.cat(list(lines), dim=-2).mT


class HarmonicMap(FeatureMap):
    """A map whose columns are sums of waves and transients; children give tables."""

    def basis(
        self,
        x: Float[Tensor, "*#S N P"],
        tables: Tables,
        base: tuple[Float[Tensor, "G N QM"], ...] | None = None,
    ) -> tuple[Float[Tensor, "*S G N QM"], ...]:
        """Re F and Im F."""
        table, layout = Coefficients(*tables), _Layout(x, tables)
        x = x - self.origin if self.origin else x
        parts: Sequence[Any] = (None, None)
        if layout.n_transients:
            rows = layout.batched(response_transients(x, table))
            gains = table.transient_real.flatten(0, -3), table.transient_imag.flatten(0, -3)
            parts = [(rows.flatten(1, 2) @ gain).unflatten(1, rows.shape[1:3]) for gain in gains]
        if base is not None:
            parts = [
                share[:, None] if part is None else part + share[:, None]
                for part, share in zip(parts, base, strict=True)
            ]
        parts = harmonic_sum(layout.terms(x), *layout.basis(table), *parts)
        return tuple(layout.unbatched(part) for part in parts)

    def harmonic_moments(
        self,
        x: Float[Tensor, "*#S N P"],
        tables: Tables,
        base: tuple[Float[Tensor, "G N QM"], ...] | None,
        mean: Float[Tensor, "G K U"],
        variance: Float[Tensor, "G K U"],
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """ΦM and Φ²V in one pass over rows."""
        layout = _Layout(x, tables)
        found = _WaveMoments.apply(*self._given(layout, x, tables, base, mean, variance))
        return layout.unbatched(found[0]), layout.unbatched(found[1])

    def harmonic_squares(
        self,
        x: Float[Tensor, "*#S N P"],
        tables: Tables,
        base: tuple[Float[Tensor, "G N QM"], ...] | None,
        mean: Float[Tensor, "G K U"],
        variance: Float[Tensor, "G K U"],
        target: Float[Tensor, "*#S G N U"],
        weight: Float[Tensor, "G N U"],
    ) -> Float[Tensor, ""]:
        """Σ λ((y − ΦM)² + Φ²V), the mean over samples; rows are made once for it and its gradient."""
        layout = _Layout(x, tables)
        given = self._given(layout, x, tables, base, mean, variance)
        weight = layout.repeated(weight) / layout.n_samples
        return _WaveSquares.apply(layout.batched(target), weight, *given)

    def _given(
        self,
        layout: _Layout,
        x: Tensor,
        tables: Tables,
        base: tuple[Tensor, ...] | None,
        mean: Tensor,
        variance: Tensor,
    ) -> Moments:
        """What the kernels are given."""
        table = Coefficients(*tables)
        x = x - self.origin if self.origin else x
        gains = torch.stack([table.transient_real, table.transient_imag], dim=-3).flatten(0, -4)
        return Moments(
            layout.rows(x),
            *layout.basis(table),
            table.decay.flatten(0, -2),
            table.extent.unsqueeze(-2).expand_as(table.decay).flatten(0, -2),
            gains,
            x.new_zeros(2, layout.n_batches, 0, gains.shape[-1])
            if base is None
            else torch.stack(base),
            layout.repeated(mean),
            layout.repeated(variance),
        )


class _Layout:
    """How samples, groups and rows become batches of rows that share their tables.

    A batch is a group, of one sample where Ω is drawn for each: *S G … N · becomes B … S N ·.
    """

    def __init__(self, x: Float[Tensor, "*S N P"], tables: Tables) -> None:
        frequency, transients = tables[0], tables[3]
        self.drawn, self.sampled = frequency.shape[:-4], x.shape[:-2]  # samples, or none
        self.n_groups, self.n_terms, self.n_dimensions = frequency.shape[-4:-1]
        self.n_transients = transients.shape[-2]
        self.n_batches = math.prod(self.drawn) * self.n_groups
        self.n_samples = math.prod(self.drawn or self.sampled)

    def batched(self, rows: Float[Tensor, "*#S #G N K"]) -> Float[Tensor, "#B #S N K"]:
        """Rows as batches, whether they differ by sample or not."""
        has_samples = rows.dim() == 4
        if not self.drawn:
            return rows.movedim(0, -3) if has_samples else rows.unsqueeze(-3)
        rows = rows if has_samples else rows[None]
        return rows.expand(*self.drawn, self.n_groups, *rows.shape[2:]).flatten(0, 1).unsqueeze(-3)

    def rows(self, x: Tensor) -> Float[Tensor, "#B S N P"]:
        """Inputs by batch."""
        return self.batched(x.unsqueeze(-3))

    def terms(self, x: Tensor) -> Float[Tensor, "#B J S N I"]:
        """Inputs by term."""
        return self.rows(x).unflatten(-1, (self.n_terms, self.n_dimensions)).movedim(-2, 1)

    def basis(self, table: Coefficients) -> tuple[Tensor, Tensor, Tensor]:
        """Tables of the waves by batch."""
        return (
            table.frequency.flatten(0, -4),
            table.amplitude.flatten(0, -3),
            table.phase.flatten(0, -3),
        )

    def repeated(self, weights: Float[Tensor, "#G K U"]) -> Float[Tensor, "B K U"]:
        """A table of weights for every batch."""
        weights = weights.expand(self.n_groups, -1, -1)
        return weights.expand(*self.drawn, -1, -1, -1).flatten(0, -3)

    def unbatched(self, part: Float[Tensor, "B S N K"]) -> Float[Tensor, "*S G N K"]:
        """The inverse of :meth:`batched`."""
        if self.drawn:
            return part.unflatten(0, (*self.drawn, self.n_groups)).squeeze(2)
        return part.movedim(1, 0) if self.sampled else part[:, 0]


def harmonic_sum(
    x: Float[Tensor, "#B J S N I"],
    frequency: Float[Tensor, "B J I K"],
    amplitude: Float[Tensor, "B J K"],
    phase: Float[Tensor, "B J K"],
    base_real: Float[Tensor, "#B #S #N K"] | None = None,
    base_imag: Float[Tensor, "#B #S #N K"] | None = None,
) -> tuple[Float[Tensor, "B S N K"], Float[Tensor, "B S N K"]]:
    """Real and imaginary part of Σ_j a_jk e^{j(ω_jk·x_j + α_jk)}, plus what is given.

    Args:
        x: inputs: J terms of I dimensions each, for S samples of N rows.
        frequency: ω of every term, dimension and column.
        amplitude: a.
        phase: α.
        base_real: what is added to the real part.
        base_imag: what is added to the imaginary part.
    """
    return _WaveSum.apply(x, frequency, amplitude, phase, base_real, base_imag)


class _WaveSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, frequency, amplitude, phase, *bases):  # type: ignore[no-untyped-def]
        ctx.kernels = kernels_for(x)
        ctx.base_shapes = [None if base is None else base.shape for base in bases]
        parts, kept = ctx.kernels.evaluate(x, frequency, amplitude, phase, *bases)
        ctx.save_for_backward(x, frequency, amplitude, phase, *kept)
        return parts

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        x, frequency, amplitude, phase, *kept = ctx.saved_tensors
        pulled = ctx.kernels.pull_back(x, frequency, amplitude, phase, *gradients, kept)
        bases = (
            gradient.sum_to_size(shape) if needed else None
            for gradient, shape, needed in zip(
                gradients, ctx.base_shapes, ctx.needs_input_grad[4:], strict=True
            )
        )
        return *pulled, *bases


class _WaveMoments(torch.autograd.Function):
    """ΦM and Φ²V; the backward pass makes every row of Φ again."""

    @staticmethod
    def forward(ctx, *tensors):  # type: ignore[no-untyped-def]
        ctx.kernels = kernels_for(tensors[0])
        ctx.save_for_backward(*tensors)
        return ctx.kernels.moments(Moments(*tensors))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mean, grad_variance):  # type: ignore[no-untyped-def]
        given = Moments(*ctx.saved_tensors)
        return tuple(ctx.kernels.pull_moments(given, grad_mean, grad_variance))


class _WaveSquares(torch.autograd.Function):
    """Σ w((y − ΦM)² + Φ²V): of one number the gradient is known, up to a factor, as soon as it is."""

    @staticmethod
    def forward(ctx, target, weight, *tensors):  # type: ignore[no-untyped-def]
        kernels = kernels_for(target)
        squares, by_target, gradients = kernels.squares(Moments(*tensors), target, weight)
        ctx.save_for_backward(by_target, squares, *gradients)
        return (weight * squares).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, factor):  # type: ignore[no-untyped-def]
        return tuple(factor * gradient for gradient in ctx.saved_tensors)
