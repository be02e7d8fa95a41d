import numpy as np
import pandas as pd
import pytest

from deeplfm.report.clock import Clock
from deeplfm.report.record_statistics import Record, read_record


def facts(values: list[float], times: pd.Index | None = None, **options: str) -> Record:
    index = pd.RangeIndex(len(values)) if times is None else times
    frame = pd.DataFrame({"y": values}, index=index)
    return read_record(frame, ["y"], Clock.of(frame.index), **options)


def test_gaps_are_counted_and_measured_between_known_values() -> None:
    values = np.arange(20.0)
    values[[3, 8, 9, 10]] = np.nan
    target = facts(list(values)).targets[0]
    assert (target.known, target.missing) == (16, 4)
    assert target.gaps == [(2, 4), (7, 11)]
    assert target.longest_gap == 4


def test_gaps_at_both_ends_reach_to_the_ends() -> None:
    values = np.arange(20.0)
    values[:3] = values[-2:] = np.nan
    assert facts(list(values)).targets[0].gaps == [(0, 3), (17, 19)]


def test_rows_left_out_are_gaps_of_a_regular_record() -> None:
    times = pd.Index([*range(10), *range(15, 30)])
    record = facts([1.0] * 25, times)
    assert record.is_regular
    assert record.targets[0].gaps == [(9, 15)]
    assert record.targets[0].missing == 0


def test_an_irregular_record_has_no_gap_in_every_pause() -> None:
    times = pd.Index(np.cumsum(np.random.default_rng(0).exponential(size=200)))
    record = facts([1.0] * 200, times)
    assert not record.is_regular
    assert len(record.targets[0].gaps) < 10


def test_a_target_sampled_every_other_row_has_no_gaps() -> None:
    assert facts([1.0, np.nan] * 20).targets[0].gaps == []


def test_weekends_are_no_gaps_and_a_missing_week_is() -> None:
    days = pd.bdate_range("2024-01-01", periods=60)
    assert facts([1.0] * 60, days, calendar="weekdays").targets[0].gaps == []
    kept = days.delete(range(20, 25))
    assert len(facts([1.0] * 55, kept, calendar="weekdays").targets[0].gaps) == 1


def test_values_are_summed_up() -> None:
    target = facts([1.0, 2.0, 6.0, np.nan]).targets[0]
    assert (target.low, target.mean, target.high) == (1, 3, 6)
    assert not target.is_constant
    assert facts([7.0] * 5).targets[0].is_constant


def test_step_and_span() -> None:
    record = facts([1.0] * 11, pd.Index(np.linspace(0, 5, 11)))
    assert record.step == pytest.approx(0.5)
    assert record.span == pytest.approx(5)
