"""Times keep their kind, zone and step; calendars of pandas are the independent truth."""

import doctest
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators import timeline as module
from deeplfm.estimators.timeline import Timeline

BERLIN = "Europe/Berlin"


def dates(start: str, periods: int, freq: str, tz: str | None = None) -> pd.DatetimeIndex:
    return pd.date_range(start, periods=periods, freq=freq, tz=tz)


def continued(index: pd.Index, horizon: int) -> pd.Index:
    return Timeline.of(index).after(index[-1:], horizon)


def same(found: pd.Index, expected: pd.Index) -> bool:
    return found.equals(expected) and found.dtype == expected.dtype and found.name == expected.name


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-03-28", periods=5, tz="Europe/Berlin"),
        pd.date_range("2024-03-28", periods=5, freq="h"),
        pd.to_timedelta([0, 90, 180], unit="s"),
        pd.Index([10, 20, 30]),
    ],
)
def test_numbers_of_the_model_are_written_as_the_users_times(index: pd.Index) -> None:
    line = Timeline.of(index)
    text = line.text_of(float(line.numbers(index)[-1]))
    assert text == (f"time {index[-1]}" if line.kind == "number" else str(index[-1]))


def test_examples_run() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("tz", [None, BERLIN, "America/New_York"])
@pytest.mark.parametrize(
    ("start", "freq"),
    [
        ("2024-02-01", "D"),  # both zones change their clocks in March
        ("2024-02-01 07:30", "2D"),
        ("2024-02-01", "W-THU"),
        ("2024-02-01", "B"),
        ("2023-01-01", "MS"),
        ("2023-01-31 12:00", "ME"),
        ("2020-01-01", "QS"),
        ("1990-12-31", "YE"),
        ("2024-03-08", "h"),
        ("2024-03-30", "15min"),
        ("2024-03-31", "90s"),
        ("2024-03-31", "4ms"),
    ],
)
@pytest.mark.parametrize("has_holes", [False, True])
def test_stamps_go_on_as_the_calendar_does(
    start: str, freq: str, tz: str | None, has_holes: bool
) -> None:
    truth = dates(start, 60, freq, tz)
    seen = truth[:25].delete([5, 6, 14]) if has_holes else truth[:25]
    assert same(continued(seen, 35), truth[25:])


def test_a_day_of_the_month_is_kept() -> None:
    index = pd.DatetimeIndex([f"2023-{month:02}-15" for month in range(1, 11)])
    found = continued(index, 4).strftime("%Y-%m-%d").tolist()
    assert found == ["2023-11-15", "2023-12-15", "2024-01-15", "2024-02-15"]


def test_a_local_time_that_is_skipped_is_shifted_and_the_next_is_right_again() -> None:
    index = dates("2024-03-20 02:30", 10, "D", BERLIN)
    found = continued(index, 4).map(str).tolist()
    assert found[1:] == [
        "2024-03-31 03:00:00+02:00",
        "2024-04-01 02:30:00+02:00",
        "2024-04-02 02:30:00+02:00",
    ]


def test_irregular_stamps_go_on_by_the_median_step() -> None:
    index = pd.DatetimeIndex(["2024-01-01", "2024-01-01 01:00", "2024-01-01 03:00"])
    assert continued(index, 1)[0] == pd.Timestamp("2024-01-01 04:30")
    assert continued(pd.Index([0, 1, 3, 4, 10]), 2).tolist() == [11.5, 13.0]


def test_numbers_go_on_as_they_were_written() -> None:
    assert continued(pd.Index(np.arange(10) * 0.1), 4).tolist() == [1.0, 1.1, 1.2, 1.3]
    assert continued(pd.Index([10, 20, 30]), 2).tolist() == [40, 50]
    assert continued(pd.Index([10, 20, 30]), 2).dtype == np.int64
    epoch = 1.7e9 + np.arange(500) * 0.004
    assert continued(pd.Index(epoch), 2).tolist() == [1700000002.0, 1700000002.004]
    even = np.linspace(0, 10, 90)
    expected = 10 + np.arange(1, 31) * 10 / 89
    assert continued(pd.Index(even), 30).to_numpy() == pytest.approx(expected, rel=1e-14)


def test_durations_go_on() -> None:
    index = pd.to_timedelta(["00:00:00", "00:01:30", "00:03:00"])
    assert continued(index, 2).map(str).tolist() == ["0 days 00:04:30", "0 days 00:06:00"]


@pytest.mark.parametrize(
    ("index", "end", "last"),
    [
        (pd.Index(np.arange(10) * 0.1), 2.0, 2.0),
        (pd.Index(np.arange(10) * 0.1), "1.25", 1.2),
        (pd.Index([1, 2, 3]), 7.9, 7),
        (dates("2024-01-01", 10, "D"), "2024-03-01", pd.Timestamp("2024-03-01")),
        (dates("2023-12-01", 26, "B"), "2024-03-02", pd.Timestamp("2024-03-01")),
        (dates("2023-01-31", 12, "ME"), "2029-02-28", pd.Timestamp("2029-02-28")),
        (dates("2024-03-01", 9, "D", BERLIN), "2024-04-09", pd.Timestamp("2024-04-09", tz=BERLIN)),
        (dates("2024-03-30", 9, "h", BERLIN), "2024-04-09", pd.Timestamp("2024-04-09", tz=BERLIN)),
        (pd.to_timedelta([0, 1, 2], unit="h"), "1 days", pd.Timedelta("1 days")),
    ],
)
def test_until_includes_an_end_that_a_step_meets(index: pd.Index, end: Any, last: Any) -> None:
    found = Timeline.of(index).until(index[-1:], end)
    assert found[-1] == last
    assert found.equals(continued(index, len(found)))


