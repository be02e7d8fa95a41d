import numpy as np
import pytest
from matplotlib.figure import Figure

from deeplfm.plots.dense import (
    MOST_POINTS,
    MOST_ROWS,
    envelope,
    gaps_of,
    outline,
    plot_observations,
)
from deeplfm.plots.style import Marks

MARKS = Marks("data", "#707070", "o")


def test_few_rows_are_drawn_as_they_are():
    time = np.linspace(0, 1, 100)
    assert envelope(time, time, 2 * time)[2] is not None
    np.testing.assert_array_equal(envelope(time, time, 2 * time), (time, time, 2 * time))
    np.testing.assert_array_equal(outline(time, 3 * time), (time, 3 * time))


def test_of_very_many_rows_no_extreme_is_lost():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 1, 200_000))
    value = rng.normal(size=200_000)
    value[123_456], value[77] = 50.0, -40.0
    at, low, high = envelope(time, value, value + 1)
    assert len(at) <= MOST_ROWS
    assert (low.min(), high.max()) == (-40.0, 51.0)
    assert (np.diff(at) > 0).all() and (low <= high).all()
    assert abs(at[high.argmax()] - time[123_456]) < 1e-3  # and it stays where it is
    line_time, line = outline(time, value)
    assert len(line) <= 2 * MOST_ROWS and (np.diff(line_time) >= 0).all()
    assert (line.min(), line.max()) == (-40.0, 50.0)


def test_gaps_are_found_inside_and_at_both_ends():
    time = np.arange(100.0)
    value = np.ones(100)
    value[:10] = value[40:60] = value[90:] = np.nan
    assert gaps_of(time, value) == [(0, 10), (39, 60), (89, 99)]


def test_rows_that_are_not_there_make_a_gap_as_well():
    time = np.r_[np.arange(50.0), np.arange(80.0, 100.0)]
    assert gaps_of(time, time) == [(49, 80)]


@pytest.mark.parametrize("kind", ["scattered", "random times", "regular", "too few"])
def test_values_missing_here_and_there_are_no_gap(kind):
    rng = np.random.default_rng(0)
    time = np.arange(1000.0) if kind != "random times" else np.cumsum(rng.exponential(size=1000))
    value = np.ones(1000)
    if kind == "scattered":
        value[rng.uniform(size=1000) < 0.3] = np.nan
    if kind == "too few":
        value[2:] = np.nan
    assert gaps_of(time, value) == []


def test_points_are_drawn_one_by_one_without_the_missing_ones():
    ax = Figure().add_subplot()
    value = np.array([1.0, np.nan, 3.0])
    assert plot_observations(ax, np.arange(3.0), value, MARKS) is ax
    (line,) = ax.lines
    assert (line.get_linestyle(), line.get_marker()) == ("None", "o")
    np.testing.assert_array_equal(line.get_xydata(), [[0, 1], [2, 3]])


def test_very_many_points_become_a_line_that_is_broken_at_gaps():
    ax = Figure().add_subplot()
    time = np.arange(10.0 * MOST_POINTS)
    value = np.sin(time / 500)
    value[4000:6000] = np.nan
    shuffled = np.random.default_rng(0).permutation(len(time))
    plot_observations(ax, time[shuffled], value[shuffled], MARKS)
    (line,) = ax.lines
    assert line.get_marker() == "None"
    x, y = line.get_data()
    assert np.isnan(y).sum() == 1
    assert x[: np.flatnonzero(np.isnan(y))[0]].max() < 4000
    assert (
        np.nanmin(np.where(np.arange(len(x)) > np.flatnonzero(np.isnan(y))[0], x, np.inf)) >= 6000
    )
