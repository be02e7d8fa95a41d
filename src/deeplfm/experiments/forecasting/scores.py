"""Scores of forecasts, in the conventions of the forecasting competitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deeplfm.experiments.forecasting.series import BenchmarkSeries

Array = NDArray[np.float64]

LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
SCORES = ("mase", "smape", "msis", "crps", "coverage80", "coverage95")


def score_forecast(series: BenchmarkSeries, quantiles: Array) -> dict[str, float]:
    """Scores of one forecast.

    MASE and MSIS are in units of the mean absolute seasonal difference of the known values; the CRPS, in
    the same units, is estimated from five quantiles.

    Args:
        series: known and later values.
        quantiles: of each later value, at ``LEVELS``: shape ``5 H``.
    """
    observed = ~np.isnan(series.later)
    later, ends = series.later[observed], quantiles[:, observed]
    season = series.season if len(series.known) > series.season else 1
    unit = float(np.nanmean(np.abs(series.known[season:] - series.known[:-season])))
    low, tenth, median, ninth, high = ends
    beyond = np.maximum(low - later, 0) + np.maximum(later - high, 0)
    size = np.abs(later) + np.abs(median)
    error = later - ends
    level = np.array(LEVELS)[:, None]
    pinball = np.maximum(level * error, (level - 1) * error)
    return {
        "mase": float(np.mean(np.abs(later - median))) / unit,
        "smape": float(np.mean(2 * np.abs(later - median) / np.where(size > 0, size, 1.0))),
        "msis": float(np.mean(high - low + 2 / 0.05 * beyond)) / unit,
        "crps": 2 * float(pinball.mean()) / unit,
        "coverage80": float(np.mean((later >= tenth) & (later <= ninth))),
        "coverage95": float(np.mean((later >= low) & (later <= high))),
    }
