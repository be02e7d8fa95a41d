"""Runs of the benchmark: one record for each series and model, kept as they are made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from deeplfm.errors import DeepLFMError
from deeplfm.experiments.forecasting.models import forecast_of
from deeplfm.experiments.forecasting.series import BenchmarkSeries, score_forecast

Listener = Callable[[BenchmarkSeries, str, dict[str, Any]], None]


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
