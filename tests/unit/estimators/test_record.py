"""A record is read from frames, grows, and says what a model sees of any time."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import ConfigError, InputError
from deeplfm.estimators.columns import Roles
from deeplfm.estimators.record import Record, check_observed, in_order

DAY = pd.Timedelta(days=1)
DAYS = pd.date_range("2024-01-01", periods=20, name="day")


def frame(index: pd.Index = DAYS) -> pd.DataFrame:
    step = np.arange(len(index), dtype=float)
    return pd.DataFrame({"a": step, "b": step**2, "heat": -step}, index=index)


def record(gaps: Any = None) -> Record:
    given = frame()
    if gaps is not None:
        given.loc[gaps, "a"] = np.nan
    return Record.of(given, Roles("day", ["a", "b"], ["heat"]), "refuse", None)


def test_inputs_are_time_and_covariates() -> None:
    known = record()
    assert known.inputs(known.rows).tolist() == [[float(i), -float(i)] for i in range(20)]
    assert known.observed.columns.tolist() == ["a", "b"]


def test_values_that_are_known_are_not_new_and_those_of_gaps_are() -> None:
    known = record(gaps=DAYS[3:5])
    later = frame(pd.date_range("2024-01-04", periods=20, name="day"))
    with pytest.warns(UserWarning, match="later: 32 of 40 values were known in training"):
        unseen = known.unseen(known.read(later))
    assert unseen.index.equals(later.index[[0, 1, 17, 18, 19]])
    assert unseen["a"].notna().tolist() == [True, True, True, True, True]
    assert unseen["b"].notna().tolist() == [False, False, True, True, True]
    assert unseen["heat"].notna().all()
    with pytest.raises(InputError, match=r"none of its 2 known values is new.*after 2024-01-20"):
        known.unseen(known.read(frame(DAYS[:1])))


def test_a_record_grows_where_it_knew_nothing() -> None:
    known = record(gaps=DAYS[3:5])
    news = frame(DAYS[3:5].append(pd.DatetimeIndex(["2024-01-25"])))
    grown = known.extended(news)
    assert len(grown.rows) == 21
    assert grown.rows["a"].notna().all()
    assert grown.rows["b"].iloc[3] == 9.0  # what was known stays
    assert grown.rows.index.name == "day"
    assert grown.timeline == known.timeline


def test_covariates_come_from_the_record_or_a_frame() -> None:
    known, future = record(), frame(pd.date_range("2024-01-19", periods=4, name="day"))
    index = DAYS[:1].append(future.index)
    assert known.inputs_at(index, future)[:, 1].tolist() == [0.0, 0.0, -1.0, -2.0, -3.0]
    with pytest.raises(
        InputError, match=r"column 'heat'.* 2 of 5 .*first: time 2024-01-21.*with covariates=,"
    ):
        known.inputs_at(index, None)
    doubled = pd.concat([future, future])
    with pytest.raises(InputError, match=r"time 2024-01-19 .*found in 2 rows"):
        known.inputs_at(index, doubled)


def test_numbers_are_found_as_far_as_they_can_be_distinguished() -> None:
    times = pd.Index(np.arange(20) * 0.1, name="t")
    known = Record.of(frame(times), Roles("t", ["a"], ["heat"]), "refuse", None)
    nearly = pd.Index([0.3, 0.7, 1.2000000001])
    assert known.inputs_at(nearly, None)[:, 1].tolist() == [-3.0, -7.0, -12.0]
    with pytest.raises(InputError, match=r"first: time 0\.35"):
        known.inputs_at(pd.Index([0.3, 0.35]), None)


def test_what_is_ahead_is_said_in_one_way_or_taken_from_the_covariates() -> None:
    known, future = record(), frame(pd.date_range("2024-01-18", periods=9, name="day"))
    assert known.ahead(None, None, None, None).equals(pd.date_range("2024-01-21", periods=2))
    assert known.ahead(None, None, None, future).equals(future.index[3:])
    assert known.ahead(3, None, None, future).equals(future.index[3:6])
    assert known.ahead(None, "2024-01-23", None, None).equals(future.index[3:6])
    assert known.ahead(None, None, ["2024-01-05"], None)[0] == DAYS[4]
    with pytest.raises(InputError, match="until and times found"):
        known.ahead(None, "2024-01-23", ["2024-01-05"], None)


def test_a_line_is_drawn_through_times_that_have_no_row() -> None:
    hours = pd.date_range("2024-03-30", periods=48, freq="h", tz="Europe/Berlin")
    kept = hours.delete(range(20, 30))
    given = pd.DataFrame({"load": np.sin(np.arange(38.0))}, index=kept)
    roles = Roles.choose(given, None, None, None)
    assert list(Record.of(given, roles, "refuse", None).drawn()) == list(hours)
    assert list(Record.of(given.iloc[:20], roles, "refuse", None).drawn()) == list(hours[:20])
    assert list(record().drawn()) == list(DAYS)


def test_times_that_differ_by_rounding_are_the_same() -> None:
    given = pd.DataFrame({"t": [0.0, 0.1, 0.2, 0.3, 0.4], "y": [1.0, 2.0, np.nan, 4.0, 5.0]})
    found = Record.of(given, Roles("t", ["y"], []), "refuse", None)
    times = pd.Index(np.arange(6) * 0.1, name="t")  # 0.30000000000000004 is among them
    assert found.known_at(times)["y"].tolist() == [True, True, False, True, True, False]


def rows(times: list[float], **columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    values = pd.DataFrame({"a": np.arange(len(times), dtype=float)}, index=pd.Index(times))
    return values, pd.DataFrame({"t": times, "a": values["a"].to_numpy()} | columns)


def test_rows_are_put_in_order() -> None:
    values, frame = rows([3.0, 1.0, 2.0])
    ordered = in_order(values, frame, "refuse")
    assert ordered.index.tolist() == [1.0, 2.0, 3.0]
    assert ordered["a"].tolist() == [1.0, 2.0, 0.0]


def test_rows_of_one_time_are_refused_by_their_rows_or_averaged() -> None:
    values, frame = rows([1.0, 2.0, 1.0, 3.0, 1.0])
    with pytest.raises(
        InputError,
        match=r"time 1\.0: found in 3 rows \(0, 2, 4\); 3 of 5 rows share.*duplicates='mean'",
    ):
        in_order(values, frame, "refuse")
    values.iloc[4] = np.nan
    averaged = in_order(values, frame, "mean")
    assert averaged.index.tolist() == [1.0, 2.0, 3.0]
    assert averaged["a"].tolist() == [1.0, 1.0, 3.0]
    with pytest.raises(ConfigError, match="duplicates: 'first' found"):
        in_order(values, frame, "first")


@pytest.mark.parametrize(
    "labels",
    [
        list("xxyy"),
        pd.Categorical(list("xxyy")),
        [1, 1, 2, 2],
    ],
)
def test_several_series_in_one_column_are_recognised(labels: Any) -> None:
    values, frame = rows([1.0, 2.0, 1.0, 2.0], patient=labels)
    with pytest.raises(
        InputError, match=r"column 'patient': the frame holds several series.*pivot"
    ):
        in_order(values, frame, "refuse")


def test_a_target_that_happens_to_differ_does_not_look_like_a_label() -> None:
    values, frame = rows([1.0, 2.0, 1.0, 3.0], rate=[60, 61, 62, 61], id=list("abcd"))
    with pytest.raises(InputError, match=r"time 1\.0: found in 2 rows"):
        in_order(values, frame, "refuse")


def test_targets_need_three_known_values() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [np.nan, 1.0, 2.0]})
    check_observed(frame[["a"]])
    with pytest.raises(InputError, match="column 'b': 2 of 3 values are known; at least 3"):
        check_observed(frame)


def test_even_times_are_drawn_where_steps_are_uneven() -> None:
    times = np.r_[np.sort(np.random.default_rng(0).uniform(0, 9, 20)), 30.0]
    for index, unit in ((pd.Index(times), 1.0), (DAYS[0] + pd.to_timedelta(times, "D"), DAY)):
        given = pd.DataFrame({"magnitude": np.sin(times)}, index=index)
        known = Record.of(given, Roles.choose(given, None, None, None), "refuse", None)
        ahead = index[-1:] + 10 * unit
        drawn = known.drawn(ahead)
        assert index.isin(drawn).all() and drawn[-1] == ahead[-1]
        assert drawn.is_monotonic_increasing
        assert (np.diff(drawn) <= 0.3 * unit).all()
        assert known.drawn(ahead, 5)[0] == index[-5]
    assert record().drawn(DAYS[:1] + 99 * DAY)[-1] == DAYS[0] + 99 * DAY