def test_nothing_is_continued_backwards_or_without_end() -> None:
    index = dates("2024-01-01", 5, "D")
    timeline, last = Timeline.of(index), index[-1:]
    for horizon in (0, -3, 2.5, True, "3"):
        with pytest.raises(InputError, match=r"horizon: .* found\. Give a number of steps from 1"):
            timeline.after(last, horizon)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"until: 2024-01-05 .* is not after the last time"):
        timeline.until(last, "2024-01-05")
    with pytest.raises(InputError, match="less than a step after"):
        timeline.until(last, "2024-01-05 10:00")
    seconds = dates("2024-01-01", 5, "s")
    with pytest.raises(InputError, match=r"about [0-9]+ steps lead"):
        Timeline.of(seconds).until(seconds[-1:], "2099-01-01")
    with pytest.raises(InputError, match="beyond what timestamps can hold"):
        yearly = dates("2000-01-01", 5, "YS").as_unit("ns")
        Timeline.of(yearly).after(yearly[-1:], 5000)


def test_a_model_sees_instants_in_a_unit_that_suits_the_step() -> None:
    days = dates("2024-03-29", 5, "D", BERLIN)
    timeline = Timeline.of(days)
    assert timeline.unit == "day"
    assert timeline.numbers(days) == pytest.approx([0, 1, 2, 2 + 23 / 24, 3 + 23 / 24])
    hours = dates("2024-03-31", 5, "h", BERLIN)
    assert Timeline.of(hours).unit == "hour"
    assert Timeline.of(hours).numbers(hours).tolist() == [0, 1, 2, 3, 4]
    quick = dates("2024-03-31", 5, "4ms")
    assert Timeline.of(quick).unit == "second"
    assert Timeline.of(quick).numbers(quick) == pytest.approx(np.arange(5) * 0.004, rel=1e-12)
    waits = pd.to_timedelta([30, 31, 32], unit="min")
    assert Timeline.of(waits).numbers(waits).tolist() == [30, 31, 32]


def test_numbers_are_the_users_own_unless_floats_cannot_tell_them_apart() -> None:
    assert Timeline.of(pd.Index([5.0, 6.0])).numbers(pd.Index([7.0])).tolist() == [7.0]
    index = pd.Index(1_700_000_000_000_000_000 + np.arange(3))
    assert Timeline.of(index).numbers(index).tolist() == [0, 1, 2]


def test_finer_times_than_the_series_has_are_not_cut() -> None:
    index = dates("2024-01-01", 3, "D").as_unit("s")
    timeline = Timeline.of(index)
    assert timeline.numbers(timeline.read("2024-01-01 00:00:00.000864"))[0] == pytest.approx(1e-8)


def test_times_must_be_of_the_kind_that_was_fitted() -> None:
    numbers, days = Timeline.of(pd.Index([0.0, 1.0])), Timeline.of(dates("2024-01-01", 3, "D"))
    aware = Timeline.of(dates("2024-01-01", 3, "D", BERLIN))
    assert days.read("2025")[0] == pd.Timestamp("2025-01-01")  # not the number
    with pytest.raises(
        InputError, match=r"times: numbers found \(first: 3\).*fitted on timestamps"
    ):
        days.read([3])
    with pytest.raises(InputError, match=r"'2024-01-01' at row 0 is no time. Give numbers such as"):
        numbers.read("2024-01-01")
    with pytest.raises(InputError, match="timestamps in zone UTC found"):
        days.read(dates("2024-01-01", 1, "D", "UTC"))
    assert str(aware.read("2024-07-01")[0]) == "2024-07-01 00:00:00+02:00"
    assert str(aware.read("2024-07-01T00:00Z")[0]) == "2024-07-01 02:00:00+02:00"
    with pytest.raises(InputError, match="does not exist, or exists twice"):
        aware.read("2024-10-27 02:30")


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([1, 2, 5]),
        pd.Index([0.1, 0.2, 0.30000000000000004]),
        pd.Index(1_700_000_000_000_000_000 + np.arange(3)),
        pd.DatetimeIndex(["2024-01-01 00:00:00.000000001", "2024-01-02", "2024-01-03"]),
        dates("2024-03-30", 3, "D", BERLIN),
        dates("2024-03-30", 3, "h", "+05:30").as_unit("s"),
        pd.to_timedelta([1, 2, 3], unit="ns"),
        pd.to_timedelta([1, 2, 3], unit="s"),
    ],
)
def test_what_is_saved_comes_back(index: pd.Index) -> None:
    index = index.rename("t")
    timeline = Timeline.of(index, "t")
    again = Timeline.from_dict(json.loads(json.dumps(timeline.to_dict())))
    assert again == timeline
    assert same(again.from_ticks(timeline.ticks(index)), index)
    assert again.after(index[-1:], 3).equals(timeline.after(index[-1:], 3))


@pytest.mark.parametrize(
    ("start", "step", "texts"),
    [
        ("2020-01-04", "W-SAT", ["2020-01-04", "2020-01-18"]),
        ("2020-01-01", "MS", ["2020-01-01", "2020-03-01"]),
        ("2020-01-04", "h", ["2020-01-04 00:00:00", "2020-01-04 02:00:00"]),
        ("2020-01-04 06:00", "D", ["2020-01-04 06:00:00", "2020-01-06 06:00:00"]),
    ],
)
def test_dates_have_no_time_of_day_in_messages(start, step, texts):
    index = pd.date_range(start, periods=3, freq=step)
    assert Timeline.of(index, "t").texts(index[[0, -1]]) == texts


def test_uneven_numbers_have_no_digits_of_rounding_in_messages():
    index = pd.Index([0.1 + 0.2, 1.7, 58820.00520945886])
    assert Timeline.of(index, "t").texts(index[[0, -1]]) == ["0.3", "58820.00521"]
