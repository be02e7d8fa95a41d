r"""A prior of state-space parameters that the series of a panel share.

Logarithms of the parameters of series i are normal around a mean that all series share,
θ_i ~ N(μ, s²). Under the wide prior of a single series, the posterior of θ_i is about normal; divided
by that prior it is a normal likelihood of mean m_i and variance v_i, from which μ and s² follow by
expectation maximisation in closed form. Prior knowledge counts as much as a few series.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deeplfm.statespace import PRIOR, Prior, StateSpaceLFM
from deeplfm.statespace.parameters import Layout
from deeplfm.training.interruption import stop_requested
from deeplfm.training.progress import no_bars

if TYPE_CHECKING:
    from deeplfm.estimators.panel_parts import FitPart

_PRIOR_SERIES = 4.0  # series that the prior of a single one counts as
_LEAST_SPREAD = 0.2  # of a logarithm
_LEAST_INFORMED = 0.02  # part of the prior precision that the rows must add
_N_STEPS = 200


class Evidence(NamedTuple):
    """A normal likelihood of the logarithm of one parameter, by the rows of one series."""

    model: str
    parameter: str
    mean: float
    variance: float


def evidence_of_part(work: FitPart) -> list[Evidence]:
    """Fit each series by itself, and return the likelihoods of its parameters."""
    found: list[Evidence] = []
    for _, frame in work.frames:
        if stop_requested():
            break
        with no_bars(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                regressor = work.one(frame).regressor_
            except Exception:  # it is reported when all series are fitted
                continue
        names = regressor.fit_result_.members
        for name, model in zip(names, regressor.model_.members, strict=True):
            if isinstance(model, StateSpaceLFM):
                found.extend(_evidence(name, model))
    return found


def _evidence(name: str, model: StateSpaceLFM) -> list[Evidence]:
    found = []
    for d, config in enumerate(model.config):
        layout = Layout(config)
        draws = model.draws[d, :, : len(layout.names)].numpy()
        if len(draws) < 2:
            continue
        center, spread = layout.prior
        posterior = draws.mean(0), draws.var(0, ddof=1)
        for i, parameter in enumerate(layout.names):
            precision = 1 / posterior[1][i] - 1 / spread[i] ** 2
            if precision * spread[i] ** 2 > _LEAST_INFORMED:
                mean = (posterior[0][i] / posterior[1][i] - center[i] / spread[i] ** 2) / precision
                found.append(Evidence(name, parameter.split(" ")[0], float(mean), 1 / precision))
    return found


def pooled_prior(evidence: Sequence[Evidence]) -> dict[str, Prior]:
    """The prior of each sum, by its name."""
    priors = {}
    for model in dict.fromkeys(item.model for item in evidence):
        values = {}
        for field in fields(Prior):
            own = [e for e in evidence if e.model == model and e.parameter == field.name]
            means = np.array([item.mean for item in own])
            variances = np.array([item.variance for item in own])
            values[field.name] = _pooled(getattr(PRIOR, field.name), means, variances)
        priors[model] = Prior(**values)
    return priors


def _pooled(
    prior: tuple[float, float], means: NDArray[np.float64], variances: NDArray[np.float64]
) -> tuple[float, float]:
    """Median and spread that make the likelihoods of all series most probable, shrunk to a prior."""
    center, wide = float(np.log(prior[0])), prior[1] ** 2
    mean, variance, n = center, wide, len(means) + _PRIOR_SERIES
    for _ in range(_N_STEPS if len(means) else 0):
        weight = variance / (variance + variances)
        at = mean + weight * (means - mean)
        rest = (1 - weight) * variance
        mean = (at.sum() + _PRIOR_SERIES * center) / n
        second = (rest + (at - mean) ** 2).sum()
        variance = (second + _PRIOR_SERIES * wide) / n
    return float(np.exp(mean)), float(max(np.sqrt(variance), _LEAST_SPREAD))
