r"""Gaussian process regression with its exact marginal likelihood: the baseline to beat."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from sklearn.base import BaseEstimator
from torch import Tensor

from deeplfm.errors import InputError, TrainingDivergedError
from deeplfm.predictive import Predictive

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch
    from gpytorch.utils.errors import NanError, NotPSDError

_LENGTHSCALES = (0.03, 0.1, 0.3, 1.0)  # of standardised inputs
_NOISE_VARIANCE = 0.1
_LEAST_NOISE = 1e-6
_BLOCK = 1000  # rows predicted at a time
_MOST_ROWS = 10_000
_FAILURES = (NanError, NotPSDError, torch.linalg.LinAlgError)


class ExactGP(BaseEstimator):
    r"""y = c + f(x) + ε with f ~ GP(0, a² exp(−|x−x'|²/2ℓ²)), one process for each output.

    Hyper-parameters maximise the marginal likelihood: a few steps of L-BFGS from each of several
    lengthscales, then on from the best. Inputs and outputs are standardised inside.

    Args:
        n_steps: steps of L-BFGS from the best start.
        random_state: seed of the small offsets of the starting lengthscales.

    Example:
        >>> x = np.linspace(0, 6, 30)[:, None]
        >>> posterior = ExactGP().fit(x, np.sin(x)).posterior(x)
        >>> bool((posterior.mean - torch.sin(torch.tensor(x))).abs().max() < 0.01)
        True
    """

    def __init__(self, n_steps: int = 100, random_state: int = 0) -> None:
        self.n_steps = n_steps
        self.random_state = random_state

    def fit(
        self, X: Float[ndarray, "N P"], Y: Float[ndarray, "N D"] | Float[ndarray, " N"]
    ) -> ExactGP:
        """Learn the hyper-parameters of each output from the rows where it is known.

        Args:
            X: inputs.
            Y: outputs; NaN marks missing ones.
        """
        x, y = _checked(X, Y)
        self._x_mean, self._x_std = x.mean(0), _spread(x)
        self._y_mean = y.nanmean(0)
        self._y_std = _spread(y)
        x, y = (x - self._x_mean) / self._x_std, (y - self._y_mean) / self._y_std
        offset = np.random.default_rng(self.random_state).normal(0, 0.1, len(_LENGTHSCALES))
        starts = np.sqrt(x.shape[1]) * np.array(_LENGTHSCALES) * np.exp(offset)
        self.models_ = []
        for column in y.T:
            known = ~column.isnan()
            self.models_.append(_fit(x[known], column[known], starts.tolist(), self.n_steps))
        return self

    def posterior(self, X: Float[ndarray, "N P"]) -> Predictive:
        """Predictive distribution of each row, in the units of the outputs."""
        if not hasattr(self, "models_"):
            raise InputError("ExactGP.posterior: not fitted yet. Call fit(X, Y) first.")
        x = torch.as_tensor(np.asarray(X, dtype=np.float64))
        if x.ndim != 2 or x.shape[1] != len(self._x_mean) or not bool(x.isfinite().all()):
            raise InputError(
                f"ExactGP.posterior: X must be finite, of shape rows by {len(self._x_mean)}, found "
                f"shape {tuple(x.shape)} with {int((~x.isfinite()).sum())} values that are not. "
                "Give the same columns as in fit, without missing values."
            )
        x = (x - self._x_mean) / self._x_std
        marginals = [_marginals(model, x) for model in self.models_]
        mean = torch.stack([mean for mean, _ in marginals], 1) * self._y_std + self._y_mean
        variance = torch.stack([variance for _, variance in marginals], 1) * self._y_std.square()
        noise = torch.stack([model.likelihood.noise.detach()[0] for model in self.models_])

        def draw(n_draws: int, seed: int) -> Tensor:
            generator = torch.Generator().manual_seed(seed)
            paths = [_paths(model, x, n_draws, generator) for model in self.models_]
            return torch.stack(paths, 2) * self._y_std + self._y_mean

        return Predictive(
            mean[None],
            variance[None],
            (noise * self._y_std.square()).expand_as(mean),
            torch.ones(1, mean.shape[1], dtype=mean.dtype),
            draw,
        )


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


def _fit(x: Tensor, y: Tensor, starts: list[float], n_steps: int) -> _Process:
    """A few steps from each start, then on from the best."""
    tried: list[tuple[float, _Process]] = []
    for start in starts:
        model = _Process(x, y, start)
        try:
            tried.append((_maximise(model, max(1, n_steps // 10)), model))
        except _FAILURES:
            continue
    tried = [(loss, model) for loss, model in tried if np.isfinite(loss)]
    if not tried:
        raise TrainingDivergedError(
            "ExactGP.fit: the marginal likelihood is not a number at any starting lengthscale "
            f"({', '.join(f'{start:.2g}' for start in starts)}). Check the data for extreme values."
        )
    best = min(tried, key=lambda pair: pair[0])[1]
    learned = {name: value.clone() for name, value in best.state_dict().items()}
    try:
        _maximise(best, n_steps)
    except _FAILURES:  # a line search went too far; what the first steps found stands
        best.load_state_dict(learned)
    return best.eval()


def _maximise(model: _Process, n_steps: int) -> float:
    """L-BFGS on the marginal likelihood; returns minus its value per row."""
    model.train()
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=n_steps, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        with _cholesky(), gpytorch.settings.debug(False):
            loss = -bound(model(*model.train_inputs), model.train_targets)
            loss.backward()
        return loss

    optimiser.step(closure)
    return closure().item()


def _cholesky() -> Any:
    """Exact linear algebra at every size; GPyTorch turns to iterative solvers past 800 rows."""
    return gpytorch.settings.max_cholesky_size(_MOST_ROWS + 1)


@torch.no_grad()
def _joint(model: _Process, x: Float[Tensor, "N P"]) -> tuple[Tensor, Tensor]:
    with _cholesky(), gpytorch.settings.debug(False):  # debug warns when x are the training rows
        posterior = model(x)
        return posterior.mean, posterior.covariance_matrix


def _marginals(model: _Process, x: Float[Tensor, "N P"]) -> tuple[Tensor, Tensor]:
    blocks = [_joint(model, block) for block in x.split(_BLOCK)]
    mean = torch.cat([mean for mean, _ in blocks])
    return mean, torch.cat([covariance.diagonal() for _, covariance in blocks]).clamp_min(0.0)


def _paths(
    model: _Process, x: Float[Tensor, "N P"], n_draws: int, generator: torch.Generator
) -> Float[Tensor, "S N"]:
    """Whole functions; by eigenvectors, as the covariance of near rows is singular to rounding."""
    mean, covariance = _joint(model, x)
    value, vector = torch.linalg.eigh(covariance)
    normal = torch.randn(n_draws, len(x), generator=generator, dtype=mean.dtype)
    return mean + (normal * value.clamp_min(0.0).sqrt()) @ vector.T


def _checked(X: ndarray, Y: ndarray) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N D"]]:
    x = torch.as_tensor(np.asarray(X, dtype=np.float64))
    y = torch.as_tensor(np.asarray(Y, dtype=np.float64))
    y = y[:, None] if y.ndim == 1 else y
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(
            f"ExactGP.fit: X must be rows by inputs and Y rows by outputs, found shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}. Reshape them to the same number of rows."
        )
    if not bool(x.isfinite().all()) or bool(y.isinf().any()):
        raise InputError(
            "ExactGP.fit: X must be finite and Y finite or NaN, found "
            f"{int((~x.isfinite()).sum())} bad values in X and {int(y.isinf().sum())} in Y. "
            "Remove those rows, or write NaN in Y to mark them as missing."
        )
    known = (~y.isnan()).sum(0)
    if len(x) > _MOST_ROWS or bool((known < 2).any()):
        raise InputError(
            f"ExactGP.fit: every output needs 2 to {_MOST_ROWS} known rows, found "
            f"{known.tolist()}. Drop an output that is never observed; thin out longer data."
        )
    return x, y


def _spread(values: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
    """Standard deviation of each column, 1 for a constant one."""
    std = (values - values.nanmean(0)).square().nanmean(0).sqrt()
    return torch.where(std > 0, std, 1.0)
