r"""Exponentiated-quadratic kernel: random Fourier features [cos, sin] (the DGP of Cutajar et al.)."""

from __future__ import annotations

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
