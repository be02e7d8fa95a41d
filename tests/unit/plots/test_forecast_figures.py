import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from deeplfm.errors import InputError
from deeplfm.plots import Fan, fans_of, forecast_figure, plot_forecast

TIME = np.linspace(0, 10, 101)
SEEN = pd.Series(np.sin(TIME[:70]), index=TIME[:70])
LATER = pd.Series(np.sin(TIME[70:]), index=TIME[70:])


def frames(names, index=TIME):
    data = pd.DataFrame({name: np.sin(TIME) + d for d, name in enumerate(names)}, index=index)
    return data.iloc[:70].copy(), data.iloc[70:].copy()


@pytest.fixture
def fan(gaussian):
    return fans_of(gaussian(np.sin(TIME)), ["y"])["y"]


def test_what_was_seen_and_what_was_not(fan, drawn):
    ax = Figure().add_subplot()
    assert plot_forecast(ax, TIME, fan, training=SEEN, later={"test": LATER}) is ax
    found = drawn(ax)
    assert set(found) == {
        "prediction",
        "50 % interval",
        "80 % interval",
        "95 % interval",
        "training data",
        "test",
        "end of the training data",
    }
    for name, series in (("training data", SEEN), ("test", LATER)):
        np.testing.assert_array_equal(found[name].get_xdata(), series.index)
        np.testing.assert_array_equal(found[name].get_ydata(), series)
    assert set(found["end of the training data"].get_xdata()) == {TIME[69]}


def test_gaps_of_the_training_data_are_hatched_and_named_once(fan, drawn):
    ax = Figure().add_subplot()
    seen = SEEN.copy()
    seen.iloc[10:20] = seen.iloc[40:50] = np.nan
    plot_forecast(ax, TIME, fan, training=seen)
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    np.testing.assert_allclose(spans, [(TIME[9], TIME[20]), (TIME[39], TIME[50])])
    assert all(patch.get_hatch() for patch in ax.patches)
    assert [label for label in drawn(ax) if "gap" in label] == ["gap in the training data"]


def test_no_end_is_marked_where_nothing_comes_after(fan, drawn):
    ax = Figure().add_subplot()
    plot_forecast(ax, TIME[:70], fan.rows(TIME < TIME[70]), training=SEEN)
    assert "end of the training data" not in drawn(ax)


def test_kinds_of_points_differ_in_colour_and_in_shape(fan, drawn):
    ax = Figure().add_subplot()
    later = {"one": LATER, "two": LATER, "three": LATER}
    plot_forecast(ax, TIME, fan, training=SEEN, later=later)
    lines = [drawn(ax)[name] for name in ("training data", *later)]
    assert len({to_hex(line.get_color()) for line in lines}) == 4
    assert len({line.get_marker() for line in lines}) == 4


def test_an_enormous_interval_does_not_flatten_the_data(gaussian):
    ax = Figure().add_subplot()
    plot_forecast(ax, TIME, fans_of(gaussian(np.sin(TIME), std=1e6), ["y"])["y"], training=SEEN)
    low, high = ax.get_ylim()
    room = np.ptp(SEEN)
    assert (low, high) == pytest.approx((SEEN.min() - room, SEEN.max() + room))


def test_only_what_comes_since_a_time_is_shown(fan, drawn):
    ax = Figure().add_subplot()
    seen = SEEN.copy()
    seen.iloc[3] = 1e3  # long ago
    plot_forecast(ax, TIME, fan, training=seen, since=5.0)
    assert 4.5 < ax.get_xlim()[0] <= 5.0
    assert drawn(ax)["training data"].get_xdata().min() >= 5.0
    assert ax.get_ylim()[1] < 10


def test_times_must_be_those_of_the_prediction(fan):
    with pytest.raises(InputError, match="time: 100 rows, but the prediction has 101"):
        plot_forecast(Figure().add_subplot(), TIME[1:], fan)


