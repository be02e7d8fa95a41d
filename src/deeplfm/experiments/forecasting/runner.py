"""Runs of the benchmark: quantiles of the later values of each series, one record for each model."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from deeplfm.errors import ConfigError, DeepLFMError
from deeplfm.experiments.forecasting.series import LEVELS, Array, BenchmarkSeries, score_forecast

Forecast = Callable[[BenchmarkSeries], Array]
Listener = Callable[[BenchmarkSeries, str, dict[str, Any]], None]

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


def run_benchmark(
    series: Sequence[BenchmarkSeries],
    models: Sequence[str],
    file: Path,
    on_record: Listener | None = None,
) -> pd.DataFrame:
    """Scores and CPU seconds of every model on every series, with one thread.

    Records are appended to a file of JSON lines as they are made, and those that are there already are
    not made again: an interrupted run goes on where it stopped.
    """
    known = read_records(file)
    done = set(zip(known["series"], known["model"], strict=True)) if len(known) else set()
    with threadpool_limits(1):
        for item in series:
            for model in models:
                if (item.name, model) not in done:
                    record = _record(item, model)
                    with file.open("a") as stream:
                        stream.write(json.dumps(record) + "\n")
                    if on_record:
                        on_record(item, model, record)
    return read_records(file)


def read_records(file: Path) -> pd.DataFrame:
    """All records of a file, one row each; a last line that was cut is left out."""
    rows = []
    if file.exists():
        for line in file.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return pd.DataFrame(rows)


def _record(series: BenchmarkSeries, model: str) -> dict[str, Any]:
    record: dict[str, Any] = {
        "series": series.name,
        "frequency": series.frequency,
        "model": model,
        "failed": None,
    }
    forecast = forecast_of(model)
    began = time.process_time()
    try:
        quantiles = forecast(series)
    except DeepLFMError as error:
        return record | {"failed": str(error)}
    seconds = time.process_time() - began
    return record | score_forecast(series, quantiles) | {"cpu": seconds}
