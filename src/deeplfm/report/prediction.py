"""Predictions at the times that the charts show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy import ndarray
from scipy.stats import norm

from deeplfm.estimators.columns import Name
from deeplfm.predictive.mixture import Predictive
from deeplfm.report.clock import Clock

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

LEVELS = (50, 80, 95)  # per cent
RECORD_ROWS = 2000  # last training rows for which the prediction is drawn
_CHUNK = 1000  # rows whose mixtures are held in memory at once
_LATER_ROWS, _ROWS_IN_A_PAUSE = 5000, 100
_ROUNDING = 1e-6  # relative to a step: closer times are equal


@dataclass(frozen=True)
class Prediction:
    """Mean and central intervals of every target at some times, in the user's units."""

    times: pd.Index
    mean: Float64[ndarray, "N D"]
    low: dict[int, Float64[ndarray, "N D"]]
    high: dict[int, Float64[ndarray, "N D"]]


def posteriors(
    forecaster: DeepLFMForecaster, times: pd.Index, covariates: pd.DataFrame | None
) -> Iterator[tuple[slice, Predictive]]:
    """Predictive distributions of some rows at a time."""
    known = covariates if forecaster.covariates_ else None
    for first in range(0, len(times), _CHUNK):
        rows = slice(first, first + _CHUNK)
        yield rows, forecaster.posterior(times[rows], covariates=known)


def predict(
    forecaster: DeepLFMForecaster, times: pd.Index, covariates: pd.DataFrame | None = None
) -> Prediction:
    """Mean and intervals at some times."""
    tails = [(1 - level / 100) / 2 for level in LEVELS]
    wanted = [*tails, *(1 - tail for tail in tails)]
    parts = [
        (posterior.mean.numpy(), posterior.quantile(wanted).numpy())
        for _, posterior in posteriors(forecaster, times, covariates)
    ]
    ends = np.concatenate([quantiles for _, quantiles in parts], axis=1)
    return Prediction(
        times,
        np.concatenate([mean for mean, _ in parts]),
        dict(zip(LEVELS, ends[: len(LEVELS)], strict=True)),
        dict(zip(LEVELS, ends[len(LEVELS) :], strict=True)),
    )


def drawn_times(training: pd.Index, later: list[pd.Index], clock: Clock, step: float) -> pd.Index:
    """Times at which charts show the prediction: the end of the record, later times, and pauses.

    Successive rows are kept, as long as they are not too many: every n-th row of a fast oscillation
    would look like a slow one.
    """
    shown = [training[-RECORD_ROWS:], *(thinned(times) for times in later)]
    numbers = np.concatenate([clock.numbers(times) for times in shown])
    numbers = numbers[_distinct(numbers, step)]
    inside = [
        np.linspace(begin, end, 2 + min(_ROWS_IN_A_PAUSE, int((end - begin) / step)))
        for begin, end in pairwise(numbers)
        if end - begin > 1.5 * step > 0
    ]
    return clock.times(np.unique(np.concatenate([numbers, *inside])))


def thinned(times: pd.Index) -> pd.Index:
    """At most 5000 evenly chosen times."""
    return times[:: max(1, -(-len(times) // _LATER_ROWS))]


def gaussian(forecast: pd.DataFrame, targets: list[Name]) -> Prediction:
    """A forecast as Gaussians, for a model whose future covariates are not available."""
    mean = forecast[targets].to_numpy(np.float64)
    std = forecast[[f"{name}_std" for name in targets]].to_numpy(np.float64)
    half = {level: norm.ppf(0.5 + level / 200) * std for level in LEVELS}
    return Prediction(
        forecast.index,
        mean,
        {level: mean - half[level] for level in LEVELS},
        {level: mean + half[level] for level in LEVELS},
    )


def joined(parts: list[Prediction], clock: Clock, step: float) -> Prediction:
    """Several predictions as one, in order of time; of equal times the first counts."""
    numbers = np.concatenate([clock.numbers(part.times) for part in parts])
    order = _distinct(numbers, step)
    return Prediction(
        clock.times(numbers[order]),
        np.concatenate([part.mean for part in parts])[order],
        {level: np.concatenate([part.low[level] for part in parts])[order] for level in LEVELS},
        {level: np.concatenate([part.high[level] for part in parts])[order] for level in LEVELS},
    )


def _distinct(numbers: Float64[ndarray, " n"], step: float) -> Int64[ndarray, " m"]:
    """Indices that sort the numbers, without those equal to another but for rounding."""
    order = np.argsort(numbers, kind="stable")
    is_new = np.diff(numbers[order], prepend=-np.inf) > _ROUNDING * step
    return order[is_new]
