r"""The distribution of parameters, and the width of forecasts, that the series of a panel share.

Each series of a sample is fitted without its last quarter.

- The logarithm of the density of the last quarter, with all standard deviations multiplied by c, adds up
  over the series. The best c multiplies those of the forecasts of all series: a short one has too few
  earlier origins to see how wide its forecasts need to be.
- Logarithms of the parameters of series i are normal around a mean that all share, θ_i ~ N(μ, s²). The
  posterior of θ_i under the wide prior of a single series is about normal; divided by that prior it is
  a normal likelihood of mean m_i and variance v_i, from which μ and s² follow by expectation
  maximisation in closed form. It is the prior of new series, which need no fit then.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from deeplfm.estimators.columns import Roles
from deeplfm.estimators.stamps import read_stamps
from deeplfm.statespace import PRIOR, Prior, StateSpaceLFM
from deeplfm.statespace.parameters import Layout
from deeplfm.training.interruption import stop_requested
from deeplfm.training.progress import no_bars

if TYPE_CHECKING:
    from deeplfm.estimators.forecaster import DeepLFMForecaster
    from deeplfm.estimators.panel_parts import FitPart

_HELD_OUT = 4  # the last of so many parts of a series
_FACTORS = np.exp(np.linspace(math.log(0.5), math.log(4.0), 61))
_FACTOR_SPREAD = 0.35  # prior standard deviation of the logarithm of the factor
_PRIOR_SERIES = 4.0  # series that the prior of a single one counts as
_LEAST_SPREAD = 0.2  # of a logarithm
_LEAST_INFORMED = 0.02  # part of the prior precision that the rows must add
_N_STEPS = 200

Array = NDArray[np.float64]


class Likelihood(NamedTuple):
    """A normal likelihood of the logarithm of one parameter, by the rows of one series."""

    model: str
    parameter: str
    mean: float
    variance: float


class Evidence(NamedTuple):
    """Likelihoods by the rows of one series.

    Attributes:
        models: names of the sums.
        parameters: likelihoods of their parameters.
        density: mean log density of the last rows for each factor of the standard deviation.
    """

    models: list[str]
    parameters: list[Likelihood]
    density: Array


def evidence_of_part(work: FitPart) -> list[Evidence]:
    """Fit each series without its last rows, and score these."""
    found: list[Evidence] = []
    for _, frame in work.frames:
        if stop_requested():
            break
        with no_bars(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(_evidence(work, frame))
            except Exception:  # it is reported when all series are fitted
                continue
    return found


def _evidence(work: FitPart, frame: pd.DataFrame) -> Evidence:
    columns = work.columns
    roles = Roles.choose(frame, columns.time, columns.targets, columns.covariates or None)
    order = read_stamps(*roles.times(frame), zone=work.options.get("zone")).argsort()
    n_before = len(order) - max(2, round(len(order) / _HELD_OUT))
    forecaster = work.one(frame.iloc[order[:n_before]])
    regressor = forecaster.regressor_
    names = regressor.fit_result_.members
    pairs = list(zip(names, regressor.model_.members, strict=True))
    exact = [(name, model) for name, model in pairs if isinstance(model, StateSpaceLFM)]
    parameters = [item for name, model in exact for item in _likelihoods(name, model)]
    density = _densities(forecaster, frame.iloc[order[n_before:]])
    return Evidence([name for name, _ in exact], parameters, density)


def _densities(forecaster: DeepLFMForecaster, later: pd.DataFrame) -> Array:
    """Mean log density of later rows for each factor, up to a constant."""
    record, regressor = forecaster._record, forecaster.regressor_
    rows = record.read(later)
    x = torch.as_tensor(regressor.scaling_.inputs(record.inputs(rows)))
    y = regressor.scaling_.outputs(rows[record.targets].to_numpy())
    posterior = regressor.model_.posterior(x)
    weight = posterior.weight.expand_as(posterior.component_mean).numpy()
    mean = posterior.component_mean.numpy()
    std = (posterior.component_variance + posterior.component_noise).sqrt().numpy()
    density = [
        np.nanmean(logsumexp(norm.logpdf(y, mean, factor * std), axis=0, b=weight))
        for factor in _FACTORS
    ]
    return np.array(density)


def _likelihoods(name: str, model: StateSpaceLFM) -> list[Likelihood]:
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
                found.append(Likelihood(name, parameter.split(" ")[0], float(mean), 1 / precision))
    return found


def pooled_prior(evidence: Sequence[Evidence]) -> dict[str, Prior]:
    """The prior of each sum, by its name."""
    widening = pooled_factor([item.density for item in evidence])
    known = [parameter for item in evidence for parameter in item.parameters]
    priors = {}
    for model in dict.fromkeys(name for item in evidence for name in item.models):
        values = {}
        for name in [field.name for field in fields(Prior) if field.name != "widening"]:
            own = [e for e in known if e.model == model and e.parameter == name]
            means = np.array([item.mean for item in own])
            variances = np.array([item.variance for item in own])
            values[name] = _pooled(getattr(PRIOR, name), means, variances)
        priors[model] = Prior(**values, widening=widening)
    return priors


def pooled_factor(densities: Sequence[Array]) -> float:
    """The factor of standard deviations that makes the last rows of all series most probable."""
    known = [item for item in densities if np.isfinite(item).all()]
    total = -0.5 * (np.log(_FACTORS) / _FACTOR_SPREAD) ** 2
    return float(_FACTORS[np.argmax(total + np.sum(known, axis=0))])


def _pooled(prior: tuple[float, float], means: Array, variances: Array) -> tuple[float, float]:
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
