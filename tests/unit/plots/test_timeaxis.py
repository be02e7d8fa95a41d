import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import num2date
from matplotlib.figure import Figure

from deeplfm.errors import InputError
from deeplfm.plots import TimeAxis


def test_numbers_stay_what_they_are():
    axis = TimeAxis([1, 2, 3], np.array([4.5]))
    np.testing.assert_array_equal(axis.positions(pd.Index([1, 2.5])), [1, 2.5])
    assert axis.dress(Figure().add_subplot(), "depth").get_xlabel() == "depth"


def test_timestamps_are_the_same_moment_and_labelled_in_their_zone():
    ax = Figure(figsize=(8, 3)).add_subplot()
    stamps = pd.date_range("2024-07-01 23:00", periods=5, freq="6h", tz="America/New_York")
    axis = TimeAxis(stamps)
    position = axis.positions(stamps)
    assert [num2date(x) for x in position] == list(stamps.tz_convert("UTC").to_pydatetime())
    assert axis.positions(stamps[2])[0] == position[2]  # a single time as well
    ax.plot(position, position)
    assert axis.dress(ax, "time").get_xlabel() == "time (America/New_York)"
    ax.figure.draw_without_rendering()
    labels = {text.get_text() for text in ax.get_xticklabels()}
    assert "Jul-02" in labels or "02" in labels
    midnights = [x for x in ax.get_xticks() if num2date(x, tz=stamps.tz).hour == 0]
    assert midnights  # of that zone, not of UTC


def test_timestamps_without_a_zone_have_none_in_the_label():
    axis = TimeAxis(pd.date_range("2024", periods=3))
    assert axis.dress(Figure().add_subplot(), "day").get_xlabel() == "day"


@pytest.mark.parametrize(
    ("span", "unit", "last"),
    [
        ("10D", "days", 10),
        ("48h", "h", 48),
        ("3h", "h", 3),
        ("90min", "min", 90),
        ("12s", "s", 12),
        ("250ms", "ms", 250),
        ("40us", "µs", 40),
        ("2ns", "ns", 2),
    ],
)
def test_durations_are_counted_in_a_unit_that_fits(span, unit, last):
    time = pd.to_timedelta(["0s", span])
    axis = TimeAxis(time)
    np.testing.assert_allclose(axis.positions(time), [0, last])
    assert axis.dress(Figure().add_subplot(), "time").get_xlabel() == f"time ({unit})"


def test_the_unit_comes_from_all_times_together():
    short, long = pd.to_timedelta(["0s", "5s"]), pd.to_timedelta(["5s", "2h"])
    assert TimeAxis(short, long).unit == "min"


def test_kinds_of_time_are_not_mixed():
    with pytest.raises(InputError, match="numbers and timestamps found for one axis"):
        TimeAxis([1.0], pd.date_range("2024", periods=2))


def test_other_types_are_refused_by_name():
    with pytest.raises(InputError, match=r"cannot be put on an axis\. Give numbers"):
        TimeAxis(["a", "b"])
