r"""Exponentiated-quadratic kernel: random Fourier features [cos, sin] (the DGP of Cutajar et al.)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features.base import FeatureMap


class ExponentiatedQuadratic(FeatureMap):
    r"""Features cos(xΩ), sin(xΩ) with Ω ~ N(0, 1/ℓ²), of the kernel Σ_q S_q² exp(−r²/2ℓ_q²) (eq. 1).

    There is no differential equation here: a wave passes through unchanged, projected on Ω. The
    sensitivity of the first input dimension is the marginal standard deviation of force q.
    """

    spectral_variance: ClassVar[float] = 1.0

    def waves(
        self, x: Float[Tensor, "*#S 1 N P"], frequency: Float[Tensor, "*#S #G P Q M"]
    ) -> tuple[Float[Tensor, "*S G N Q M"], ...]:
        """Cosine and sine of the projection."""
        phase = project(x, frequency)
        scale = self.sensitivity[:, None, 0, :, None]  # G 1 Q 1
        return scale * torch.cos(phase), scale * torch.sin(phase)


def project(
    x: Float[Tensor, "*#S 1 N P"], frequency: Float[Tensor, "*#S #G P Q M"]
) -> Float[Tensor, "*S G N Q M"]:
    """Projection x·Ω on every frequency vector."""
    flat = frequency.flatten(-2)  # ... G P QM
    return (x @ flat).unflatten(-1, frequency.shape[-2:])
