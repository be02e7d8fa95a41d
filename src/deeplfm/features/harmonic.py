r"""Sums of waves and transients: the one operation whose cost grows with samples × rows × features.

A linear system with constant coefficients responds to a wave with a wave and a transient,

    F_k(x) = Σ_j a_jk e^{j(ω_jk·x_j + α_jk)} + Σ_l g_lk h_l(x),

where amplitudes a, phases α and complex gains g are small: one entry per column. The functions h of the
transient are few. All that is large is in the kernels, in real arithmetic, with a backward pass of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from deeplfm.features.base import Coefficients, FeatureMap
from deeplfm.kernels.plain import kernels_for
from deeplfm.kernels.tiles import Moments


class HarmonicCoefficients(NamedTuple):
    """Coefficients of waves and transients; a leading sample dimension where Ω has one.

    Attributes:
        frequency: ω of every term, its dimensions and columns.
        amplitude: a of every term and column.
        phase: α of every term and column.
        gain_real: real part of the gains; one that is exactly zero gets no gradient.
        gain_imag: imaginary part of the gains.
        polynomial: parameters of the functions h, for each input.
        extent: largest absolute value of each input, the unit of the powers.
        orders: highest power that multiplies the free responses, and how many powers stand alone.
    """

    frequency: Float[Tensor, "*S G J I K"]
    amplitude: Float[Tensor, "*S G J K"]
    phase: Float[Tensor, "*S G J K"]
    gain_real: Float[Tensor, "*S G L K"]
    gain_imag: Float[Tensor, "*S G L K"]
    polynomial: Float[Tensor, "*S G P R"]
    extent: Float[Tensor, "*S P"]
    orders: Int[Tensor, "*S 2"]


def steady_coefficients(
    frequency: Float[Tensor, "*S G J I K"],
    amplitude: Float[Tensor, "*S G J K"],
    phase: Float[Tensor, "*S G J K"],
) -> HarmonicCoefficients:
    """Coefficients of waves without transients."""
    none = amplitude[..., :0, :]
    samples = frequency.shape[:-4]
    return HarmonicCoefficients(
        frequency,
        amplitude,
        phase,
        none,
        none,
        none.mT[..., :0, :],
        none.new_zeros(*samples, 0),
        torch.zeros(*samples, 2, dtype=torch.long),
    )


class HarmonicMap(FeatureMap):
    """A map whose columns are sums of waves and transients; children give the coefficients."""

    def free_response(
        self, time: Float[Tensor, "B P N"], polynomial: Float[Tensor, "B P R"]
    ) -> tuple[Float[Tensor, "B P N"], ...]:
        """Functions h of the transient, ``n_states`` of them; see :class:`Response`."""
        return ()

    def transients(
        self, x: Float[Tensor, "#B S N P"], coefficients: HarmonicCoefficients
    ) -> Float[Tensor, "B L S N"]:
        """Functions of x that the gains multiply: free responses times powers of x, then powers.

        Inputs are few and rows are many, so rows come last: what is short must not be innermost.
        """
        n_batches = math.prod(coefficients.gain_real.shape[:-2])
        if not coefficients.gain_real.shape[-2]:
            return x.new_empty(n_batches, 0, *x.shape[1:3])
        time = x.movedim(-1, 1).flatten(2)  # #B P SN
        n_groups = coefficients.polynomial.shape[-3]
        extent = coefficients.extent.unsqueeze(-2).expand(
            *coefficients.extent.shape[:-1], n_groups, -1
        )
        order, n_powers = coefficients.orders.view(-1, 2)[0].tolist()
        relative = time / extent.flatten(0, -2).unsqueeze(-1) if order or n_powers else time
        functions: list[Tensor] = []
        for function in self.free_response(time, coefficients.polynomial.flatten(0, -3)):
            functions.append(function.to(x.dtype))
            for _ in range(order):
                functions.append(functions[-1] * relative)
        for i in range(n_powers):
            functions.append(functions[-1] * relative if i else relative**self.n_states)
        shape = (n_batches, time.shape[1], time.shape[2])
        rows = torch.cat([function.expand(shape) for function in functions], dim=1)
        return rows.unflatten(-1, x.shape[1:3])

    def basis(
        self,
        x: Float[Tensor, "*#S N P"],
        coefficients: Coefficients,
        base: tuple[Float[Tensor, "G N QM"], ...] | None = None,
    ) -> tuple[Float[Tensor, "*S G N QM"], ...]:
        """Re F and Im F."""
        known, layout = HarmonicCoefficients(*coefficients), _Layout(x, coefficients)
        rows = layout.rows(x - self.origin if self.origin else x)
        parts: list[Tensor | None] = [None, None]
        if layout.n_transients:
            functions = self.transients(rows, known).flatten(2).mT  # B SN L
            gains = known.gain_real.flatten(0, -3), known.gain_imag.flatten(0, -3)
            parts = [(functions @ gain).unflatten(1, rows.shape[1:3]) for gain in gains]
        if base is not None:
            parts = [
                share[:, None] if part is None else part + share[:, None]
                for part, share in zip(parts, base, strict=True)
            ]
        found = harmonic_sum(layout.terms(rows), *layout.waves(known), *parts)
        return tuple(layout.unbatched(part) for part in found)

    def harmonic_moments(
        self,
        x: Float[Tensor, "*#S N P"],
        coefficients: Coefficients,
        base: tuple[Float[Tensor, "G N QM"], ...] | None,
        mean: Float[Tensor, "G K U"],
        variance: Float[Tensor, "G K U"],
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """ΦM and Φ²V in one pass over rows."""
        layout = _Layout(x, coefficients)
        given = self._given(layout, x, coefficients, base, mean, variance)
        found = _HarmonicMoments.apply(*given)
        return layout.unbatched(found[0]), layout.unbatched(found[1])

    def harmonic_squares(
        self,
        x: Float[Tensor, "*#S N P"],
        coefficients: Coefficients,
        base: tuple[Float[Tensor, "G N QM"], ...] | None,
        mean: Float[Tensor, "G K U"],
        variance: Float[Tensor, "G K U"],
        target: Float[Tensor, "*#S G N U"],
        weight: Float[Tensor, "G N U"],
    ) -> Float[Tensor, ""]:
        """Σ λ((y − ΦM)² + Φ²V), the mean over samples; Φ is made once for it and its gradient."""
        layout = _Layout(x, coefficients)
        given = self._given(layout, x, coefficients, base, mean, variance)
        weight = layout.repeated(weight) / layout.n_samples
        return _HarmonicSquares.apply(layout.batched(target), weight, *given)

    def _given(
        self,
        layout: _Layout,
        x: Tensor,
        coefficients: Coefficients,
        base: tuple[Tensor, ...] | None,
        mean: Tensor,
        variance: Tensor,
    ) -> tuple[Any, ...]:
        """Arguments of the functions below: the transients as a function, and what it depends on."""
        known = HarmonicCoefficients(*coefficients)
        gains = torch.stack([known.gain_real, known.gain_imag], dim=-3).flatten(0, -4)
        fixed = HarmonicCoefficients(*(item.detach() for item in known))

        def transients(rows: Tensor, polynomial: Tensor) -> Tensor:
            return self.transients(rows, fixed._replace(polynomial=polynomial))

        return (
            transients,
            known.polynomial,
            layout.rows(x - self.origin if self.origin else x),
            *layout.waves(known),
            gains,
            x.new_zeros(2, layout.n_batches, 0, gains.shape[-1])
            if base is None
            else torch.stack(base),
            layout.repeated(mean),
            layout.repeated(variance),
        )


class _Layout:
    """How samples, groups and rows become batches of rows that share their coefficients.

    A batch is a group, of one sample where Ω is drawn for each: *S G … N · becomes B … S N ·.
    """

    def __init__(self, x: Float[Tensor, "*S N P"], coefficients: Coefficients) -> None:
        frequency, gains = coefficients[0], coefficients[3]
        self.drawn, self.sampled = frequency.shape[:-4], x.shape[:-2]  # samples, or none
        self.n_groups, self.n_terms, self.n_dimensions = frequency.shape[-4:-1]
        self.n_transients = gains.shape[-2]
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

    def terms(self, rows: Float[Tensor, "#B S N P"]) -> Float[Tensor, "#B J S N I"]:
        """Inputs by term."""
        return rows.unflatten(-1, (self.n_terms, self.n_dimensions)).movedim(-2, 1)

    def waves(self, known: HarmonicCoefficients) -> tuple[Tensor, Tensor, Tensor]:
        """Coefficients of the waves by batch."""
        return (
            known.frequency.flatten(0, -4),
            known.amplitude.flatten(0, -3),
            known.phase.flatten(0, -3),
        )

    def repeated(self, weights: Float[Tensor, "#G K U"]) -> Float[Tensor, "B K U"]:
        """Weights for every batch."""
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
    """Real and imaginary part of Σ_j a_jk e^{j(ω_jk·x_j + α_jk)}, plus what is given."""
    return _HarmonicSum.apply(x, frequency, amplitude, phase, base_real, base_imag)


class _HarmonicSum(torch.autograd.Function):
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


class _Given:
    """Arguments of the kernels; transients are made here, and made again in a backward pass."""

    def __init__(
        self,
        transients: Callable[[Tensor, Tensor], Tensor],
        polynomial: Tensor,
        rows: Tensor,
        *others: Tensor,
    ) -> None:
        frequency, amplitude, phase, *rest = others
        self.leaves = [item.detach().requires_grad_() for item in (rows, polynomial)]
        with torch.enable_grad():
            self.made = transients(*self.leaves)
        self.moments = Moments(rows, frequency, amplitude, phase, self.made.detach(), *rest)

    def pulled(self, gradients: Moments) -> tuple[Tensor | None, ...]:
        """Gradients of the arguments, from those of the moments' arguments."""
        x, *others = gradients
        transients = others.pop(3)
        by_polynomial = None
        if self.made.requires_grad:
            by_x, by_polynomial = torch.autograd.grad(self.made, self.leaves, transients)
            x = x + by_x
        return by_polynomial, x, *others


