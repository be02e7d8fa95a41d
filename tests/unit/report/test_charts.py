import numpy as np
import pandas as pd
import pytest

from deeplfm.report.charts import (
    Window,
    coverage_chart,
    curve_chart,
    forecast_chart,
    literal,
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
    by_name = {trace.name: trace for trace in figure.data if trace.name}
    assert set(by_name) == {"observed", "held out", "prediction"}
    assert len(by_name["observed"].x) == 40
    fills = [trace.fillcolor for trace in figure.data if trace.fill == "tonexty"]
    assert fills == ["var(--band-95)", "var(--band-80)", "var(--band-50)"]
    gap, future, end = figure.layout.shapes
    assert (gap.x0, gap.x1, gap.fillcolor) == (9, 20, "var(--gap)")
    assert (future.x0, future.x1) == (49, 59)
    assert (end.type, end.x0, end.x1) == ("line", 49, 49)
    assert tuple(figure.layout.xaxis.range) == (30, 59)


def test_an_enormous_mean_does_not_hide_the_observations() -> None:
    values = np.full(50, 3.0)
    values[0] = 4.0
    low, high = chart(values).layout.yaxis.range
    assert 0 <= low < 3 and 4 < high < 7


def test_a_long_series_becomes_a_line_that_stops_at_gaps() -> None:
    times = pd.Index(np.r_[np.arange(1000.0), np.arange(2000.0, 3000.0)])
    frame = pd.DataFrame({"y": np.ones(2000)}, index=times)
    clock = Clock.of(times)
    window = Window(clock, (0.0, 3000.0), (0.0, 3000.0))
    record = read_record(frame, ["y"], clock)
    figure = forecast_chart(
        window, record, 0, prediction(times), (times, frame["y"].to_numpy()), None
    )
    observed = next(trace for trace in figure.data if trace.name == "observed")
    assert observed.mode == "lines"
    assert np.flatnonzero(np.isnan(observed.y)).tolist() == [1000]


def test_a_curve_has_a_band() -> None:
    window = Window(Clock.of(TIMES), (0.0, 49.0), (0.0, 49.0))
    flat = np.zeros(50)
    low, high, mean = curve_chart(window, TIMES, flat, flat - 2, flat + 2, 40.0).data
    assert set(low.y) == {-2.0} and set(high.y) == {2.0} and set(mean.y) == {0.0}


def test_calibration_charts_count_right() -> None:
    positions = np.r_[np.full(30, 0.5), np.full(10, 0.99)]
    bars = pit_chart(positions).data[0]
    assert bars.y.sum() / len(bars.y) == pytest.approx(1)
    assert bars.customdata[-1].tolist() == pytest.approx([0.9, 1.0, 10])
    line = coverage_chart(positions).data[0]
    at = dict(zip(np.round(line.x, 2), line.y, strict=True))
    assert at[0.5] == pytest.approx(0.75)
    assert at[1.0] == 1


def test_a_spectrum_omits_negligible_power() -> None:
    figure = spectrum_chart(
        np.array([0.0, 1.0, 2.0]), np.array([9.0, 90.99, 0.01]), "day", ["long", "1 day", "0.5 day"]
    )
    assert figure.data[1].x.tolist() == [0, 1]
    assert figure.data[1].text == ("long", "1 day")


def test_text_of_the_user_is_neither_markup_nor_placeholder() -> None:
    text = literal("<b>%{x}$a$")
    assert "<" not in text and "%" not in text and "$" not in text


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
