"""Models of the benchmark: quantiles of the later values of a series, from the known ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from deeplfm.errors import ConfigError
from deeplfm.experiments.forecasting.series import LEVELS, Array, BenchmarkSeries

Forecast = Callable[[BenchmarkSeries], Array]

OURS = ("deeplfm fast", "deeplfm default", "deeplfm ensemble")
PEERS = ("AutoARIMA", "AutoETS", "AutoTheta", "SeasonalNaive", "Prophet")


def forecast_of(name: str) -> Forecast:
    """The model of a name."""
    if name in OURS:
        return lambda series: _deeplfm(series, name.removeprefix("deeplfm "))
    if name == "Prophet":
        return _prophet
    if name in PEERS:
        return lambda series: _statsforecast(series, name)
    raise ConfigError(f"models: {name!r} is not known. Choose from {', '.join((*OURS, *PEERS))}.")


def _deeplfm(series: BenchmarkSeries, effort: str) -> Array:
    """Ours is given timestamps of the frequency: it knows the calendar, as peers know the season."""
    from deeplfm.estimators import DeepLFMForecaster

    name, effort = ("ensemble", "default") if effort == "ensemble" else ("auto", effort)
    model = DeepLFMForecaster(model=name, effort=effort, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(series.frame)
        index = model.forecast(len(series.later)).index
        quantiles = model.posterior(index).quantile(list(LEVELS))
    return np.asarray(quantiles[..., 0].numpy())


def _statsforecast(series: BenchmarkSeries, name: str) -> Array:
    try:
        from statsforecast import models
    except ImportError:
        raise _missing("statsforecast") from None
    model = getattr(models, name)(season_length=series.season)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.forecast(y=series.filled, h=len(series.later), level=[80, 95])
    keys = ("lo-95", "lo-80", "mean", "hi-80", "hi-95")
    return np.stack([np.asarray(found[key], dtype=np.float64) for key in keys])


def _prophet(series: BenchmarkSeries) -> Array:
    try:
        from prophet import Prophet
    except ImportError:
        raise _missing("prophet") from None
    frame = series.frame.reset_index()
    index = pd.date_range(
        frame["ds"].iloc[-1], periods=len(series.later) + 1, freq=series.frame.index.freq
    )[1:]
    ends = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for width in (0.8, 0.95):
            model = Prophet(interval_width=width).fit(frame, seed=0)
            found = model.predict(pd.DataFrame({"ds": index}))
            ends[width] = found[["yhat_lower", "yhat", "yhat_upper"]].to_numpy().T
    (tenth, median, ninth), (low, _, high) = ends[0.8], ends[0.95]
    return np.stack([low, tenth, median, ninth, high])


def _missing(package: str) -> ConfigError:
    return ConfigError(
        f"models: {package} is not installed. Install it with pip install 'deeplfm[benchmark]'."
    )
