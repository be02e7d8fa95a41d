"""Times are read as one of three kinds, and what is none is refused by its row."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators.stamps import date_order_of, kind_of, read_stamps

BERLIN = "Europe/Berlin"


def dates(start: str, periods: int, freq: str, tz: str | None = None) -> pd.DatetimeIndex:
    return pd.date_range(start, periods=periods, freq=freq, tz=tz)


def same(found: pd.Index, expected: pd.Index) -> bool:
    return found.equals(expected) and found.dtype == expected.dtype and found.name == expected.name


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        (["1", "2", "3"], [1, 2, 3]),
        (["0.5", "1e3"], [0.5, 1000.0]),
        (np.array([0.25, 0.5], dtype=np.float32), [0.25, 0.5]),
        (pd.Series([1, 2], dtype="Int64"), [1, 2]),
        (pd.Series([1, 2], dtype="uint8"), [1, 2]),
        (pd.Series([2**60, 2**60 + 1], dtype="uint64"), [2**60, 2**60 + 1]),
        (pd.Categorical(["3", "4"]), [3, 4]),
        (7, [7]),
    ],
)
def test_numbers_are_read(values: Any, expected: list[float]) -> None:
    index = read_stamps(values, "t")
    assert index.tolist() == expected
    assert index.dtype in (np.int64, np.float64)


@pytest.mark.parametrize(
    "values",
    [
        ["2024-01-30", "2024-01-31"],
        ["30/01/2024", "31/01/2024"],
        ["30.01.24", "31.01.24"],
        ["01/30/2024", "01/31/2024"],
        ["30-01-2024 00:00", "31-01-2024 00:00"],
        ["30/01/2024 00:00:00.5", "31/01/2024 00:00:00.5"],
        [dt.datetime(2024, 1, 30), dt.datetime(2024, 1, 31)],
        [dt.date(2024, 1, 30), dt.date(2024, 1, 31)],
        np.array(["2024-01-30", "2024-01-31"], dtype="M8[s]"),
        pd.Series(["2024-01-30", "2024-01-31"], dtype="category"),
        pd.Series(pd.to_datetime(["2024-01-30", "2024-01-31"])).astype("timestamp[ns][pyarrow]"),
    ],
)
def test_timestamps_are_read(values: Any) -> None:
    index = read_stamps(values, "t")
    assert isinstance(index, pd.DatetimeIndex)
    assert index.strftime("%Y-%m-%d").tolist() == ["2024-01-30", "2024-01-31"]


@pytest.mark.parametrize(
    "values",
    [
        ["00:01:30", "2 days"],
        [dt.timedelta(seconds=90), dt.timedelta(days=2)],
        pd.to_timedelta([90, 172_800], unit="s"),
    ],
)
def test_durations_are_read(values: Any) -> None:
    assert read_stamps(values, "t").total_seconds().tolist() == [90, 172_800]


@pytest.mark.parametrize("zone", [BERLIN, "UTC", "+05:30"])
def test_zones_are_kept(zone: str) -> None:
    index = dates("2024-01-01", 5, "D", zone)
    assert str(read_stamps(index, "t").tz) == str(index.tz)


def test_offsets_of_texts_are_kept() -> None:
    index = dates("2024-01-01", 5, "D", "+05:30")
    assert same(read_stamps(index.map(pd.Timestamp.isoformat), "t"), index)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2024-01-01T00:00+01:00", "2024-07-01T00:00+02:00"], "UTC.01:00 at row 0 and UTC.02:00"),
        (["2024-01-01T00:00", "2024-07-01T00:00Z"], "no zone at row 0 and UTC at row 1"),
        (
            [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-02")],
            "UTC at row 0 and no zone at row 1",
        ),
        ([1.0, np.nan, 2.0, np.nan], "t: 2 of 4 times are missing .first: row 1"),
        (["2024-01-01", None], "t: 1 of 2 times are missing .first: row 1"),
        (pd.to_datetime(["2024-01-01", None]), "t: 1 of 2 times are missing"),
        ([1.0, np.inf], "t: 1 of 2 times are infinite .* row 1"),
        ([0.0, 1e200], "beyond 1e.150 .first: 1e.200 at row 1"),
        (["01/02/2024", "02/03/2024"], "'01/02/2024' could be day and month or month and day"),
        (["2024-01-01", "2024-01-02", "soon"], "'soon' at row 2 is no time"),
        (["00:01:30", "1", "00:03:30"], "'1' at row 1 is no time"),
        (["10:30", "10:45"], "'10:30' at row 0 is no time"),
        ([True, False], "type bool.* are no times"),
        ([dt.time(10, 30)], "type time"),
        ([1j], "type complex"),
        (pd.MultiIndex.from_product([[1], [2]]), "several levels"),
        ([], "no times found"),
        (np.zeros((3, 2)), "a ndarray found. Give one list of times"),
        (pd.DataFrame({"t": [1.0, 2.0]}), "a DataFrame found"),
        ([1, "soon"], "mixed"),
    ],
)
def test_what_is_no_time_is_refused_by_row(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_stamps(values, "t")


def test_a_zone_without_a_name_is_refused() -> None:
    class Local(dt.tzinfo):
        def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
            return dt.timedelta(hours=1)

        def dst(self, _: dt.datetime | None) -> dt.timedelta:
            return dt.timedelta(0)

    with pytest.raises(InputError, match="is no name of a time zone"):
        read_stamps([dt.datetime(2024, 1, 1, tzinfo=Local())], "t")


def test_a_zone_makes_offsets_and_local_times_one() -> None:
    hours = dates("2024-10-26 20:00", 12, "h", BERLIN)
    assert same(read_stamps(hours.map(pd.Timestamp.isoformat), "t", zone=BERLIN), hours)
    assert same(read_stamps(hours.tz_localize(None), "t", zone=BERLIN), hours)  # 02:00 comes twice
    with pytest.raises(InputError, match="t: 'Mars' is no name of a time zone"):
        read_stamps(hours, "t", zone="Mars")
    with pytest.raises(
        InputError, match=r"UTC.00:00 at row 0 and no zone at row 1|UTC at row 0 and no"
    ):
        read_stamps(["2024-01-01T00:00Z", "2024-07-01"], "t", zone=BERLIN)


def test_the_order_of_days_and_months_is_found_once_and_can_be_given() -> None:
    assert date_order_of(["01/02/2024", "13/02/2024"], "t") == "day first"
    assert date_order_of(["01/02/2024", "01/13/2024"], "t") == "month first"
    assert date_order_of(["2024-02-01", "2024-02-13"], "t") is None
    assert date_order_of([1, 2], "t") is None
    assert read_stamps(["01/02/2024"], "t", date_order="day first")[0] == pd.Timestamp("2024-02-01")
    assert read_stamps(["01/02/2024"], "t", date_order="month first")[0] == pd.Timestamp(
        "2024-01-02"
    )


def test_months_are_dates_and_no_durations() -> None:
    months = read_stamps(pd.Series(["2024-01", "2024-02", "2024-03"]), "month")
    assert list(months) == list(pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01"]))


@pytest.mark.parametrize("layout", ["%b %d %Y", "%d-%b-%Y", "%d %b %Y 00:00"])
def test_names_of_months_are_read_in_any_order_of_a_date(layout: str) -> None:
    stamps = pd.to_datetime(["2024-05-02", "2024-06-03"])
    assert list(read_stamps(stamps.strftime(layout), "t")) == list(stamps)
    with pytest.raises(InputError, match="is no time"):  # two layouts in one column
        read_stamps([stamps[0].strftime(layout), "2024-06-03"], "t")


def test_months_and_quarters_are_their_first_day() -> None:
    for values in (["April 2024", "July 2024"], ["Apr-24", "Jul-24"], ["2024:Q2", "2024:Q3"]):
        assert list(read_stamps(values, "t")) == list(pd.to_datetime(["2024-04-01", "2024-07-01"]))


@pytest.mark.parametrize("clock", ["", " 10:00", " 10:00:00"])
def test_dates_with_dots_are_no_durations(clock: str) -> None:
    found = read_stamps(
        [f"{day}{clock}" for day in ("29.06.2024", "30.06.2024", "01.07.2024")], "t"
    )
    expected = pd.to_datetime(["2024-06-29", "2024-06-30", "2024-07-01"])
    assert list(found.normalize()) == list(expected)


def test_a_decimal_comma_is_no_part_of_a_duration() -> None:
    with pytest.raises(InputError, match="'1,5 h' at row 0 is no time"):
        read_stamps(["1,5 h", "2,5 h"], "t")


@pytest.mark.parametrize("kind", [int, float, str])
def test_days_written_as_numbers_are_dates(kind: Any) -> None:
    days = [kind(day) for day in (20240229, 20240301, 20240302)]
    assert list(read_stamps(days, "t")) == list(pd.date_range("2024-02-29", periods=3))
    assert read_stamps(days[:1], "t", kind="timestamp")[0] == pd.Timestamp("2024-02-29")
    assert kind_of(read_stamps([20240229, 20240230, 20240231], "t")) == "number"  # no such days
    assert kind_of(read_stamps(days, "t", kind="number")) == "number"


def test_an_hour_that_comes_twice_is_resolved_in_either_direction() -> None:
    hours = pd.date_range("2024-10-26 22:00", periods=8, freq="h", tz="UTC").tz_convert(BERLIN)
    wall = hours.tz_localize(None)
    assert list(read_stamps(wall, "t", zone=BERLIN)) == list(hours)
    assert list(read_stamps(wall[::-1], "t", zone=BERLIN)) == list(hours[::-1])


def test_less_than_an_hour_across_a_change_of_clocks_is_in_order() -> None:
    minutes = pd.date_range("2024-10-27 00:30", periods=46, freq="min", tz="UTC").tz_convert(BERLIN)
    assert list(read_stamps(minutes.tz_localize(None), "t", zone=BERLIN)) == list(minutes)
