"""The roles of columns are found, their values become numbers, and errors name column and row."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators.columns import Roles, as_frame, numbers_of
from deeplfm.estimators.known_inputs import KnownInputs
from deeplfm.estimators.predictions import fill_gaps

STAMPS = pd.date_range("2024-01-01", periods=4)


def vitals(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"t": [0.0, 0.5, 1.0, 1.5], "abp": [80.0, 81.0, np.nan, 83.0], "ecg": [1, 2, 3, 4]} | more
    )


def test_by_default_all_columns_of_numbers_that_are_left_are_targets() -> None:
    frame = vitals(
        site=list("abcd"),
        kind=pd.Categorical(list("aabb")),
        is_awake=[True, False, True, True],
        when=STAMPS,
        waited=pd.to_timedelta([1, 2, 3, 4], unit="h"),
        room=[20.0, 21.0, 22.0, 23.0],
        whole=pd.array([1, None, 3, 4], dtype="Int64"),
        plain=pd.Series([1, None, 2.5, 3], dtype=object),
    )
    roles = Roles.choose(frame, "t", None, "room")
    assert roles == Roles("t", ["abp", "ecg", "whole", "plain"], ["room"])


def test_one_name_may_be_given_without_a_list_and_numbers_are_names_too() -> None:
    assert Roles.choose(vitals(), "t", "abp", None) == Roles("t", ["abp"], [])
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3))
    assert Roles.choose(frame, 0, None, [2]) == Roles(0, [1], [2])


def test_the_index_is_time_unless_a_column_is_named() -> None:
    frame = vitals().set_index("t")
    assert Roles.choose(frame, None, None, None) == Roles("t", ["abp", "ecg"], [])
    assert Roles.choose(frame, "t", None, None) == Roles("t", ["abp", "ecg"], [])
    odd = frame.rename_axis(1.5)
    roles = Roles.choose(odd, None, None, None)
    assert list(roles.times(odd)[0]) == [0.0, 0.5, 1.0, 1.5]
    nameless = frame.rename_axis(None)
    assert Roles.choose(nameless, None, None, None).time is None


def test_times_are_found_in_a_column_or_the_index_of_that_name() -> None:
    roles = Roles("t", ["abp"], [])
    by_index = vitals().set_index("t")
    for frame in (vitals(), by_index, by_index.rename_axis(None)):
        assert list(roles.times(frame)[0]) == [0.0, 0.5, 1.0, 1.5]
    with pytest.raises(InputError, match="time: there is no column 't'"):
        roles.times(vitals().drop(columns="t"))
    assert list(Roles(None, ["abp"], []).times(vitals())[0]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": {"t"}}, r"time: \{'t'\} found. Give the name of one column"),
        ({"time": "time"}, "time: there is no column 'time'.*Choose from 't', 'abp', 'ecg'"),
        ({"targets": ["apb"]}, "targets: there is no column 'apb'. Did you mean 'abp'[?]"),
        ({"covariates": ["room"]}, "covariates: there is no column 'room'"),
        ({"targets": []}, "targets: none given"),
        ({"targets": ["abp", "t"]}, "column 't': named 2 times"),
        ({"targets": ["abp", "abp"]}, "column 'abp': named 2 times"),
        ({"targets": ["abp"], "covariates": ["abp"]}, "column 'abp': named 2 times"),
    ],
)
def test_names_must_exist_and_be_one_thing(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"time": "t", "targets": None, "covariates": None} | options
    with pytest.raises(InputError, match=message):
        Roles.choose(vitals(), **given)


def test_many_columns_are_not_all_listed() -> None:
    frame = pd.DataFrame(np.zeros((3, 40)), columns=[f"c{i}" for i in range(40)])
    with pytest.raises(InputError, match="'c19' and 20 more"):
        Roles.choose(frame, None, ["x"], None)


@pytest.mark.parametrize("suffix", ["_std", "_low", "_high"])
def test_names_of_results_must_be_free(suffix: str) -> None:
    frame = vitals(**{f"abp{suffix}": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(InputError, match=f"column 'abp{suffix}': results for target 'abp'"):
        Roles.choose(frame, "t", None, None)
    assert Roles.choose(frame, "t", ["abp"], None).targets == ["abp"]


@pytest.mark.parametrize("when", [STAMPS, STAMPS.astype(str), STAMPS.strftime("%d.%m.%Y %H:%M")])
def test_row_numbers_are_not_taken_for_time_where_there_are_timestamps(when: Any) -> None:
    assert Roles.choose(vitals(when=when), None, None, None).time == "when"


def test_numbers_among_which_there_are_words_are_not_passed_over() -> None:
    with pytest.raises(InputError, match="column 'spo2': 'error' at row 2 is no number"):
        Roles.choose(vitals(spo2=["97", "98", "error", "96"]), "t", None, None)
    with pytest.raises(InputError, match=r"no column of numbers is left.*'t', 'abp', 'ecg'"):
        Roles.choose(vitals(), "t", None, ["abp", "ecg"])


def test_covariates_must_be_complete_and_targets_need_not() -> None:
    frame, roles = vitals(room=[1.0, 2.0, np.nan, np.nan]), Roles("t", ["abp"], ["room"])
    with pytest.raises(
        InputError, match=r"column 'room'.* 2 of 4 values are missing .first: time 1.0"
    ):
        roles.values(frame, pd.Index(frame["t"]), KnownInputs())
    values = Roles("t", ["abp"], ["ecg"]).values(frame, pd.Index(frame["t"]), KnownInputs())
    assert list(values.columns) == ["abp", "ecg"]
    assert (values.dtypes == np.float64).all()
    assert values.index.equals(pd.Index(frame["t"]))


def test_numbers_with_a_decimal_comma_are_not_left_out_in_silence() -> None:
    frame = vitals(level=["1,5", "2,5", "3,5", "4,5"], site=["a, b", "c", "d", "e"])
    with pytest.warns(UserWarning, match="column 'level': left out.*'1,5'.*decimal comma") as told:
        assert Roles.choose(frame, "t", None, None).targets == ["abp", "ecg"]
    assert len(told) == 1


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
        (np.zeros((3, 2)), "frame: a ndarray found. Give a frame of pandas"),
        (pd.DataFrame({"a": []}), r"shape \(0, 1\)"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), "several columns are named 'a'"),
        (pd.DataFrame({("a", "b"): [1.0]}), r"\('a', 'b'\) is no name of a column"),
        (pd.DataFrame([[1.0]], columns=[True]), "True is no name of a column"),
    ],
)
def test_only_frames_with_plain_names_are_taken(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_frame(data, "frame")


def test_a_series_is_a_frame_of_one_column() -> None:
    assert list(as_frame(pd.Series([1.0], name="abp"), "frame").columns) == ["abp"]
    assert list(as_frame(pd.Series([1.0]), "frame").columns) == ["y"]


PREDICTED = pd.DataFrame({"a": [11.5], "a_std": 2.0, "a_low": 7.0, "a_high": 20.0}, index=[5])
GAPS = np.array([[False], [True], [False]])


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("object", "object"),
        ("Float64", "Float64"),
        ("Int64", "Float64"),
        ("double[pyarrow]", "double[pyarrow]"),
    ],
)
def test_only_gaps_change_and_types_stay(dtype: str, result: str) -> None:
    frame = pd.DataFrame(
        {"label": ["x", "y", "z"], "a": pd.Series([0.0, None, 3.0], dtype=dtype), "n": [1, 2, 3]}
    ).set_axis([7, 5, 6])
    before = frame.copy()
    filled = fill_gaps(frame, GAPS, PREDICTED, ["a"], intervals=False)
    assert filled["a"].dtype == result
    assert filled["a"].tolist() == [0.0, 11.5, 3.0]
    pd.testing.assert_frame_equal(filled.drop(columns="a"), frame.drop(columns="a"))
    assert list(filled.columns) == list(frame.columns)
    pd.testing.assert_frame_equal(frame, before)


def test_negative_zeros_and_last_bits_survive() -> None:
    values = np.array([-0.0, np.nan, 0.1 + 0.2])
    filled = fill_gaps(pd.DataFrame({"a": values}), GAPS, PREDICTED, ["a"], intervals=False)
    assert filled["a"].to_numpy()[[0, 2]].tobytes() == values[[0, 2]].tobytes()


def test_intervals_are_given_where_a_gap_was() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0]})
    filled = fill_gaps(frame, GAPS, PREDICTED, ["a"], intervals=True)
    assert list(filled.columns) == ["a", "a_std", "a_low", "a_high"]
    np.testing.assert_array_equal(filled["a_low"], [np.nan, 7.0, np.nan])
    with pytest.raises(InputError, match="column 'a_std': the frame has one already"):
        fill_gaps(frame.assign(a_std=1.0), GAPS, PREDICTED, ["a"], intervals=True)


def test_each_target_gets_its_own_rows() -> None:
    frame = pd.DataFrame({"a": [np.nan, np.nan, 3.0], "b": [1.0, np.nan, np.nan]})
    predicted = pd.DataFrame({"a": [10.0, 11.0, 12.0], "b": [20.0, 21.0, 22.0]})
    filled = fill_gaps(frame, frame.isna().to_numpy(), predicted, ["a", "b"], intervals=False)
    assert filled["a"].tolist() == [10.0, 11.0, 3.0]
    assert filled["b"].tolist() == [1.0, 21.0, 22.0]
