r"""Sparse variational Gaussian process whose outputs share latent functions."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.baselines.base import Baseline, paths
from deeplfm.baselines.descent import descend
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for, seed_for

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch

_LENGTHSCALES = (0.1, 0.3, 1.0)  # of standardised inputs, to start from
_TRIAL = 0.1  # of the steps, from each start
_SHARED = 0.3  # initial weight of the latent functions of other outputs; of its own, 1
_NOISE_VARIANCE = 0.1
_LEAST_NOISE = 1e-6
_BLOCK = 1000  # rows predicted at a time


@dataclass(eq=False, repr=False)
class SparseGP(Baseline):
    r"""y_d = Σ_q a_dq g_q(x) + ε_d: a linear model of coregionalisation, with noise for each output.

    Every g_q has an exponentiated quadratic kernel with a lengthscale for each input, and inducing
    points of its own; all maximise the variational bound. A tenth of the steps is taken from each of
    several lengthscales, then all from the best.
    """

    counts: ClassVar[tuple[str, ...]] = ("n_inducing", "n_steps", "batch_size")

    n_inducing: int = 100
    n_latents: int | None = None
    n_steps: int = 2000
    batch_size: int = 1000
    learning_rate: float = 0.01
    time_limit: float | None = None
    random_state: int = 0

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        generator = generator_for(self.random_state, "start")
        n_inducing = min(self.n_inducing, len(x))
        inducing = x[torch.randperm(len(x), generator=generator)[:n_inducing]]
        n_outputs = y.shape[1]
        starts = [
            _Model(inducing, self.n_latents or n_outputs, n_outputs, size * math.sqrt(x.shape[1]))
            for size in _LENGTHSCALES
        ]
        trials = [self._train(m, x, y, max(1, int(_TRIAL * self.n_steps)), _TRIAL) for m in starts]
        self.model_ = starts[min(range(len(starts)), key=lambda i: trials[i])]
        self._train(self.model_, x, y, self.n_steps, 1 - _TRIAL * len(starts))
        self.model_.eval()

    def _train(self, model: _Model, x: Tensor, y: Tensor, n_steps: int, share: float) -> float:
        with torch.random.fork_rng(devices=[]):  # GPyTorch draws its first variational mean
            torch.manual_seed(seed_for(self.random_state, "model"))
            return descend(
                model.parameters(),
                lambda batch: -model.bound(x[batch], y[batch], len(x)) / len(x),
                len(x),
                n_steps=n_steps,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                seed=self.random_state,
                owner="SparseGP",
                time_limit=None if self.time_limit is None else share * self.time_limit,
            )

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        blocks = [self.model_.marginals(block) for block in x.split(_BLOCK)]
        mean, variance = (torch.cat(part) for part in zip(*blocks, strict=True))

        def draw(n_draws: int, seed: int) -> Tensor:
            return self.model_.draw(x, n_draws, generator_for(seed, "draw"))

        weight = torch.ones(1, mean.shape[1], dtype=mean.dtype)
        noise = self.model_.noise_variance.expand_as(mean)
        return Predictive(mean[None], variance[None], noise, weight, draw)


class _Latents(gpytorch.models.ApproximateGP):
    """Latent functions g_q, each with its own inducing points."""

    def __init__(self, inducing: Float[Tensor, "I P"], n_latents: int, lengthscale: float) -> None:
        n_inducing, n_inputs = inducing.shape
        batch = torch.Size([n_latents])
        family = gpytorch.variational.CholeskyVariationalDistribution(n_inducing, batch)
        places = inducing.expand(n_latents, -1, -1).clone()
        super().__init__(gpytorch.variational.VariationalStrategy(self, places, family))
        self.mean_module = gpytorch.means.ZeroMean(batch)
        self.covar_module = gpytorch.kernels.RBFKernel(n_inputs, batch_shape=batch)
        self.double()
        self.covar_module.lengthscale = lengthscale

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior of the latent functions; their size is in the mixing weights."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Model(nn.Module):
    def __init__(
        self, inducing: Tensor, n_latents: int, n_outputs: int, lengthscale: float
    ) -> None:
        super().__init__()
        self.latents = _Latents(inducing, n_latents, lengthscale)
        turn = torch.arange(n_latents)[:, None] - torch.arange(n_outputs)
        mixing = torch.where(turn % max(n_latents, n_outputs) == 0, 1.0, _SHARED)
        self.mixing = nn.Parameter(mixing.double())  # Q D
        self.constant = nn.Parameter(torch.zeros(n_outputs, dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.full_like(self.constant, math.log(_NOISE_VARIANCE)))

    @property
    def noise_variance(self) -> Float[Tensor, " D"]:
        """Of each output."""
        return self.log_noise.exp() + _LEAST_NOISE

    def marginals(self, x: Float[Tensor, "N P"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of each output's function."""
        latent = self.latents(x)
        mean = latent.mean.mT @ self.mixing + self.constant
        return mean, latent.variance.mT @ self.mixing.square()

    def bound(self, x: Tensor, y: Float[Tensor, "B D"], n_rows: int) -> Tensor:
        """Evidence lower bound, from a batch of all rows; missing targets are left out."""
        mean, variance = self.marginals(x)
        known = ~y.isnan()
        noise = self.noise_variance
        square = (y.nan_to_num(0.0) - mean).square() + variance
        fit = -0.5 * (math.log(2 * math.pi) + noise.log() + square / noise)
        divergence = self.latents.variational_strategy.kl_divergence().sum()
        return n_rows / len(x) * (fit * known).sum() - divergence

    @torch.no_grad()
    def draw(self, x: Tensor, n_draws: int, generator: torch.Generator) -> Float[Tensor, "S N D"]:
        """Whole functions."""
        latent = self.latents(x)
        each = zip(latent.mean, latent.covariance_matrix, strict=True)
        draws = torch.stack([paths(*joint, n_draws, generator) for joint in each], -1)  # S N Q
        return draws @ self.mixing + self.constant
