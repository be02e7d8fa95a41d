"""Forecasts from earlier origins: the width that forecasts need, and how well a model forecasts.

The evidence adds up predictions of the next row. How well a model predicts later rows is seen in
forecasts of known rows from earlier origins. Parameters stay those of all rows, so that an origin costs
no fit; the weights and processes are solved on the rows before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma
from scipy.stats import norm

from deeplfm.statespace.chain import Array
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.solved import Known, Solved
from deeplfm.training.interruption import stop_requested

_N_ORIGINS = 6
_PART = 5  # of the rows, which are forecast from each origin; every half of them is an origin
_FEWEST = 12  # rows before an origin
_MOST_ROWS = 2_000  # before an origin, on which its forecast is conditioned
_N_DRAWS = 2  # of the parameters, others for each origin
_SPREAD = 0.7  # prior standard deviation of the logarithm of the factor of a variance
_PHASE, _RIDGE = (
    2.0,
    0.01,
)  # radians that a phase may move over the rows; of the mean square of a column
_LEAST, _MOST = 1e-3, 1e3  # mean squares


Locate = Callable[[StateSpaceConfig, Known], StateSpaceConfig]


class Calibration(NamedTuple):
    """Calibration of one output by its forecasts from earlier origins.

    Attributes:
        scale: factor of the standard deviation of a forecast; near that of the prior where origins are
            few.
        log_density: mean over the origins of the mean log density of the rows after each. NaN where
            there are no origins.
        n_origins: how many; the rows after one origin repeat each other and count as one.
    """

    scale: float = 1.0
    log_density: float = math.nan
    n_origins: int = 0


def origins(n_rows: int) -> Iterator[tuple[int, int]]:
    """Number of rows before each origin, and end of the rows that are forecast from it."""
    horizon = max(n_rows // _PART, 2)
    for number in range(1, _N_ORIGINS + 1):
        n_before = n_rows - number * (horizon // 2)
        if n_before < max(_FEWEST, n_rows // 2):
            return
        yield n_before, n_before + horizon


def calibrate(
    config: StateSpaceConfig, known: Known, draws: Array, locate: Locate | None = None
) -> Calibration:
    """Calibrate the forecasts of one output for some draws of its parameters.

    ``locate`` finds the frequencies of the rows before an origin, where they were found in all rows:
    otherwise an origin would know how a phase goes on.
    """
    found: list[tuple[Array, Array]] = []  # errors and their variances
    for number, (first, last) in enumerate(origins(len(known.y)), start=1):
        if stop_requested():
            return Calibration(config.prior.widening)
        before = Known(*(part[max(0, first - _MOST_ROWS) : first] for part in known))
        after = Known(*(part[first:last] for part in known))
        at = config if locate is None else locate(config, before)
        some = draws[np.arange(_N_DRAWS * number, _N_DRAWS * (number + 1)) % len(draws)]
        found.append(_forecast_errors(at, before, after, some))
    widening = config.prior.widening
    if not found:
        return Calibration(widening)
    scale = scale_of(np.array([np.mean(error**2 / variance) for error, variance in found]))
    density = [norm.logpdf(error, scale=scale * np.sqrt(var)).mean() for error, var in found]
    return Calibration(widening * scale, float(np.mean(density)), len(found))


def _forecast_errors(
    config: StateSpaceConfig, before: Known, after: Known, draws: Array
) -> tuple[Array, Array]:
    """Errors of a forecast of some rows, and the variances that it gives them."""
    solved = [Solved.of([config], [before], [draw], after.x) for draw in draws]
    mean, variance = np.array([item.moments(0) for item in solved]).transpose(1, 0, 2)
    noise = np.exp(2 * draws[:, :1]) / after.weight + after.error
    return after.y - mean.mean(0), (variance + noise).mean(0) + mean.var(0)


def scale_of(squares: Array) -> float:
    """The factor by the mean squares of the errors of some origins, each of which is one observation.

    Errors are in standard deviations of the forecast.
    """
    half = len(squares) / 2
    mean = float(np.clip(squares.mean(), _LEAST, _MOST)) if np.isfinite(squares).all() else 1.0
    size = math.log(mean) - (digamma(half) - math.log(half))
    return math.exp(0.5 * size * _SPREAD**2 / (_SPREAD**2 + 1 / half))


def log_std_of_scale(n_origins: NDArray[np.int64]) -> Array:
    """Posterior standard deviation of the logarithm of that factor; 0 where there are no origins."""
    std = 0.5 / np.sqrt(1 / _SPREAD**2 + n_origins / 2)
    return np.where(n_origins > 0, std, 0.0)
