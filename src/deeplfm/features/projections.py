r"""Features of a projection of the inputs: exponentiated-quadratic and arc-cosine kernels."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features.base import Coefficients, FeatureMap
from deeplfm.features.harmonic import HarmonicMap, steady_coefficients


class ExponentiatedQuadratic(HarmonicMap):
    r"""Features cos(xΩ), sin(xΩ) with Ω ~ N(0, 1/ℓ²), of the kernel Σ_q S_q² exp(−r²/2ℓ_q²) (eq. 1).

    There is no differential equation here: a wave passes through unchanged, projected on Ω. The
    sensitivity of the first input dimension is the marginal standard deviation of force q.
    """

    spectral_variance: ClassVar[float] = 1.0

    def coefficients(
        self,
        frequency: Float[Tensor, "*S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
        extent: Float[Tensor, "*#S P"],
        inputs: slice = slice(None),
    ) -> Coefficients:
        """One term that sees all inputs."""
        projection, size = projected(self, frequency, feature_weight)
        return steady_coefficients(
            projection.unsqueeze(-3),  # *S G 1 P K
            size.unsqueeze(-2),
            torch.zeros_like(size).unsqueeze(-2),
        )


def projected(
    features: FeatureMap,
    frequency: Float[Tensor, "*S #G P Q M"],
    feature_weight: Float[Tensor, " M"],
) -> tuple[Float[Tensor, "*S G P QM"], Float[Tensor, "*S G QM"]]:
    """Frequencies that rows are projected on, and the size of each column."""
    size = features.sensitivity[:, 0, :, None] * feature_weight.to(frequency.dtype)  # G Q M
    samples = frequency.shape[:-4]
    frequency = frequency.expand(*samples, features.n_groups, *frequency.shape[-3:])
    return frequency.flatten(-2), size.expand(*samples, *size.shape).flatten(-2)


class ArcCosine(FeatureMap):
    r"""Features √2·S_q·max(0, xΩ)^p with Ω ~ N(0, 1/ℓ²): M columns, not 2M.

    Their kernel is S²(‖x‖‖x'‖)^p J_p(θ)/π, inputs measured in lengthscales. Order 0 is a step: its
    gradient with respect to inputs and frequencies is zero.
    """

    columns_per_frequency: ClassVar[int] = 1
    spectral_variance: ClassVar[float] = 1.0
    order: ClassVar[int] = 1

    def coefficients(
        self,
        frequency: Float[Tensor, "*S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
        extent: Float[Tensor, "*#S P"],
        inputs: slice = slice(None),
    ) -> Coefficients:
        """Projection and size of each column."""
        projection, size = projected(self, frequency, feature_weight)
        return projection, math.sqrt(2) * size

    def basis(
        self,
        x: Float[Tensor, "*#S N P"],
        coefficients: Coefficients,
        base: tuple[Tensor, ...] | None = None,
    ) -> tuple[Float[Tensor, "*S G N QM"], ...]:
        """The rectified projection."""
        projection, size = coefficients
        phase = x.unsqueeze(-3) @ projection
        if self.order == 0:
            rectified = (phase > 0).to(phase.dtype)
        elif self.order == 1:
            rectified = phase.relu()
        else:
            rectified = phase.relu().pow(self.order)
        return (size.unsqueeze(-2) * rectified,)


class ArcCosine0(ArcCosine):
    """Order 0: a step."""

    order: ClassVar[int] = 0


class ArcCosine2(ArcCosine):
    """Order 2: a one-sided parabola."""

    order: ClassVar[int] = 2
