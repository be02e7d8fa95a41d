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
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from deeplfm.errors import InputError
from deeplfm.estimators.columns import Roles
from deeplfm.estimators.stamps import read_stamps
from deeplfm.estimators.static_features import StaticFeatures
from deeplfm.io.typed import checked
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
_LEAST_EFFECT = 1e-6  # variance
_N_STEPS = 200

Array = NDArray[np.float64]


class Likelihood(NamedTuple):
    """A normal likelihood of the logarithm of one parameter, by the rows of one series."""

    model: str
    parameter: str
    mean: float
    variance: float


@dataclass(frozen=True)
class Effects:
    """Distribution of the logarithm of a parameter over the series, given their features.

    Attributes:
        weights: of the constant and of the columns of the design.
        covariance: of the weights.
        variance: between series of equal features.
        of_feature: variance of the weights of each feature.
    """

    weights: list[float]
    covariance: list[list[float]]
    variance: float
    of_feature: list[float]


@dataclass(frozen=True)
class SharedPrior:
    """Prior and width of forecasts that the series of a panel share.

    Attributes:
        widening: factor of the standard deviations of forecasts.
        features: of the series.
        effects: of the features on each parameter of each sum.
    """

    widening: float
    features: StaticFeatures
    effects: dict[str, dict[str, Effects]]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SharedPrior:
        """The prior that ``asdict`` wrote."""
        named = data["features"]
        numbers = {name: tuple(found) for name, found in named["numbers"].items()}
        features = StaticFeatures(numbers, named["labels"])
        effects = {
            model: {name: Effects(**found) for name, found in own.items()}
            for model, own in data["effects"].items()
        }
        shared = checked(cls(data["widening"], features, effects))
        n_columns = 1 + len(features.owners)
        for found in [found for own in effects.values() for found in own.values()]:
            sizes = {len(found.weights), len(found.covariance), *map(len, found.covariance)}
            if sizes != {n_columns} or len(found.of_feature) != features.size:
                raise ValueError("effects of the features have another number of columns")
        return shared

    def of_series(
        self, names: Sequence[Any], static: pd.DataFrame | None
    ) -> dict[Any, dict[str, Prior]]:
        """The prior of each sum for each of the named series, whose features are given."""
        if (static is None) != (self.features.size == 0):
            known = ", ".join(map(repr, (*self.features.numbers, *self.features.labels)))
            raise InputError(
                f"static: the panel was fitted with features {known}. Give those of the new series."
                if known
                else "static: the panel was fitted without features. Leave it out."
            )
        found = self.of(static)
        return dict(zip(names, found * (len(names) // len(found)), strict=True))

    def of(self, static: pd.DataFrame | None = None) -> list[dict[str, Prior]]:
        """The prior of each sum for each series; without features, that of an average series."""
        design, is_unknown = (
            np.zeros((1, len(self.features.owners))),
            np.zeros((1, self.features.size)),
        )
        if static is not None:
            design, is_unknown = self.features.design(static)
        columns = np.column_stack([np.ones(len(design)), design])
        found = []
        for row, unknown in zip(columns, is_unknown, strict=True):
            priors = {}
            for model, effects in self.effects.items():
                values = {}
                for name, own in effects.items():
                    variance = own.variance + unknown @ np.array(own.of_feature)
                    variance += row @ np.array(own.covariance) @ row if static is not None else 0.0
                    median = float(np.exp(row @ np.array(own.weights)))
                    values[name] = (median, float(max(np.sqrt(variance), _LEAST_SPREAD)))
                priors[model] = Prior(**values, widening=self.widening)
            found.append(priors)
        return found


class Evidence(NamedTuple):
    """Likelihoods by the rows of one series.

    Attributes:
        models: names of the sums.
        parameters: likelihoods of their parameters.
        density: mean log density of the last rows for each factor of the standard deviation.
        series: its name.
    """

    models: list[str]
    parameters: list[Likelihood]
    density: Array
    series: Any = None


def evidence_of_part(work: FitPart) -> list[Evidence]:
    """Fit each series without its last rows, and score these."""
    found: list[Evidence] = []
    for name, frame in work.frames:
        if stop_requested():
            break
        with no_bars(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(_evidence(work, name, frame))
            except Exception:  # it is reported when all series are fitted
                continue
    return found


def _evidence(work: FitPart, name: Any, frame: pd.DataFrame) -> Evidence:
    columns = work.columns
    roles = Roles.choose(frame, columns.time, columns.targets, columns.covariates or None)
    order = read_stamps(*roles.times(frame), zone=work.options.get("zone")).argsort()
    n_before = len(order) - max(2, round(len(order) / _HELD_OUT))
    forecaster = work.one(name, frame.iloc[order[:n_before]])
    regressor = forecaster.regressor_
    names = regressor.fit_result_.members
    pairs = list(zip(names, regressor.model_.members, strict=True))
    exact = [(name, model) for name, model in pairs if isinstance(model, StateSpaceLFM)]
    parameters = [item for own, model in exact for item in _likelihoods(own, model)]
    density = _densities(forecaster, frame.iloc[order[n_before:]])
    return Evidence([model for model, _ in exact], parameters, density, name)


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


def pooled_prior(evidence: Sequence[Evidence], static: pd.DataFrame | None = None) -> SharedPrior:
    """The prior of each sum, by its name, and how it depends on features of the series."""
    widening = pooled_factor([item.density for item in evidence])
    static = pd.DataFrame(index=[item.series for item in evidence]) if static is None else static
    features = StaticFeatures.of(static)
    design = dict(zip(static.index, features.design(static)[0], strict=True))
    effects: dict[str, dict[str, Effects]] = {}
    for model in dict.fromkeys(name for item in evidence for name in item.models):
        for name in [field.name for field in fields(Prior) if field.name != "widening"]:
            own = [
                (design[item.series], found.mean, found.variance)
                for item in evidence
                for found in item.parameters
                if found.model == model and found.parameter == name
            ]
            if own:
                rows, means, variances = map(np.array, zip(*own, strict=True))
                found_effects = effects_of(getattr(PRIOR, name), means, variances, rows, features)
                effects.setdefault(model, {})[name] = found_effects
        effects.setdefault(model, {})
    return SharedPrior(widening, features, effects)


def pooled_factor(densities: Sequence[Array]) -> float:
    """The factor of standard deviations that makes the last rows of all series most probable."""
    known = [item for item in densities if np.isfinite(item).all()]
    total = -0.5 * (np.log(_FACTORS) / _FACTOR_SPREAD) ** 2
    return float(_FACTORS[np.argmax(total + np.sum(known, axis=0))])


def effects_of(
    prior: tuple[float, float],
    means: Array,
    variances: Array,
    design: Array,
    features: StaticFeatures,
) -> Effects:
    """The distribution that makes the likelihoods of all series most probable, shrunk to a prior."""
    center, wide, owners = float(np.log(prior[0])), prior[1] ** 2, features.owners
    columns = np.column_stack([np.ones(len(design)), design])
    variance, of_feature = wide, np.full(features.size, wide)
    for _ in range(_N_STEPS):
        expected = np.append(_PRIOR_SERIES / variance, 1 / of_feature[owners])
        precision = 1 / (variance + variances)
        covariance = np.linalg.inv((columns.T * precision) @ columns + np.diag(expected))
        moment = columns.T @ (precision * means)
        moment[0] += expected[0] * center
        weights = covariance @ moment
        gain = variance * precision
        of_mean = np.einsum("np,pq,nq->n", columns, covariance, columns)
        rest = gain**2 * ((means - columns @ weights) ** 2 + of_mean) + (1 - gain) * variance
        variance = float((rest.sum() + _PRIOR_SERIES * wide) / (len(means) + _PRIOR_SERIES))
        second = (weights**2 + np.diag(covariance))[1:]
        counts = np.bincount(owners, minlength=features.size)
        of_feature = np.bincount(owners, second, features.size) / np.maximum(counts, 1)
        of_feature = np.maximum(of_feature, _LEAST_EFFECT)
    return Effects(weights.tolist(), covariance.tolist(), variance, of_feature.tolist())
