"""Parameters of a state-space model by their posterior: its mode, and draws around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import norm, qmc

from deeplfm.errors import TrainingDivergedError
from deeplfm.statespace.chain import Array
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.evidence import Evidence
from deeplfm.statespace.parameters import Layout
from deeplfm.statespace.solved import Known
from deeplfm.training.interruption import stop_requested, time_left, within

MOST_ROWS = 5_000  # whose evidence determines the parameters: the most recent
_MOST_STATES = 30_000  # of all these rows: fewer rows where each has many
REACH = 5.0  # standard deviations of the prior that the optimiser may go
_STEPS = 40  # of the optimiser
_TOLERANCE = 1e-6  # of the log posterior density, relative
APART = 0.02  # of parameters, for the curvature
WORST = 1e10  # value where no factor exists
_PRIOR_DRAWS = 64  # that are weighed by the rows


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
    config: StateSpaceConfig,
    known: Known,
    seed: int = 0,
    start: Mapping[str, float] | None = None,
    fallback: Array | None = None,
    by_prior: bool = False,
) -> FittedOutput:
    """Fit the parameters of one output.

    When work is to end, the optimiser stops after its step, and the parameters so far have no spread.

    Args:
        config: what the model is made of.
        known: rows with a known target, in order of time.
        seed: of the draws.
        start: logarithms of parameters to start from, by name; those of others are the prior medians.
        fallback: parameters to take where no time is left to fit any.
        by_prior: draw the parameters from their prior, and weigh these draws by the rows. Those of an
            output without known rows, such as a sensor that was taken off before the rows that are kept,
            are drawn so in any case.
    """
    n_known, n_rows = len(known.y), min(MOST_ROWS, _MOST_STATES // config.n_states)
    posterior = Posterior(Evidence([config], [Known(*(part[-n_rows:] for part in known))]))
    mean, spread = posterior.mean, posterior.spread
    lowest, highest = mean - REACH * spread, mean + REACH * spread
    names = Layout(config).names
    begin = [(start or {}).get(name, median) for name, median in zip(names, mean, strict=True)]
    if not n_known:
        draws = draws_around(mean, np.diag(spread), config.n_draws, seed)
        return FittedOutput(mean, draws, 0.0, 0)
    if by_prior:
        return _weighed(posterior, draws_around(mean, np.diag(spread), _PRIOR_DRAWS, seed), config)
    if fallback is not None and stop_requested():
        mode, value, n_steps = fallback, posterior(fallback)[0], 0
    else:
        with within(time_left() / 2):  # the rest is for the curvature
            found = minimize(
                posterior,
                np.clip(begin, lowest, highest),
                jac=True,
                method="L-BFGS-B",
                bounds=list(zip(lowest, highest, strict=True)),
                options={"maxiter": _STEPS, "ftol": _TOLERANCE},
                callback=_stop_in_time,
            )
        mode, value, n_steps = found.x, float(found.fun), int(found.nit)
    if not np.isfinite(value) or value >= WORST:
        raise TrainingDivergedError(
            f"state-space model: the evidence of {n_known} rows is not a number. Check the data "
            "for values far from all others."
        )
    root, log_volume = np.zeros((len(mean), len(mean))), 0.0
    if not stop_requested():
        root, log_volume = posterior.laplace(mode)
    draws = draws_around(mode, root, config.n_draws, seed)
    return FittedOutput(mode, draws, log_volume - value, n_steps)


def _weighed(posterior: Posterior, draws: Array, config: StateSpaceConfig) -> FittedOutput:
    """As many of the draws from the prior as the model has, in proportion to their evidence."""
    off = (draws - posterior.mean) / posterior.spread
    values = 0.5 * (off**2).sum(1) - np.array([posterior(draw)[0] for draw in draws])
    share = softmax(values)
    places = (np.arange(config.n_draws) + 0.5) / config.n_draws
    chosen = np.minimum(np.searchsorted(share.cumsum(), places), len(draws) - 1)
    log_evidence = float(logsumexp(values) - np.log(len(draws)))
    return FittedOutput(share @ draws, draws[chosen], log_evidence, 0)


def draws_around(mode: Array, root: Array, n_draws: int, seed: int) -> Array:
    """Draws from a normal distribution by its mode and the root of its covariance, ``S K``."""
    if n_draws == 1:
        return mode[None]
    n_points = 1 << (n_draws - 1).bit_length()
    points = qmc.Sobol(len(mode), seed=seed).random(n_points)[:n_draws]
    return np.asarray(mode + norm.ppf(points) @ root.T)


def _stop_in_time(_: Array) -> None:
    if stop_requested():
        raise StopIteration


class Posterior:
    """Minus the log posterior density of the parameters up to a constant, and its gradient."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.mean, self.spread = evidence.layout.prior()

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Value and gradient."""
        off = (parameters - self.mean) / self.spread
        try:
            value, gradient = self.evidence(parameters)
        except np.linalg.LinAlgError:
            value = -np.inf
        if value == -np.inf:
            return WORST, np.zeros_like(parameters)
        return 0.5 * float(off @ off) - value, off / self.spread - gradient

    def whitened(self, off: Array) -> tuple[float, Array]:
        """Value and gradient in standard deviations of the prior from its mean."""
        value, gradient = self(self.mean + self.spread * off)
        return value, self.spread * gradient

    def laplace(self, mode: Array, apart: float | Array = APART) -> tuple[Array, float]:
        """Root of the covariance at the mode, nowhere wider than the prior, and its log volume.

        ``apart`` is the step of each parameter for its differences.
        """
        _, here = self(mode)
        steps = np.diag(np.broadcast_to(apart, len(mode)))
        rows = [(self(mode + step)[1] - here) / step.sum() for step in steps]
        hessian = np.nan_to_num(np.array(rows))
        whitened = self.spread[:, None] * (hessian + hessian.T) / 2 * self.spread
        values, vectors = np.linalg.eigh(whitened)
        values = np.maximum(values, 1.0)  # the curvature of the prior
        root = self.spread[:, None] * vectors / np.sqrt(values)
        return root, -0.5 * float(np.log(values).sum())
