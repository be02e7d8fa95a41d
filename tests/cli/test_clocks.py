"""Dates and clocks in two columns are read as one time, and nothing else is taken for them."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.cli.clocks import joined_times, named_pair, pair_of
from deeplfm.estimators.stamps import read_stamps

DAYS = ["10/03/2004", "10/03/2004", "13/03/2004"]
CLOCKS = ["18:00", "19:00", "20:00"]


def frame(days, clocks, name="Time"):
    return pd.DataFrame({"Date": days, name: clocks, "CO": [1.0, 2.0, 3.0]})


def times(given, pair=("Date", "Time")):
    found = joined_times(given, pair, "log.csv")
    assert found.name == " ".join(pair)
    return [str(stamp) for stamp in read_stamps(found, "times")]


@pytest.mark.parametrize(
    ("clocks", "read"),
    [
        (["18.00.00", "19.30.00", "1.00.05"], ["10 18:00:00", "10 19:30:00", "13 01:00:05"]),
        (["18:00", "19:30", "01:00"], ["10 18:00:00", "10 19:30:00", "13 01:00:00"]),
        (["18h00", "19h30", "1h00"], ["10 18:00:00", "10 19:30:00", "13 01:00:00"]),
        (["6:00 PM", "12:30 am", "12:00 p.m."], ["10 18:00:00", "10 00:30:00", "13 12:00:00"]),
        (
            ["18:00:00.25", "18:00:01,5", "18:00:01"],
            ["10 18:00:00.25", "10 18:00:01.5", "13 18:00:01"],
        ),
        (["23:00", "24:00", "24:00:00"], ["10 23:00:00", "11 00:00:00", "14 00:00:00"]),
        ([dt.time(18), dt.time(19, 30), dt.time(1)], ["10 18:00:00", "10 19:30:00", "13 01:00:00"]),
    ],
)
def test_clocks_in_many_forms(clocks, read):
    given = frame(DAYS, clocks)
    assert pair_of(given, "Date") == ("Date", "Time") == pair_of(given, "Time")
    assert times(given) == [str(pd.Timestamp(f"2004-03-{text}")) for text in read]


@pytest.mark.parametrize(
    "days",
    [
        ["2004-03-10", "2004-03-10", "2004-03-13"],
        ["2004-03-10 00:00:00", "2004-03-10 00:00:00", "2004-03-13 00:00:00"],
        [20040310.0, 20040310.0, 20040313.0],
        pd.to_datetime(["2004-03-10", "2004-03-10", "2004-03-13"]),
        [dt.date(2004, 3, 10), dt.date(2004, 3, 10), dt.date(2004, 3, 13)],
        DAYS,
    ],
)
def test_days_in_many_forms_become_the_same_times(days):
    given = frame(days, CLOCKS)
    assert pair_of(given, "Date") == ("Date", "Time")
    expected = ["2004-03-10 18:00:00", "2004-03-10 19:00:00", "2004-03-13 20:00:00"]
    assert times(given) == expected
    assert times(given, ("Time", "Date")) == expected  # whichever is named first


def test_whole_hours_need_a_name_that_says_so_unless_they_are_asked_for():
    hours = [0.0, 24.0, 7.0]
    expected = ["2004-03-10 00:00:00", "2004-03-11 00:00:00", "2004-03-13 07:00:00"]
    assert pair_of(frame(DAYS, hours, "hr"), "Date") == ("Date", "hr")
    assert pair_of(frame(DAYS, hours, "station"), "Date") is None
    assert times(frame(DAYS, hours, "station"), ("Date", "station")) == expected
    with pytest.raises(
        InputError, match=r"'hr' does not hold times of day .* 1 of 3 .*'25.0' in row 1"
    ):
        times(frame(DAYS, [0.0, 25.0, 7.0], "hr"), ("Date", "hr"))


def test_a_clock_whose_dates_stand_beside_it():
    given = pd.DataFrame({"Time": ["18:00", "23:00", "01:00"], "CO": 1.0, "Date": DAYS})
    assert pair_of(given, "Time") == ("Date", "Time")


def test_the_column_with_more_detail_is_the_time_of_day():
    given = frame(DAYS, ["18:30", "19:30", "20:30"]).assign(Hour=[18, 19, 20], Sunset="18:44")
    assert pair_of(given[["Date", "Hour", "Sunset", "Time", "CO"]], "Date") == ("Date", "Time")
    assert pair_of(given[["Date", "Sunset", "Hour", "CO"]], "Date") == ("Date", "Hour")
    assert pair_of(given[["Date", "Hour", "CO"]].assign(Minute=30), "Date") is None
    assert pair_of(given, "Date", taken=["Time", "Hour"]) is None


@pytest.mark.parametrize(
    "given",
    [
        frame(["10/03/2004", "11/03/2004", "13/03/2004"], CLOCKS),
        frame(DAYS, CLOCKS, "sunrise"),
        frame(["10/03/2004 18:00"] * 3, CLOCKS),
        frame(DAYS, ["18:00.50", "18:00.51", "20:00.00"]),
        frame(DAYS, [18.0, 25.0, 20.0], "hour"),
        frame(["a", "a", "b"], CLOCKS),
        frame([1.0, 1.0, 2.0], CLOCKS),
        frame([np.inf, np.inf, 20040310.0], CLOCKS),
        frame(pd.to_datetime(["2004-03-10"] * 3).tz_localize("Europe/Lisbon"), CLOCKS),
    ],
    ids=str,
)
def test_nothing_else_is_taken_for_date_and_clock(given):
    assert pair_of(given, "Date") is None


def test_pairs_by_name():
    given = pd.DataFrame(columns=["Local date", "Clock", "CO"])
    assert named_pair(given, "Local date,Clock") == ("Local date", "Clock")
    assert named_pair(given, "Local date Clock") == ("Local date", "Clock")
    assert named_pair(given, "Local date") is None
    assert named_pair(given, "Clock,Clock") is None


@pytest.mark.parametrize(
    ("days", "clocks", "message"),
    [
        (
            DAYS,
            ["18:00", "x", "20:00"],
            "'Time' does not hold times of day .*1 of 3 .*'x' in row 1",
        ),
        (DAYS, ["18:00", "25:00", "20:00"], "'Time' does not hold times of day .*'25:00' in row 1"),
        (DAYS, ["18:00", "24:01", "20:00"], "'Time' does not hold times of day .*'24:01' in row 1"),
        (DAYS, ["18:00", None, "20:00"], "'Time' .*1 of 3 .*nothing in row 1"),
        (["10/03/2004"] * 2 + ["Wed"], CLOCKS, "'Date' does not hold dates.*'Wed' in row 2"),
    ],
)
def test_what_is_wrong_is_shown_where_it_is(days, clocks, message):
    given = frame(days, clocks)
    assert "Wed" in days or pair_of(given, "Date") == ("Date", "Time")
    with pytest.raises(InputError, match=message):
        times(given)
