r"""Ornstein–Uhlenbeck kernel: rough functions, as white noise through f' + f/ℓ = u along each input."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features.base import FeatureMap, Tables

_JITTER = 1e-6  # of the kernel between landmarks, which may coincide


class OrnsteinUhlenbeck(FeatureMap):
    r"""Features k(x, Z) L⁻ᵀ with k = S_q² exp(−Σ_p |x_p − z_p| / ℓ_p) and L Lᵀ = k(Z, Z).

    Its spectrum has so long a tail that random waves would be needed by the thousands. Landmarks Z take
    their place: Ω holds points of the input space, by the ``fixed`` strategy, and the kernel of these
    features is the exact one between landmarks, and its best approximation from them elsewhere. The
    sensitivity of the first input dimension is the marginal standard deviation of force q.
    """

    columns_per_frequency: ClassVar[int] = 1
    has_landmarks: ClassVar[bool] = True

    def tables(
        self,
        frequency: Float[Tensor, "*S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
        extent: Float[Tensor, "*#S P"],
        inputs: slice = slice(None),
    ) -> Tables:
        """Inverse lengthscales, landmarks in units of them, and the size and inverse root of k(Z, Z)."""
        dtype, samples = frequency.dtype, frequency.shape[:-4]
        rate = 1 / self.lengthscale.mT.double()  # G Q P
        landmarks = frequency.double().movedim(-3, -1) * rate.unsqueeze(-2)  # *S G Q M P
        gram = torch.exp(-torch.cdist(landmarks, landmarks, p=1))
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        root = torch.linalg.cholesky(gram + _JITTER * eye)
        whitening = torch.linalg.solve_triangular(root, eye.expand_as(root), upper=False).mT
        size = self.sensitivity[:, 0, :, None, None].double()  # G Q 1 1
        tables = (rate.expand(*samples, *rate.shape), landmarks, size * whitening)
        return tuple(table.to(dtype) for table in tables)

    def waves(
        self,
        x: Float[Tensor, "*#S N P"],
        tables: Tables,
        base: tuple[Tensor, ...] | None = None,
    ) -> tuple[Float[Tensor, "*S G N QM"], ...]:
        """Kernels of rows with landmarks, whitened."""
        rate, landmarks, whitening = tables
        scaled = x[..., None, None, :, :] * rate.unsqueeze(-2)  # *S G Q N P
        columns = torch.exp(-torch.cdist(scaled, landmarks, p=1)) @ whitening  # *S G Q N M
        return (columns.movedim(-3, -2).flatten(-2),)