class _HarmonicMoments(torch.autograd.Function):
    """ΦM and Φ²V; the backward pass makes every row of Φ again."""

    @staticmethod
    def forward(ctx, transients, polynomial, rows, *others):  # type: ignore[no-untyped-def]
        ctx.kernels, ctx.transients = kernels_for(rows), transients
        ctx.save_for_backward(polynomial, rows, *others)
        frequency, amplitude, phase, *rest = others
        made = transients(rows, polynomial)
        return ctx.kernels.moments(Moments(rows, frequency, amplitude, phase, made, *rest))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mean, grad_variance):  # type: ignore[no-untyped-def]
        given = _Given(ctx.transients, *ctx.saved_tensors)
        gradients = ctx.kernels.pull_moments(given.moments, grad_mean, grad_variance)
        return None, *given.pulled(gradients)


class _HarmonicSquares(torch.autograd.Function):
    """Σ w((y − ΦM)² + Φ²V): the gradient of one number, up to a factor, comes with the number."""

    @staticmethod
    def forward(ctx, target, weight, *tensors):  # type: ignore[no-untyped-def]
        given = _Given(*tensors)
        squares, by_target, gradients = kernels_for(target).squares(given.moments, target, weight)
        ctx.save_for_backward(by_target, squares, *given.pulled(gradients))
        return (weight * squares).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, factor):  # type: ignore[no-untyped-def]
        by_target, by_weight, *others = (
            None if item is None else factor * item for item in ctx.saved_tensors
        )
        return by_target, by_weight, None, *others
