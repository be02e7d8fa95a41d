"""Frames become rows of numbers in order of time, or an error says which row stands against it."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import ConfigError, InputError
from deeplfm.estimators.observations import as_frame, check_enough, in_order, numbers_of


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1.0, np.nan, 3.0]),
        pd.Series([1.0, np.nan, 3.0], dtype="float32"),
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1, None, 3], dtype="Float64"),
        pd.Series([1, None, 3], dtype="double[pyarrow]"),
        pd.Series([1, None, 3.0], dtype=object),
        pd.Series([Decimal(1), None, Decimal(3)], dtype=object),
    ],
)
def test_every_kind_of_number_becomes_a_float(column: pd.Series) -> None:
    numbers = numbers_of(column, "column 'a'")
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, [1.0, np.nan, 3.0])


def test_claims_and_empty_columns_are_numbers() -> None:
    assert numbers_of(pd.Series([True, False]), "a").tolist() == [1.0, 0.0]
    assert np.isnan(numbers_of(pd.Series([None, None], dtype=object), "a")).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, "high", 2.0], "column 'a': 'high' at row 1 is no number"),
        (["1", "2", "3"], "column 'a': '1' at row 0 is no number"),
        (pd.Categorical(["x", "y"]), "'x' at row 0 is no number"),
        (pd.date_range("2024", periods=2), "at row 0 is no number"),
        ([1 + 2j, 3], "is no number"),
        ([1.0, np.inf, -np.inf], "2 of 3 values are infinite .first: row 1"),
        ([1.0, 2.0, -1e160], "1 of 3 values are larger than 1e.150 .first: row 2"),
    ],
)
def test_what_is_no_number_is_refused_by_row(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        numbers_of(pd.Series(values), "column 'a'")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((3, 2)), "frame: a ndarray found. Give a pandas DataFrame"),
        (pd.DataFrame({"a": []}), r"shape \(0, 1\)"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), "several columns are named 'a'"),
        (pd.DataFrame({("a", "b"): [1.0]}), r"\('a', 'b'\) is no name of a column"),
    ],
)
def test_only_frames_with_plain_names_are_taken(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_frame(data, "frame")


def test_a_series_is_a_frame_of_one_column() -> None:
    assert list(as_frame(pd.Series([1.0], name="abp"), "frame").columns) == ["abp"]
    assert list(as_frame(pd.Series([1.0]), "frame").columns) == ["y"]


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
    check_enough(frame, ["a"])
    with pytest.raises(InputError, match="column 'b': 2 of 3 values are known; at least 3"):
        check_enough(frame, ["a", "b"])
