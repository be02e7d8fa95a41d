"""What the columns of a frame are is found, or refused by name."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators.roles import Roles

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
        ({"time": ["t"]}, r"time: \['t'\] found. Give the name of one column"),
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
    with pytest.raises(InputError, match=r"column 'when' holds timestamps\. Give time='when'"):
        Roles.choose(vitals(when=when), None, None, None)


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
        roles.values(frame, pd.Index(frame["t"]))
    values = Roles("t", ["abp"], ["ecg"]).values(frame, pd.Index(frame["t"]))
    assert list(values.columns) == ["abp", "ecg"]
    assert (values.dtypes == np.float64).all()
    assert values.index.equals(pd.Index(frame["t"]))


def test_numbers_with_a_decimal_comma_are_not_left_out_in_silence() -> None:
    frame = vitals(level=["1,5", "2,5", "3,5", "4,5"], site=["a, b", "c", "d", "e"])
    with pytest.warns(UserWarning, match="column 'level': left out.*'1,5'.*decimal comma") as told:
        assert Roles.choose(frame, "t", None, None).targets == ["abp", "ecg"]
    assert len(told) == 1
