"""Gaps of a frame filled with predictions; what was there stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.estimators.observations import Name
from deeplfm.estimators.roles import SUFFIXES


def fill_gaps(
    frame: pd.DataFrame,
    gaps: Bool[ndarray, "N D"],
    predicted: pd.DataFrame,
    targets: Sequence[Name],
    intervals: bool,
) -> pd.DataFrame:
    """A frame in which the gaps of the targets have their predictions.

    Args:
        frame: what the user gave.
        gaps: where a target is missing.
        predicted: predictions of the rows that have a gap, and of no others.
        targets: names of the columns to fill.
        intervals: also add the columns of each prediction's spread, empty where nothing was filled.
    """
    result = frame.copy()
    has_gap = gaps.any(axis=1)
    for is_gap, name in zip(gaps.T, targets, strict=True):
        answers = predicted[is_gap[has_gap]]
        if is_gap.any():
            result[name] = _filled(frame[name], is_gap, answers[name].to_numpy())
        for suffix in SUFFIXES if intervals else ():
            column = f"{name}{suffix}"
            if column in frame.columns:
                raise InputError(
                    f"column {column!r}: the frame has one already, and intervals need the name. "
                    "Rename it, or leave the intervals out."
                )
            spread = np.full(len(frame), np.nan)
            spread[is_gap] = answers[column].to_numpy()
            result[column] = spread
    return result


def _filled(column: pd.Series, is_gap: Bool[ndarray, " N"], values: ndarray) -> pd.Series:
    """The column in its own type, or one that has room for fractions."""
    if isinstance(column.dtype, np.dtype):
        filled = column.to_numpy(copy=True)  # floats, or objects: no other type has gaps
        filled[is_gap] = values
        return pd.Series(filled, index=column.index, dtype=column.dtype)
    kind = "Float64" if pd.api.types.is_integer_dtype(column.dtype) else column.dtype
    filled = column.astype(kind)
    filled.iloc[np.flatnonzero(is_gap)] = values
    return filled
