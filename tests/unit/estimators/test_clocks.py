"""Dates and clocks in two columns are read as one time, and nothing else is taken for them."""

import datetime as dt

import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators.clocks import named_pair, pair_of, with_times
from deeplfm.estimators.stamps import read_stamps

DAYS = ["10/03/2004", "10/03/2004", "13/03/2004"]


def frame(days: list[object], clocks: list[object], name: str = "Time") -> pd.DataFrame:
    return pd.DataFrame({"Date": days, name: clocks, "CO": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("clocks", "read"),
    [
        (["18.00.00", "19.30.00", "1.00.05"], ["18:00:00", "19:30:00", "01:00:05"]),
        (["18:00", "19:30", "01:00"], ["18:00:00", "19:30:00", "01:00:00"]),
        (["6:00 PM", "12:30 am", "12:00 p.m."], ["18:00:00", "00:30:00", "12:00:00"]),
        (["18:00:00.25", "18:00:00,5", "18:00:01"], ["18:00:00.25", "18:00:00.5", "18:00:01"]),
        ([dt.time(18), dt.time(19, 30), dt.time(1)], ["18:00:00", "19:30:00", "01:00:00"]),
    ],
)
def test_clocks_in_many_forms(clocks: list[object], read: list[str]) -> None:
    given = frame(DAYS, clocks)
    assert pair_of(given, "Date") == ("Date", "Time") == pair_of(given[["Time", "Date"]], "Date")
    times = with_times(given, "Date", "Time").index
    assert times.name == "Date Time"
    expected = [f"{day} {clock}" for day, clock in zip(DAYS, read, strict=True)]
    assert times.tolist() == expected


@pytest.mark.parametrize(
    "days",
    [
        ["2004-03-10", "2004-03-10", "2004-03-13"],
        [20040310.0, 20040310.0, 20040313.0],
        [*pd.to_datetime(["2004-03-10", "2004-03-10", "2004-03-13"])],
        DAYS,
    ],
)
def test_days_in_many_forms_become_the_same_times(days: list[object]) -> None:
    joined = with_times(frame(days, ["18:00", "19:00", "01:00"]), "Date", "Time")
    expected = pd.to_datetime(["2004-03-10 18:00", "2004-03-10 19:00", "2004-03-13 01:00"])
    assert read_stamps(joined.index, "the index").tolist() == expected.tolist()


def test_whole_hours_need_a_name_that_says_so_unless_they_are_asked_for() -> None:
    hours = [0.0, 23.0, 7.0]
    assert pair_of(frame(DAYS, hours, "hr"), "Date") == ("Date", "hr")
    assert pair_of(frame(DAYS, hours, "station"), "Date") is None
    assert (
        with_times(frame(DAYS, hours, "station"), "Date", "station").index[1].endswith(" 23:00:00")
    )
    with pytest.raises(
        InputError, match=r"column 'hr': not all are clocks .* whole hours from 0 to 23"
    ):
        with_times(frame(DAYS, [0.0, 24.0, 7.0], "hr"), "Date", "hr")


def test_a_clock_whose_dates_stand_beside_it() -> None:
    clocks = ["18:00", "19:00", "18:00"]
    given = pd.DataFrame({"Time": clocks, "CO": 1.0, "Date": DAYS})
    assert pair_of(given, "Time") == ("Date", "Time")


@pytest.mark.parametrize(
    "given",
    [
        frame(["10/03/2004", "11/03/2004", "13/03/2004"], ["6:01", "6:02", "6:03"], "sunrise"),
        frame(["10/03/2004 18:00"] * 3, ["18:00", "19:00", "20:00"]),
        frame(DAYS, ["18:00", "25:00", "20:00"]),
        frame(DAYS, ["18:00", None, "20:00"]),
        frame(["a", "a", "b"], ["18:00", "19:00", "20:00"]),
        frame([1.0, 1.0, 2.0], ["18:00", "19:00", "20:00"]),
    ],
    ids=["a day each", "whole times", "no clock", "a gap", "no dates", "numbers"],
)
def test_nothing_else_is_taken_for_date_and_clock(given: pd.DataFrame) -> None:
    assert pair_of(given, "Date") is None


def test_pairs_by_name() -> None:
    given = pd.DataFrame(columns=["Local date", "Clock", "CO"])
    assert named_pair(given, "Local date,Clock") == ("Local date", "Clock")
    assert named_pair(given, "Local date Clock") == ("Local date", "Clock")
    assert named_pair(given, "Local date") is None
    assert named_pair(given, "Clock,Clock") is None


def test_the_date_comes_first() -> None:
    given = frame(DAYS, ["18:00", "19:00", "20:00"])
    with pytest.raises(
        InputError, match=r"column 'Time': no dates without a clock found .*'18:00'"
    ):
        with_times(given, "Time", "Date")
