r"""Gaussian process regression with its exact marginal likelihood: the baseline to beat."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from deeplfm.errors import InputError, TrainingDivergedError
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.validation import check_inputs, check_targets
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


class ExactGP(RegressorMixin, MultiOutputMixin, BaseEstimator):
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

    def fit(self, X: Any, Y: Any) -> ExactGP:
        """Learn the hyper-parameters of each output from the rows where it is known.

        Args:
            X: inputs; a vector is one column.
            Y: outputs; NaN marks missing ones.
        """
        inputs = check_inputs(X)
        outputs = check_targets(Y, len(inputs))
        if len(inputs) > _MOST_ROWS:
            raise InputError(
                f"ExactGP.fit: {len(inputs)} rows, but its cost is their cube and {_MOST_ROWS} the "
                "most it takes. Thin the rows out, or fit a DeepLFMRegressor."
            )
        self.is_vector_ = np.ndim(Y) == 1
        self.n_features_in_ = inputs.shape[1]
        self.scaling_ = Scaling.of(inputs, outputs, is_series=False)
        x = torch.as_tensor(self.scaling_.inputs(inputs))
        y = torch.as_tensor(self.scaling_.outputs(outputs))
        offset = np.random.default_rng(self.random_state).normal(0, 0.1, len(_LENGTHSCALES))
        starts = np.sqrt(x.shape[1]) * np.array(_LENGTHSCALES) * np.exp(offset)
        self.models_ = []
        for column in y.T:
            known = ~column.isnan()
            self.models_.append(_fit(x[known], column[known], starts.tolist(), self.n_steps))
        return self

    def posterior(self, X: Any) -> Predictive:
        """Predictive distribution of each row, in the units of the outputs."""
        check_is_fitted(self)
        x = torch.as_tensor(self.scaling_.inputs(check_inputs(X, self.n_features_in_)))
        marginals = [_marginals(model, x) for model in self.models_]
        mean = torch.stack([mean for mean, _ in marginals], 1)
        variance = torch.stack([variance for _, variance in marginals], 1)
        noise = torch.stack([model.likelihood.noise.detach()[0] for model in self.models_])

        def draw(n_draws: int, seed: int) -> Tensor:
            generator = torch.Generator().manual_seed(seed)
            return torch.stack([_paths(model, x, n_draws, generator) for model in self.models_], 2)

        weight = torch.ones(1, mean.shape[1], dtype=mean.dtype)
        return self.scaling_.predictive(
            Predictive(mean[None], variance[None], noise.expand_as(mean), weight, draw)
        )

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Expected values, in the shape of the outputs given to ``fit``."""
        mean = self.posterior(X).mean.numpy()
        return mean[:, 0] if self.is_vector_ else mean


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
