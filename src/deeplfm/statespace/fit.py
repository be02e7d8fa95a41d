"""Parameters of a state-space model by their posterior: its mode, and draws around it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm, qmc

from deeplfm.errors import TrainingDivergedError
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.evidence import Evidence
from deeplfm.statespace.parameters import Array
from deeplfm.statespace.solved import Known

MOST_ROWS = 20_000  # whose evidence determines the parameters: the most recent
_STEPS, _REACH = 40, 5.0  # of the optimiser; standard deviations of the prior that it may go
_APART = 0.02  # of logarithms, for the curvature
_WORST = 1e10  # where no factor exists


class FittedOutput(NamedTuple):
    """Parameters of one output.

    Attributes:
        mode: logarithms of the parameters with the highest posterior density.
        draws: draws from a normal approximation of their posterior.
        log_evidence: log density of the rows, parameters integrated out (Laplace).
        n_steps: of the optimiser.
    """

    mode: Array
    draws: Array
    log_evidence: float
    n_steps: int


def fit_output(
    config: StateSpaceConfig, known: Known, seed: int = 0, start: Array | None = None
) -> FittedOutput:
    """Fit the parameters of one output.

    Args:
        config: what the model is made of.
        known: rows with a known target, in order of time.
        seed: of the draws.
        start: parameters to start from; by default the medians of the prior.
    """
    posterior = _Posterior(config, Known(*(part[-MOST_ROWS:] for part in known)))
    mean, spread = posterior.prior
    found = minimize(
        posterior,
        mean if start is None else start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(mean - _REACH * spread, mean + _REACH * spread, strict=True)),
        options={"maxiter": _STEPS, "ftol": 1e-7},
    )
    if not np.isfinite(found.fun) or found.fun >= _WORST:
        raise TrainingDivergedError(
            f"state-space model: the evidence of {len(known.y)} rows is not a number. Check the data "
            "for values far from all others."
        )
    root, log_volume = posterior.laplace(found.x)
    draws = found.x[None]
    if config.n_draws > 1:
        n_points = 1 << (config.n_draws - 1).bit_length()
        points = qmc.Sobol(len(mean), seed=seed).random(n_points)[: config.n_draws]
        draws = found.x + norm.ppf(points) @ root.T
    return FittedOutput(found.x, draws, log_volume - float(found.fun), int(found.nit))


class _Posterior:
    """Minus the log posterior density of the parameters up to a constant, and its gradient."""

    def __init__(self, config: StateSpaceConfig, known: Known) -> None:
        self._evidence = Evidence(config, known)
        self.prior = self._evidence.layout.prior

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        mean, spread = self.prior
        off = (parameters - mean) / spread
        try:
            value, gradient = self._evidence(parameters)
        except np.linalg.LinAlgError:
            return _WORST, np.zeros_like(parameters)
        return 0.5 * float(off @ off) - value, off / spread - gradient

    def laplace(self, mode: Array) -> tuple[Array, float]:
        """Root of the covariance at the mode, nowhere wider than the prior, and its log volume."""
        _, spread = self.prior
        _, here = self(mode)
        rows = [self(mode + _APART * one)[1] - here for one in np.eye(len(mode))]
        hessian = np.nan_to_num(np.array(rows)) / _APART
        whitened = spread[:, None] * (hessian + hessian.T) / 2 * spread
        values, vectors = np.linalg.eigh(whitened)
        values = np.maximum(values, 1.0)  # the curvature of the prior
        return spread[:, None] * vectors / np.sqrt(values), -0.5 * float(np.log(values).sum())
