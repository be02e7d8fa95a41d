r"""Prediction of a row from its nearest neighbours: the Gaussian process of these rows, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

N_NEIGHBOURS = 16
_ROWS_AT_ONCE = 500
_LEAST_NOISE = 1e-6  # variance, in standardised units: rows may coincide


@dataclass(frozen=True)
class Kernel:
    """Correlation of a function at two rows, by their distance in units of the lengthscales."""

    norm: int
    correlation: Callable[[Tensor], Tensor]

    def distance(
        self, left: Float[Tensor, "*N n P"], right: Float[Tensor, "*N m P"]
    ) -> Float[Tensor, "*N n m"]:
        """Distances of rows from others."""
        return torch.cdist(left, right, p=self.norm, compute_mode="donot_use_mm_for_euclid_dist")


def _exponential(distance: Tensor) -> Tensor:
    return torch.exp(-distance)


def _matern32(distance: Tensor) -> Tensor:
    scaled = math.sqrt(3) * distance
    return (1 + scaled) * torch.exp(-scaled)


# White noise through f' + f/ℓ = u along every input; and Matérn's, whose functions have one derivative.
MATERN12 = Kernel(1, _exponential)
MATERN32 = Kernel(2, _matern32)


class NeighbourSearch:
    """Rows with a known value, to be found by their distance in units of the lengthscales."""

    def __init__(
        self,
        x: Float[Tensor, "N P"],
        value: Float[Tensor, " N"],
        lengthscale: Float[Tensor, " P"],
        row_weight: Float[Tensor, " N"] | None = None,
        kernel: Kernel = MATERN12,
        n_neighbours: int = N_NEIGHBOURS,
    ) -> None:
        from scipy.spatial import cKDTree

        weight = torch.ones_like(value) if row_weight is None else row_weight
        is_known = ~value.isnan() & (weight > 0)
        self.kernel, self.n_neighbours, self.rate = kernel, n_neighbours, 1 / lengthscale.double()
        self.x = x[is_known].double() * self.rate
        self.value, self.weight = value[is_known].double(), weight[is_known].double()
        self.tree = cKDTree(self.x.cpu().numpy()) if len(self.x) else None
        self.order = self.x[:, 0].argsort() if x.shape[1] == 1 else None

    def nearest(self, x: Float[Tensor, "N P"], n: int) -> Int64[Tensor, "N m"]:
        """The n nearest rows of each, or all where they are fewer.

        Along one input half of them are on each side: both ends of a gap count, however long it is.
        """
        if self.tree is None:
            return torch.zeros(len(x), 0, dtype=torch.long, device=x.device)
        if self.order is not None:
            n = min(n, len(self.x))
            here = (x.double() * self.rate)[:, 0].contiguous()
            place = torch.searchsorted(self.x[self.order, 0], here)
            first = (place - n // 2).clamp(0, len(self.x) - n)
            return self.order[first[:, None] + torch.arange(n, device=x.device)]
        order = np.arange(1, min(n, len(self.x)) + 1)
        _, index = self.tree.query(
            (x.double() * self.rate).cpu().numpy(), k=order, p=self.kernel.norm
        )
        return torch.as_tensor(index, device=x.device).long()

    def others(self, own: Int64[Tensor, " N"], n: int) -> Int64[Tensor, "N m"]:
        """The n nearest of some of the rows themselves, without each itself."""
        index = self.nearest(self.x[own] / self.rate, n + 1)
        order = (index == own[:, None]).long().argsort(dim=1, stable=True)  # itself to the end
        return index.gather(1, order)[:, :-1]

    def predict(
        self, x: Float[Tensor, "N P"], scale: Tensor, noise_variance: Tensor
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Mean and variance of the function at some rows."""
        parts = [
            self._predict(
                rows.double() * self.rate,
                self.nearest(rows, self.n_neighbours),
                scale,
                noise_variance,
            )
            for rows in x.split(_ROWS_AT_ONCE)
        ]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean.to(x.dtype), variance.to(x.dtype)

    def predict_others(
        self, own: Int64[Tensor, " N"], scale: Tensor, noise_variance: Tensor
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Mean and variance of the function at some of the rows, given the others."""
        parts = [
            self._predict(self.x[some], self.others(some, self.n_neighbours), scale, noise_variance)
            for some in own.split(_ROWS_AT_ONCE)
        ]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, variance

    def draw(
        self,
        x: Float[Tensor, "N 1"],
        scale: Tensor,
        noise_variance: Tensor,
        n_draws: int,
        generator: torch.Generator,
    ) -> Float[Tensor, "S N"]:
        """Matérn-1/2 functions along one input: free paths, corrected at known rows (Matheron's rule)."""
        here = x.double() * self.rate
        path = scale * ornstein_uhlenbeck(torch.cat([self.x, here])[:, 0], n_draws, generator)
        known, at = path.split([len(self.x), len(x)], dim=1)
        noise = torch.randn(known.shape, generator=generator, dtype=known.dtype, device=x.device)
        missed = self.value - known - (noise_variance / self.weight).sqrt() * noise
        index = self.nearest(x, self.n_neighbours)
        weight, _ = self._weights(here, index, scale, noise_variance)
        return at + torch.stack([(weight * one[index]).sum(-1) for one in missed])

    def _predict(
        self, here: Tensor, index: Tensor, scale: Tensor, noise_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        weight, variance = self._weights(here, index, scale, noise_variance)
        return (weight * self.value[index]).sum(-1), variance

    def _weights(
        self, here: Tensor, index: Tensor, scale: Tensor, noise_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        noise = noise_variance.double() / self.weight[index]
        return conditional_weights(self.kernel, self.x[index], here, scale.double(), noise)


def ornstein_uhlenbeck(
    place: Float[Tensor, " N"], n_draws: int, generator: torch.Generator
) -> Float[Tensor, "S N"]:
    """Paths of the process of covariance e^{−|t − t'|}, at places in any order."""
    noise = torch.randn(
        (len(place), n_draws), generator=generator, dtype=place.dtype, device=place.device
    )
    ordered, order = place.sort()
    keep = torch.exp(-ordered.diff())
    for n, share in enumerate(keep, start=1):
        noise[n] = share * noise[n - 1] + (1 - share.square()).sqrt() * noise[n]
    return torch.empty_like(noise).index_copy(0, order, noise).mT


def conditional_weights(
    kernel: Kernel,
    near: Float[Tensor, "N m P"],
    here: Float[Tensor, "N P"],
    scale: Float[Tensor, ""],
    noise_variance: Float[Tensor, "*#N #m"],
) -> tuple[Float[Tensor, "N m"], Float[Tensor, " N"]]:
    """Weights of noisy values of neighbours in the conditional mean of a function at rows.

    Returns:
        Weights of these values, and the conditional variance.
    """
    prior = scale.square()
    covariance = prior * kernel.correlation(kernel.distance(near, here[:, None])).squeeze(-1)
    noise = (noise_variance + _LEAST_NOISE).expand_as(covariance)
    gram = prior * kernel.correlation(kernel.distance(near, near)) + torch.diag_embed(noise)
    root = torch.linalg.cholesky(gram)
    weight = torch.cholesky_solve(covariance.unsqueeze(-1), root).squeeze(-1)
    return weight, (prior - (weight * covariance).sum(-1)).clamp_min(0)