@pytest.mark.parametrize("n_outputs", [1, 3, 12])
def test_every_output_has_its_panel(gaussian, drawn, n_outputs):
    names = [f"output {d}" for d in range(n_outputs)]
    mean = np.stack([np.sin(TIME) + d for d in range(n_outputs)], axis=1)
    figure = forecast_figure(TIME, fans_of(gaussian(mean), names), *frames(names))
    assert [ax.get_title(loc="left") for ax in figure.axes] == names
    assert len(figure.legends) == 1
    for d, ax in enumerate(figure.axes):
        np.testing.assert_allclose(drawn(ax)["prediction"].get_ydata(), mean[:, d])
        np.testing.assert_allclose(drawn(ax)["held-out data"].get_ydata(), mean[70:, d])
    labelled = [ax for ax in figure.axes if ax.get_xlabel() == "time"]
    assert len(labelled) == min(3, -(-n_outputs // 4))
    figure.draw_without_rendering()
    inside = figure.bbox
    for ax in figure.axes:
        box = ax.get_tightbbox()
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1
        assert inside.y0 <= box.y0 and box.y1 <= inside.y1


def test_panels_with_less_to_show_do_not_cut_the_others(gaussian):
    training, _ = frames(["a", "b"])
    fans = fans_of(gaussian(np.zeros((31, 2))), ["a", "b"])
    figure = forecast_figure(TIME[70:], fans, training[["a"]])
    for ax in figure.axes:
        assert ax.get_xlim()[0] < 0 and ax.get_xlim()[1] > 10


def test_timestamps_are_on_the_axes(gaussian, drawn):
    stamps = pd.date_range("2024-03-30", periods=101, freq="30min", tz="Europe/Paris")
    training, later = frames(["abp"], stamps)
    fans = fans_of(gaussian(np.sin(TIME)), ["abp"])
    figure = forecast_figure(stamps, fans, training, later, time_label="measured")
    (ax,) = figure.axes
    assert ax.get_xlabel() == "measured (Europe/Paris)"
    mean, seen = drawn(ax)["prediction"], drawn(ax)["training data"]
    np.testing.assert_array_equal(mean.get_xdata()[:70], seen.get_xdata())


def test_durations_share_one_unit(gaussian):
    time = pd.to_timedelta(TIME, unit="min")
    training, later = frames(["abp"], time)
    fans = fans_of(gaussian(np.sin(TIME[70:])), ["abp"])
    (ax,) = forecast_figure(time[70:], fans, training, later).axes
    assert ax.get_xlabel() == "time (min)"
    assert ax.get_xlim()[1] == pytest.approx(10, abs=0.5)


def test_very_many_rows_make_a_small_file(gaussian):
    time = np.linspace(0, 10, 60_000)
    data = pd.DataFrame({"a": np.sin(time)}, index=time)
    fans = fans_of(gaussian(np.sin(time)), ["a"], coverages=[0.95])
    figure = forecast_figure(time, fans, data.iloc[:40_000], data.iloc[40_000:])
    target = io.BytesIO()
    figure.savefig(target, format="svg")
    assert target.tell() < 2_000_000


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_figures_are_saved_in_every_usual_format(fan, tmp_path, suffix, start):
    path = tmp_path / f"forecast.{suffix}"
    forecast_figure(TIME, {"a": fan}, *frames(["a"]), title="A forecast").savefig(path)
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 5_000


def test_pyplot_is_not_imported():
    code = "import sys, deeplfm.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("last", "top"), [(1.5, 3.0), (50.0, 4.0)])
def test_a_forecast_that_leaves_the_range_of_the_data_is_seen_unless_it_is_enormous(last, top):
    wide = (np.array([0.0, -1e6]), np.array([2.0, 1e6]))
    fan, seen = Fan(np.array([1.0, last]), {0.9: wide}), pd.Series([0.0, 1.0], [0.0, 1.0])
    ax = plot_forecast(Figure().add_subplot(), [2.0, 3.0], fan, training=seen)
    assert ax.get_ylim()[1] == top
