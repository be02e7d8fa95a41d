"""Predictions of outputs that are modelled by their logarithm: mixtures of log-normal distributions."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from torch import Tensor

from deeplfm.predictive.mixture import Predictive


class Exponential(Predictive):
    """A prediction of logarithms of some outputs, converted to the outputs themselves.

    Its point forecast (``mean``) is the median for these outputs: their expected value depends on the
    far tail, which data do not determine, and may lie beyond every interval.
    """

    def __init__(self, inner: Predictive, is_log: Bool[Tensor, " D"]) -> None:
        self._inner, self._is_log = inner, is_log
        super().__init__(
            inner.component_mean, inner.component_variance, inner.component_noise, inner.weight
        )

    @property
    def mean(self) -> Float[Tensor, "N D"]:
        """Expected value; the median of outputs that are modelled by their logarithm."""
        return torch.where(self._is_log, self.quantile(0.5), self._inner.mean)

    def variance(self, latent: bool = False) -> Float[Tensor, "N D"]:
        """Variance of an observation, or of the function."""
        center, spread = self.component_mean, self._spread(latent)
        within = _exp(2 * center + spread) * spread.clamp_max(300.0).expm1()
        between = (_exp(center + spread / 2) - self._expected(latent)).square()
        return torch.where(
            self._is_log, self._average(within + between), self._inner.variance(latent)
        )

    def quantile(
        self, levels: float | list[float] | Tensor, latent: bool = False
    ) -> Float[Tensor, "*L N D"]:
        """Quantiles: exponentials of the quantiles of a logarithm."""
        return self._outside(self._inner.quantile(levels, latent))

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """Whole functions."""
        return self._outside(self._inner.sample(n_draws, seed, latent))

    def log_prob(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Log density of each observation; NaN where the target is."""
        target = self._target(target)
        density = self._inner.log_prob(self._inside(target), latent)
        density = density - torch.where(self._is_log, self._inside(target), 0.0)
        return torch.where(self._is_log & (target <= 0), -math.inf, density)

    def cdf(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Probability of an observation at or below the target."""
        target = self._target(target)
        below = self._inner.cdf(self._inside(target), latent)
        return torch.where(self._is_log & (target <= 0), 0.0, below)

    def crps(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Continuous ranked probability score, in closed form."""
        target = self._target(target)
        mean, variance = self.component_mean, self._spread(latent)
        below = _expected_below(mean, variance, self._inside(target), torch.zeros_like(target))
        score = target * (2 * self.cdf(target, latent) - 1) - 2 * self._average(below)
        for c in range(len(mean)):  # one component against all, as for Gaussians
            other = _expected_below(mean, variance, mean[c], variance[c])
            score = score + 2 * self.weight[c] * self._average(other)
        return torch.where(self._is_log, score, self._inner.crps(target, latent))

    def _expected(self, latent: bool) -> Float[Tensor, "N D"]:
        return self._average(_exp(self.component_mean + self._spread(latent) / 2))

    def _outside(self, values: Tensor) -> Tensor:
        return torch.where(self._is_log, _exp(values), values)

    def _inside(self, values: Tensor) -> Tensor:
        least = torch.finfo(values.dtype).tiny
        return torch.where(self._is_log, values.clamp_min(least).log(), values)


def _exp(values: Tensor) -> Tensor:
    """Exponentials that stay finite, and whose squares do."""
    return values.clamp_max(300.0).exp()


def _expected_below(
    mean: Tensor, variance: Tensor, other: Tensor, other_variance: Tensor
) -> Tensor:
    """E[X; X < Y] of independent X and Y with normal logarithms, which may be far apart."""
    std = (variance + other_variance).sqrt().clamp_min(torch.finfo(mean.dtype).tiny)
    share = torch.special.log_ndtr((other - mean - variance) / std)
    return _exp(mean + variance / 2 + share)
