import base64
import json

import numpy as np
import pandas as pd
import pytest

from deeplfm.report import charts
from deeplfm.report.charts import (
    Window,
    coverage_chart,
    curve_chart,
    forecast_chart,
    pit_chart,
    spectrum_chart,
    thin,
)
from deeplfm.report.clock import Clock
from deeplfm.report.prediction import LEVELS, Prediction, drawn_times, joined
from deeplfm.report.record_statistics import read_record

TIMES = pd.Index(np.arange(50.0), name="t")


def prediction(times: pd.Index) -> Prediction:
    mean = np.sin(times.to_numpy())[:, None]
    return Prediction(
        times,
        mean,
        {level: mean - level / 50 for level in LEVELS},
        {level: mean + level / 50 for level in LEVELS},
    )


def chart(values: np.ndarray, held_out: np.ndarray | None = None):
    frame = pd.DataFrame({"y": values}, index=TIMES)
    clock = Clock.of(TIMES)
    record = read_record(frame, ["y"], clock)
    times = pd.Index(np.arange(60.0))
    window = Window(clock, (30.0, 59.0), (0.0, 59.0))
    later = None if held_out is None else (times[50:], held_out)
    return forecast_chart(window, record, 0, prediction(times), (TIMES, values), later)


def test_thinning_keeps_the_extremes_and_leaves_few_as_they_are() -> None:
    values = np.random.default_rng(0).normal(size=50_000)
    values[12_345], values[40_000], values[7] = 100, -100, np.nan
    times = pd.Index(np.arange(50_000.0))
    kept, shown = thin((times, values), most=1000)
    assert len(shown) <= 1000
    assert {100.0, -100.0} <= set(shown)
    assert kept.is_monotonic_increasing
    assert np.array_equal(values[kept.to_numpy().astype(int)], shown)
    few, same = thin((times[:10], values[:10]), most=1000)
    assert len(few) == len(same) == 9


def test_a_forecast_has_bands_mean_observations_gaps_and_the_end_of_training() -> None:
    values = np.sin(np.arange(50.0))
    values[10:20] = np.nan
    figure = chart(values, held_out=np.zeros(10))
    by_name = {layer["name"]: layer for layer in figure["layers"]}
    assert list(by_name) == ["95 %", "80 %", "50 %", "observed", "held out", "prediction"]
    assert len(by_name["observed"]["x"]) == 40
    assert by_name["95 %"]["colour"] == "--band-95"
    gap, future, end = figure["shapes"]
    assert gap == {"x": [9, 20], "fill": "--gap"}
    assert (future["x"], end["x"]) == ([49, 59], [49, 49])
    assert figure["x"]["range"] == [30, 59]


def decoded(item):
    """Numbers as the browser reads them."""
    if isinstance(item, list):
        return np.array([np.nan if value is None else value for value in item])
    if "step" in item:
        return item["start"] + item["step"] * np.arange(item["n"])
    if "exact" in item:
        return np.frombuffer(base64.b64decode(item["exact"]), "<f8")
    steps = np.frombuffer(base64.b64decode(item["coarse"]), "<u2").astype(float)
    steps[steps == 65535] = np.nan
    return item["min"] + steps * (item["max"] - item["min"]) / 65534


def test_many_numbers_are_short_and_exact_enough() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    values[7] = np.nan
    packed = charts._numbers(values)
    assert len(json.dumps(packed)) < 3 * len(values)
    assert np.allclose(decoded(packed), values, atol=1e-4, equal_nan=True)
    assert np.allclose(
        decoded(charts._numbers(values[:20])), values[:20], rtol=1e-5, equal_nan=True
    )
    assert np.isnan(decoded(charts._numbers(np.full(99, np.nan)))).all()
    assert np.allclose(decoded(charts._numbers(np.full(99, 3.0))), 3)
    even, uneven = np.arange(100.0) * 0.1, np.sort(rng.normal(size=100))
    assert set(charts._times(even)) == {"start", "step", "n"}
    assert np.allclose(decoded(charts._times(even)), even)
    assert np.array_equal(decoded(charts._times(uneven)), uneven)


def test_a_long_series_becomes_a_line_that_stops_at_gaps() -> None:
    times = pd.Index(np.r_[np.arange(1000.0), np.arange(2000.0, 3000.0)])
    frame = pd.DataFrame({"y": np.ones(2000)}, index=times)
    clock = Clock.of(times)
    window = Window(clock, (0.0, 3000.0), (0.0, 3000.0))
    record = read_record(frame, ["y"], clock)
    figure = forecast_chart(
        window, record, 0, prediction(times), (times, frame["y"].to_numpy()), None
    )
    observed = next(layer for layer in figure["layers"] if layer["name"] == "observed")
    assert observed["kind"] == "line"
    assert np.flatnonzero(np.isnan(decoded(observed["y"]))).tolist() == [1000]


def test_a_curve_has_a_band() -> None:
    window = Window(Clock.of(TIMES), (0.0, 49.0), (0.0, 49.0))
    flat = np.zeros(50)
    band, mean = curve_chart(window, TIMES, flat, flat - 2, flat + 2, 40.0)["layers"]
    assert (set(band["low"]), set(band["high"]), set(mean["y"])) == ({-2.0}, {2.0}, {0.0})


def test_calibration_charts_count_right() -> None:
    positions = np.r_[np.full(30, 0.5), np.full(10, 0.99)]
    (bars,) = pit_chart(positions)["layers"]
    assert np.mean(bars["y"]) == pytest.approx(1)
    assert bars["labels"][-1] == "0.90 to 1.00: 10 observations"
    (line,) = coverage_chart(positions)["layers"]
    at = dict(zip(np.round(decoded(line["x"]), 2), decoded(line["y"]), strict=True))
    assert at[0.5] == pytest.approx(0.75, abs=1e-4)
    assert at[1.0] == 1


def test_a_spectrum_omits_negligible_power() -> None:
    figure = spectrum_chart(
        np.array([0.0, 1.0, 2.0]), np.array([9.0, 90.99, 0.01]), "day", ["long", "1 day", "0.5 day"]
    )
    (stems,) = figure["layers"]
    assert stems["x"] == [0, 1]
    assert [label.split("period ")[1] for label in stems["labels"]] == ["long", "1 day"]


def test_pauses_are_filled_and_the_record_is_never_drawn_at_every_nth_row() -> None:
    clock = Clock.of(TIMES)
    later = pd.Index([48.000000001, 60.0, 61.0])
    drawn = drawn_times(TIMES, [later], clock, 1.0).to_numpy(np.float64)
    assert drawn[:50].tolist() == TIMES.tolist()
    assert np.diff(drawn).max() <= 1.5
    assert drawn[-1] == 61


def test_predictions_are_joined_in_order_of_time() -> None:
    clock = Clock.of(TIMES)
    parts = [prediction(pd.Index([3.0, 4.0])), prediction(pd.Index([1.0, 3.0 + 1e-9]))]
    both = joined(parts, clock, step=1.0)
    assert both.times.tolist() == [1, 3, 4]
    assert both.mean[:, 0] == pytest.approx(np.sin([1, 3, 4]))
