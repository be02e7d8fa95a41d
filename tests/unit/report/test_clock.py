import numpy as np
import pandas as pd
import pytest

from deeplfm.report.clock import Clock

HOURS = pd.date_range("2024-03-29", periods=72, freq="h", tz="Europe/Berlin", name="when")


@pytest.mark.parametrize(
    "times",
    [
        pd.Index([0.5, 1.5, 4.0], name="t"),
        HOURS,
        pd.to_timedelta(["1h", "2h", "5h"]),
        pd.date_range("2024-01-01", periods=3),
    ],
)
def test_numbers_and_times_are_inverse(times: pd.Index) -> None:
    clock = Clock.of(times)
    numbers = clock.numbers(times)
    back = clock.times(numbers)
    assert clock.numbers(back) == pytest.approx(numbers)
    assert type(back) is type(times)


def test_lengths_are_seconds_across_a_change_of_clocks() -> None:
    assert np.diff(Clock.of(HOURS).numbers(HOURS)) == pytest.approx(3600)


def test_timestamps_are_drawn_in_local_time() -> None:
    clock = Clock.of(HOURS)
    shown = pd.to_datetime(clock.drawn(HOURS), unit="ms")
    assert str(shown[0]) == "2024-03-29 00:00:00"
    assert str(shown[50]) == "2024-03-31 03:00:00"  # 2:00 did not exist
    assert clock.title == "when (Europe/Berlin)"


def test_times_are_drawn_in_utc_if_clocks_were_set_back() -> None:
    autumn = pd.date_range("2024-10-26", periods=48, freq="h", tz="Europe/Berlin")
    clock = Clock.of(autumn)
    assert clock.zone == "UTC"
    assert np.diff(clock.drawn(autumn)) == pytest.approx(3.6e6)
    assert clock.text(autumn[0]) == "2024-10-25 22:00"


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (pd.date_range("2024-01-01", periods=2), "2024-01-01"),
        (pd.date_range("2024-01-01", periods=2, freq="min"), "2024-01-01 00:00"),
        (pd.date_range("2024-01-01", periods=2, freq="s"), "2024-01-01 00:00:00"),
        (pd.DatetimeIndex(["2024-01-01 00:00:00.25", "2024-01-02"]), "2024-01-01 00:00:00.250000"),
        (pd.Index([1000.05, 1000.1]), "1000.05"),
        (pd.Index([3, 4]), "3"),
        (pd.to_timedelta(["90min", "3h"]), "1.5 hours"),
    ],
)
def test_times_are_written_as_finely_as_they_differ(times: pd.Index, text: str) -> None:
    assert Clock.of(times).text(times[0]) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (15_302 * 86400, "41.9 years"),
        (365 * 86400, "1 year"),
        (280 * 86400, "9.2 months"),
        (40 * 86400, "40 days"),
        (86400, "1 day"),
        (5400, "1.5 hours"),
        (60, "1 minute"),
        (0.25, "250 milliseconds"),
    ],
)
def test_spans_have_the_unit_people_use(seconds: float, text: str) -> None:
    assert Clock.of(HOURS).length(seconds) == text


@pytest.mark.parametrize(
    ("period", "unit"),
    [
        (86390, "day"),
        (64800, "day"),
        (600, "hour"),
        (1e6, "month"),
        (3.2e7, "year"),
        (0.8, "second"),
    ],
)
def test_rates_have_a_unit_in_which_the_period_fits(period: float, unit: str) -> None:
    assert Clock.of(HOURS).rate_unit(period)[0] == unit


def test_spans_of_numbers_have_the_users_unit() -> None:
    clock = Clock.of(pd.Index([0.0, 1.0], name="t"))
    assert clock.length(2.5) == "2.5 units of t"
    assert clock.length(1.0) == "1 unit of t"
    assert clock.brief(2.5) == "2.5"


def test_durations_are_drawn_in_one_unit() -> None:
    times = pd.to_timedelta([0, 90, 180], unit="min")
    clock = Clock.of(times)
    assert clock.drawn(times) == pytest.approx([0, 1.5, 3])
    assert clock.title == "time (hours)"
