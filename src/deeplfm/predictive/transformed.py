"""Predictions of transformed outputs: those modelled by their logarithm, and those with bounds."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from torch import Tensor

from deeplfm.predictive.mixture import Predictive

_TAIL = 1e-9  # probability beyond the ends of an integral
_NODES = 257  # of an integral over a tail


class Transformed(Predictive):
    """A prediction after an increasing function of each output; its components are those before."""

    def __init__(self, inner: Predictive) -> None:
        self._inner = inner
        super().__init__(
            inner.component_mean, inner.component_variance, inner.component_noise, inner.weight
        )

    @abstractmethod
    def _outside(self, values: Tensor) -> Tensor:
        """The function."""

    def quantile(
        self, levels: float | list[float] | Tensor, latent: bool = False
    ) -> Float[Tensor, "*L N D"]:
        """Quantiles: the function of the quantiles before."""
        return self._outside(self._inner.quantile(levels, latent))

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """Whole functions."""
        return self._outside(self._inner.sample(n_draws, seed, latent))


class Exponential(Transformed):
    """A prediction of logarithms of some outputs, converted to the outputs themselves.

    Its point forecast (``mean``) is the median for these outputs: their expected value depends on the
    far tail, which data do not determine, and may lie beyond every interval.
    """

    def __init__(self, inner: Predictive, is_log: Bool[Tensor, " D"]) -> None:
        self._is_log = is_log
        super().__init__(inner)

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


class Clipped(Transformed):
    """Distribution of min(max(Z, floor), cap), where Z follows another prediction.

    This is a censored (Tobit) observation: all probability below the floor is at the floor, as of
    rain, which is often exactly 0.
    """

    def __init__(
        self, inner: Predictive, floor: Float[Tensor, " D"], cap: Float[Tensor, " D"]
    ) -> None:
        self._floor, self._cap = floor, cap
        super().__init__(inner)

    @property
    def mean(self) -> Float[Tensor, "N D"]:
        """Expected value, in closed form; the clipped median of outputs modelled by logarithms."""
        if isinstance(self._inner, Exponential):
            return self._outside(self._inner.mean)
        return self._average(self._moments(latent=False)[0])

    def variance(self, latent: bool = False) -> Float[Tensor, "N D"]:
        """Variance; of outputs modelled by logarithms an upper bound, that of Z."""
        if isinstance(self._inner, Exponential):
            return self._inner.variance(latent)
        first, second = (self._average(moment) for moment in self._moments(latent))
        return (second - first.square()).clamp_min(0)

    def log_prob(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Log density of each observation; at a bound the log probability of the bound."""
        target = self._target(target)
        density = self._inner.log_prob(target, latent)
        below = self._inner.cdf(self._floor.expand_as(target), latent).log()
        above = (1 - self._inner.cdf(self._cap.expand_as(target), latent)).log()
        density = torch.where(target <= self._floor, below, density)
        return torch.where(target >= self._cap, above, density)

    def cdf(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Probability of an observation at or below the target."""
        target = self._target(target)
        below = self._inner.cdf(target, latent)
        below = torch.where(target < self._floor, 0.0, below)
        return torch.where(target >= self._cap, 1.0, below)

    def crps(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Continuous ranked probability score: that of Z without its tails beyond the bounds."""
        target = self._target(target)
        low, high = self._inner.quantile([_TAIL, 1 - _TAIL], latent)
        score = self._inner.crps(target, latent)
        for begin, end, is_below in ((low, self._floor, True), (self._cap, high, False)):
            length = torch.where(torch.isfinite(begin - end), end - begin, 0.0).clamp_min(0)
            begin = torch.where(length > 0, begin, target)
            points = torch.linspace(0, 1, _NODES, dtype=target.dtype)
            tail = []
            for point in points:
                below = self._inner.cdf(begin + point * length, latent)
                tail.append((below if is_below else 1 - below).square())
            score = score - length * torch.trapezoid(torch.stack(tail), points, dim=0)
        return score

    def _outside(self, values: Tensor) -> Tensor:
        return values.clamp(self._floor, self._cap)

    def _moments(self, latent: bool) -> tuple[Tensor, Tensor]:
        """First and second moment of each clipped Gaussian component."""
        mean, std = self.component_mean, self._spread(latent).sqrt()
        floor, cap = self._floor.expand_as(mean), self._cap.expand_as(mean)
        low, high = (floor - mean) / std, (cap - mean) / std
        below, above = torch.special.ndtr(low), torch.special.ndtr(-high)
        inside = (1 - below - above).clamp_min(0)
        density = [torch.exp(-bound.square() / 2) / (2 * torch.pi) ** 0.5 for bound in (low, high)]
        edges = [_finite(bound * size) for bound, size in zip((low, high), density, strict=True)]
        slope = density[0] - density[1]  # E[z; inside] of a standard normal z
        square = inside + edges[0] - edges[1]
        floor, cap = _finite(floor), _finite(cap)
        first = mean * inside + std * slope
        second = mean.square() * inside + 2 * mean * std * slope + std.square() * square
        first = first + floor * below + cap * above
        return first, second + floor.square() * below + cap.square() * above


def _finite(values: Tensor) -> Tensor:
    return torch.where(torch.isfinite(values), values, 0.0)
