r"""Gaussian process regression with its exact marginal likelihood: the baseline to beat."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.baselines.base import Baseline, paths
from deeplfm.baselines.evidence import fit_from
from deeplfm.predictive.mixture import Predictive

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch

_LENGTHSCALES = (0.03, 0.1, 0.3, 1.0)  # of standardised inputs
_JITTER = 0.1  # of their logarithms, by the seed
_NOISE_VARIANCE = 0.1
_LEAST_NOISE = 1e-6
_BLOCK = 1000  # rows predicted at a time


@dataclass(eq=False, repr=False)
class ExactGP(Baseline):
    r"""y = c + f(x) + ε with f ~ GP(0, a² exp(−|x−x'|²/2ℓ²)), one process for each output.

    Hyper-parameters maximise the marginal likelihood: a few steps of L-BFGS from each of several
    lengthscales, then on from the best. Inputs and outputs are standardised inside.

    Example:
        >>> x = np.linspace(0, 6, 30)[:, None]
        >>> posterior = ExactGP().fit(x, np.sin(x)).posterior(x)
        >>> bool((posterior.mean - torch.sin(torch.tensor(x))).abs().max() < 0.01)
        True
    """

    most_rows = 10_000
    counts: ClassVar[tuple[str, ...]] = ("n_steps",)

    n_steps: int = 100
    time_limit: float | None = None
    random_state: int = 0

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        offset = np.random.default_rng(self.random_state).normal(0, _JITTER, len(_LENGTHSCALES))
        lengthscales = np.sqrt(x.shape[1]) * np.array(_LENGTHSCALES) * np.exp(offset)
        share = None if self.time_limit is None else self.time_limit / y.shape[1]
        self.models_ = []
        for column in y.T:
            known = ~column.isnan()
            starts = [_Process(x[known], column[known], float(start)) for start in lengthscales]
            model = fit_from(starts, _loss, self.n_steps, "ExactGP", share)
            self.models_.append(model.eval())

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        marginals = [_marginals(model, x) for model in self.models_]
        mean = torch.stack([mean for mean, _ in marginals], 1)
        variance = torch.stack([variance for _, variance in marginals], 1)
        noise = torch.stack([model.likelihood.noise.detach()[0] for model in self.models_])

        def draw(n_draws: int, seed: int) -> Tensor:
            generator = torch.Generator().manual_seed(seed)
            return torch.stack(
                [paths(*_joint(model, x), n_draws, generator) for model in self.models_], 2
            )

        weight = torch.ones(1, mean.shape[1], dtype=mean.dtype)
        return Predictive(mean[None], variance[None], noise.expand_as(mean), weight, draw)


class _Process(gpytorch.models.ExactGP):
    def __init__(self, x: Tensor, y: Tensor, lengthscale: float) -> None:
        enough = gpytorch.constraints.GreaterThan(_LEAST_NOISE)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=enough)
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.double()
        self.covar_module.outputscale = 1.0
        self.covar_module.base_kernel.lengthscale = lengthscale
        self.likelihood.noise = _NOISE_VARIANCE

    def forward(self, x: Float[Tensor, "N P"]) -> gpytorch.distributions.MultivariateNormal:
        """Prior of the function at some rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _loss(model: _Process) -> Tensor:
    """Minus the log marginal likelihood per row."""
    model.train()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with _cholesky(), gpytorch.settings.debug(False):
        return -evidence(model(*model.train_inputs), model.train_targets)


def _cholesky() -> Any:
    """Exact linear algebra at every size; GPyTorch turns to iterative solvers past 800 rows."""
    return gpytorch.settings.max_cholesky_size(ExactGP.most_rows + 1)


@torch.no_grad()
def _joint(model: _Process, x: Float[Tensor, "N P"]) -> tuple[Tensor, Tensor]:
    with _cholesky(), gpytorch.settings.debug(False):  # debug warns when x are the training rows
        posterior = model(x)
        return posterior.mean, posterior.covariance_matrix


def _marginals(model: _Process, x: Float[Tensor, "N P"]) -> tuple[Tensor, Tensor]:
    blocks = [_joint(model, block) for block in x.split(_BLOCK)]
    mean = torch.cat([mean for mean, _ in blocks])
    return mean, torch.cat([covariance.diagonal() for _, covariance in blocks]).clamp_min(0.0)
