r"""Predictive distributions: a mixture of Gaussians for every row and output."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.randomness import generator_for

_BISECTIONS = 60
_MOST_SHOWN = 10  # rows in a notebook


class Predictive:
    r"""Mixture Σ_c w_c N(μ_c, v_c + σ²) for each row and output.

    Components are samples of the hidden layers, with the output weights integrated out, and members
    of a model average. All methods include observation noise unless ``latent=True``.

    Args:
        mean: component means.
        variance: component variances of the function.
        noise_variance: variance of the observation noise, per component where they differ.
        weight: mixture weights of each output, and of each row where they differ; they sum to one.
        draw: draws functions: (number of draws, seed) → S N D. Without it a draw takes the same
            quantile of the mixture weights in all rows.
    """

    def __init__(
        self,
        mean: Float[Tensor, "C N D"],
        variance: Float[Tensor, "C N D"],
        noise_variance: Float[Tensor, "*C N D"],
        weight: Float[Tensor, "C D"] | Float[Tensor, "C _ D"],
        draw: Callable[[int, int], Float[Tensor, "S N D"]] | None = None,
    ) -> None:
        self.component_mean, self.component_variance = mean, variance
        self.component_noise = noise_variance.expand_as(mean)
        self.weight = weight if weight.dim() == 3 else weight[:, None]  # C #N D
        self._draw = draw

    def __repr__(self) -> str:
        n_rows, n_outputs = self.component_mean.shape[1:]
        return f"{type(self).__name__}({n_rows} rows, {n_outputs} outputs)"

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        mean, std = self.mean[:_MOST_SHOWN], self.std()[:_MOST_SHOWN]
        low, high = (end[:_MOST_SHOWN] for end in self.interval())
        names = [f"output {d}: " if mean.shape[1] > 1 else "" for d in range(mean.shape[1])]
        heads = ("mean", "standard deviation", "2.5 %", "97.5 %")
        head = "".join(f"<th>{name}{item}</th>" for name in names for item in heads)
        rows = [
            "".join(
                f"<td>{float(part[i, d]):.5g}</td>" for d in range(mean.shape[1]) for part in parts
            )
            for parts in [(mean, std, low, high)]
            for i in range(len(mean))
        ]
        body = "".join(f"<tr><th>{i}</th>{row}</tr>" for i, row in enumerate(rows))
        n_rows = self.component_mean.shape[1]
        more = (
            f"<p>{n_rows} rows; the first {len(rows)} are shown.</p>" if n_rows > len(rows) else ""
        )
        return (
            f"<table><thead><tr><th>row</th>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
        )

    @property
    def mean(self) -> Float[Tensor, "N D"]:
        """Expected value."""
        return self._average(self.component_mean)

    def variance(self, latent: bool = False) -> Float[Tensor, "N D"]:
        """Variance of an observation, or of the function."""
        spread = (self.component_mean - self.mean).square()
        return self._average(self._spread(latent) + spread)

    def std(self, latent: bool = False) -> Float[Tensor, "N D"]:
        """Standard deviation of an observation, or of the function."""
        return self.variance(latent).sqrt()

    def quantile(
        self, levels: float | list[float] | Tensor, latent: bool = False
    ) -> Float[Tensor, "*L N D"]:
        """Quantiles of the mixture, by bisection of its distribution function."""
        level = torch.as_tensor(levels, dtype=self.component_mean.dtype)
        if not bool(((level > 0) & (level < 1)).all()):
            raise InputError(
                f"quantile: levels must lie strictly between 0 and 1, found {level.tolist()}."
            )
        flat = level.reshape(-1)
        scale = self._spread(latent).sqrt()
        reach = 10 * scale
        low = (self.component_mean - reach).amin(0).expand(len(flat), -1, -1)
        high = (self.component_mean + reach).amax(0).expand(len(flat), -1, -1)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = torch.stack([self._cdf(point, scale) for point in middle])
            under = below < flat[:, None, None]
            low, high = torch.where(under, middle, low), torch.where(under, high, middle)
        return ((low + high) / 2).reshape(*level.shape, *self.mean.shape)

    def interval(
        self, coverage: float = 0.95, latent: bool = False
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Central interval that holds an observation with the given probability."""
        if not 0 < coverage < 1:
            raise InputError(
                f"interval: coverage must lie strictly between 0 and 1, found {coverage}."
            )
        tail = (1 - coverage) / 2
        low, high = self.quantile([tail, 1 - tail], latent)
        return low, high

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """Whole functions, each one draw over all rows; with independent noise unless latent."""
        if self._draw is None:
            return self._pick(n_draws, seed, latent)
        draws = self._draw(n_draws, seed)
        if latent:
            return draws
        generator = generator_for(seed, "observation", device=draws.device)
        noise = torch.randn(
            draws.shape, generator=generator, dtype=draws.dtype, device=draws.device
        )
        average_noise = self._average(self.component_noise)
        return draws + average_noise.sqrt() * noise

    def log_prob(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Log density of each observation; NaN where the target is."""
        target = self._target(target)
        variance = self._spread(latent)
        squares = (target - self.component_mean).square() / variance
        log_density = -0.5 * (math.log(2 * math.pi) + variance.log() + squares)
        return torch.logsumexp(log_density + self.weight.log(), dim=0)

    def cdf(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Probability of an observation at or below the target."""
        target = self._target(target)
        return self._cdf(target, self._spread(latent).sqrt())

    def crps(self, target: ArrayLike | Tensor, latent: bool = False) -> Float[Tensor, "N D"]:
        """Continuous ranked probability score, in closed form (Grimit et al. 2006)."""
        target = self._target(target)
        mean, variance = self.component_mean, self._spread(latent)
        weight = self.weight
        score = (weight * _absolute_moment(target - mean, variance)).sum(0)
        for c in range(len(mean)):  # one component against all: memory C, not C²
            pair = _absolute_moment(mean[c] - mean, variance[c] + variance)
            score = score - 0.5 * weight[c] * (weight * pair).sum(0)
        return score

    def widened(self, factor: Float[Tensor, "#N D"]) -> Predictive:
        """The same prediction with all deviations from its mean times a factor."""
        draw, center = self._draw, self.mean
        squared = factor**2
        return Predictive(
            center + factor * (self.component_mean - center),
            squared * self.component_variance,
            squared * self.component_noise,
            self.weight,
            draw and (lambda n, seed: center + factor * (draw(n, seed) - center)),
        )

    def _target(self, target: ArrayLike | Tensor) -> Float[Tensor, "N D"]:
        """One value for each row and output; a vector where there is one output."""
        mean = self.component_mean
        if isinstance(target, np.ndarray) and not target.flags.writeable:
            target = target.copy()  # torch warns about read-only arrays
        values = torch.as_tensor(target, dtype=mean.dtype, device=mean.device)
        if values.dim() == 1 and mean.shape[-1] == 1:
            values = values[:, None]
        if values.shape != mean.shape[1:]:
            raise InputError(
                f"target: shape {tuple(values.shape)}, but the prediction has "
                f"{tuple(mean.shape[1:])}. Give one value for each row and output."
            )
        return values

    def _spread(self, latent: bool) -> Tensor:
        return self.component_variance if latent else self.component_variance + self.component_noise

    def _average(self, values: Float[Tensor, "C N D"]) -> Float[Tensor, "N D"]:
        return (self.weight * values).sum(0)

    def _pick(self, n_draws: int, seed: int, latent: bool) -> Float[Tensor, "S N D"]:
        """Draws of the mixture; the function of a draw has one component level for all rows."""
        mean = self.component_mean
        _, n_rows, n_outputs = mean.shape
        shape = (n_draws, 1 if latent else n_rows, n_outputs)
        generator = generator_for(seed, "draw", device=mean.device)
        level = torch.rand(shape, generator=generator, dtype=mean.dtype, device=mean.device)
        error = torch.randn(shape, generator=generator, dtype=mean.dtype, device=mean.device)
        reached = self.weight.cumsum(0).expand_as(mean).movedim(0, -1).contiguous()  # N D C
        level = level.expand(-1, n_rows, -1).movedim(0, -1).contiguous()  # N D S
        index = torch.searchsorted(reached, level).clamp(max=len(mean) - 1).movedim(-1, 0)
        center, spread = (item.gather(0, index) for item in (mean, self._spread(latent)))
        return center + spread.sqrt() * error

    def _cdf(self, point: Tensor, scale: Tensor) -> Tensor:
        return self._average(torch.special.ndtr((point - self.component_mean) / scale))


def _absolute_moment(mean: Tensor, variance: Tensor) -> Tensor:
    """E|X| for X ~ N(mean, variance)."""
    # the variance of a function may be 0: avoid 0/0
    std = variance.sqrt().clamp_min(torch.finfo(variance.dtype).tiny)
    z = mean / std
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return 2 * std * density + mean * (2 * torch.special.ndtr(z) - 1)


class _Average(Predictive):
    """Mixture of predictions: a draw comes from one member, with its noise."""

    def __init__(self, parts: list[Predictive], weight: Float[Tensor, "B _ D"]) -> None:
        self._parts, self._share = parts, weight
        super().__init__(
            torch.cat([part.component_mean for part in parts]),
            torch.cat([part.component_variance for part in parts]),
            torch.cat([part.component_noise for part in parts]),
            _joined([part.weight * weight[i] for i, part in enumerate(parts)]),
            draw=lambda n_draws, seed: self.sample(n_draws, seed, latent=True),
        )

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """Draws of members chosen by weight; one member for all rows where weights do not vary."""
        share = self._share.cpu().double()
        pick = torch.rand(
            share.shape[-1], n_draws, generator=generator_for(seed, "member"), dtype=torch.float64
        )
        member = (share.cumsum(0)[:, None] <= pick.T[:, None]).sum(0)  # S #N D
        member = member.clamp(max=len(self._parts) - 1)
        draws = torch.stack([part.sample(n_draws, seed, latent) for part in self._parts])
        index = member[None].expand(1, *draws.shape[1:]).to(draws.device)
        return draws.gather(0, index)[0]


def _joined(weights: list[Tensor]) -> Float[Tensor, "C _ D"]:
    """Weights of several mixtures as one; by row where those of any are."""
    n_rows = max(weight.shape[1] for weight in weights)
    return torch.cat([weight.expand(-1, n_rows, -1) for weight in weights])


def mix(
    parts: list[Predictive], weight: Float[Tensor, "B D"] | Float[Tensor, "B N D"]
) -> Predictive:
    """Mixture of the predictions of several models, weighted for each output, or row and output."""
    return _Average(parts, weight if weight.dim() == 3 else weight[:, None])


def nmse(
    mean: Float[Tensor, "N D"],
    target: Float[Tensor, "N D"],
    counts: Float[Tensor, "N D"] | None = None,
) -> Float[Tensor, " D"]:
    """Mean squared error over the variance of the scored targets; predicting their mean scores 1."""
    share = torch.where(target.isnan(), 0, 1.0 if counts is None else counts)
    share = share / share.sum(0)
    known = target.nan_to_num(0.0)
    centre = (share * known).sum(0)
    return (share * (mean - known).square()).sum(0) / (share * (known - centre).square()).sum(0)


def mnll(posterior: Predictive, target: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
    """Mean negative log density of an observation, noise included."""
    return -posterior.log_prob(target).nanmean(0)


def coverage(
    posterior: Predictive, target: Float[Tensor, "N D"], level: float = 0.95
) -> Float[Tensor, " D"]:
    """Fraction of observations inside the central interval of the given level."""
    position = posterior.cdf(target)
    inside = ((position - 0.5).abs() <= level / 2).to(target.dtype)
    return torch.where(target.isnan(), torch.nan, inside).nanmean(0)
