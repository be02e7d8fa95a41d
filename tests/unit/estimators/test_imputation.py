"""Gaps are filled, and everything else stays to the bit."""

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators.imputation import fill_gaps

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
