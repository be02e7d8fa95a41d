"""Forecasts from earlier origins: the width that forecasts need, and how well a model forecasts.

The evidence adds up predictions of the next row. How well a model predicts later rows is seen in
forecasts of known rows from earlier origins. Parameters stay those of all rows, so that an origin costs
no fit; the weights and processes are solved on the rows before it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
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
_LEAST, _MOST = 1e-3, 1e3  # mean squares


class Calibration(NamedTuple):
    """Calibration of one output by its forecasts from earlier origins.

    Attributes:
        scale: factor of the standard deviation of a forecast; near that of the prior where origins are
            few.
        log_density: sum over the origins of the mean log density of the rows after each: the rows after
            one origin repeat each other and count as one. NaN where there are no origins.
    """

    scale: float
    log_density: float


def calibrate(config: StateSpaceConfig, known: Known, draws: Array) -> Calibration:
    """Calibrate the forecasts of one output for some draws of its parameters."""
    n_rows = len(known.y)
    horizon = max(n_rows // _PART, 2)
    found: list[tuple[Array, Array]] = []  # errors and their variances
    for number in range(1, _N_ORIGINS + 1):
        n_before = n_rows - number * (horizon // 2)
        if n_before < max(_FEWEST, n_rows // 2):
            break
        if stop_requested():
            return Calibration(config.prior.widening, math.nan)
        before = Known(*(part[max(0, n_before - _MOST_ROWS) : n_before] for part in known))
        after = Known(*(part[n_before : n_before + horizon] for part in known))
        some = draws[np.arange(_N_DRAWS * number, _N_DRAWS * (number + 1)) % len(draws)]
        found.append(_forecast_errors(config, before, after, some))
    widening = config.prior.widening
    if not found:
        return Calibration(widening, math.nan)
    scale = _scale(np.array([np.mean(error**2 / variance) for error, variance in found]))
    density = [norm.logpdf(error, scale=scale * np.sqrt(var)).mean() for error, var in found]
    return Calibration(widening * scale, float(np.sum(density)))


def _forecast_errors(
    config: StateSpaceConfig, before: Known, after: Known, draws: Array
) -> tuple[Array, Array]:
    """Errors of a forecast of some rows, and the variances that it gives them."""
    solved = [Solved.of([config], [before], [draw], after.x) for draw in draws]
    mean, variance = np.array([item.moments(0) for item in solved]).transpose(1, 0, 2)
    noise = np.exp(2 * draws[:, :1]) / after.weight + after.error
    return after.y - mean.mean(0), (variance + noise).mean(0) + mean.var(0)


def _scale(squares: Array) -> float:
    """The factor by the mean squares of the errors of some origins, each of which is one observation."""
    half = len(squares) / 2
    mean = float(np.clip(squares.mean(), _LEAST, _MOST)) if np.isfinite(squares).all() else 1.0
    size = math.log(mean) - (digamma(half) - math.log(half))
    return math.exp(0.5 * size * _SPREAD**2 / (_SPREAD**2 + 1 / half))
