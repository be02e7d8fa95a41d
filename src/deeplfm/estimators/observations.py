"""A user's frame as a series: all values numbers, in order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray
from pandas.api.types import (
    infer_dtype,
    is_complex_dtype,
    is_integer_dtype,
    is_numeric_dtype,
)

from deeplfm.errors import ConfigError, InputError
from deeplfm.estimators.stamps import LARGEST

Name = str | int

NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")
FEWEST_KNOWN = 3
_MOST_LISTED = 20


def as_frame(data: Any, where: str) -> pd.DataFrame:
    """A frame whose columns have one plain name each; a series is a frame of one column."""
    if isinstance(data, pd.Series):
        data = data.to_frame("y" if data.name is None else data.name)
    if not isinstance(data, pd.DataFrame):
        raise InputError(
            f"{where}: a {type(data).__name__} found. Give a pandas DataFrame with a column for each "
            "target, or arrays to DeepLFMRegressor."
        )
    if data.empty:
        raise InputError(f"{where}: a frame of shape {data.shape} found. Give rows and columns.")
    odd = [name for name in data.columns if not isinstance(name, str | int | np.integer)]
    if odd:
        raise InputError(
            f"{where}: {odd[0]!r} is no name of a column. Name columns by texts: "
            "frame.columns = ['abp', ...]."
        )
    twice = [name for name, count in Counter(data.columns).items() if count > 1]
    if twice:
        raise InputError(f"{where}: several columns are named {twice[0]!r}. Rename or drop them.")
    return data


def in_order(values: pd.DataFrame, frame: pd.DataFrame, duplicates: str) -> pd.DataFrame:
    """Rows in the order of their times, of which each comes once.

    Args:
        values: rows by their times.
        frame: the same rows as the user gave them, to say what is wrong with them.
        duplicates: "refuse" rows of one time, or take their "mean".
    """
    if duplicates not in ("refuse", "mean"):
        raise ConfigError(f"duplicates: {duplicates!r} found. Choose 'refuse' or 'mean'.")
    is_twice = values.index.duplicated(keep=False)
    if not is_twice.any():
        return values.sort_index(kind="stable")
    if duplicates == "mean":
        return values.groupby(level=0).mean()
    name = _telling_apart(values.index, frame)
    if name is not None:
        raise InputError(
            f"column {name!r}: the frame holds several series, told apart by this column, in rows of "
            "the same time. Give each series its own column: frame.pivot(index=time, "
            f"columns={name!r}, values=target); or fit one model for each group of "
            f"frame.groupby({name!r}). If it holds clocks, join it to the dates."
        )
    stamp = values.index[is_twice][0]
    rows = np.flatnonzero(values.index == stamp)
    raise InputError(
        f"time {stamp}: found in {len(rows)} rows ({listing(rows.tolist())}); {is_twice.sum()} of "
        f"{len(values)} rows share their time with another. Remove all but one, or average them "
        "with duplicates='mean'."
    )


def check_enough(training: pd.DataFrame, targets: Iterable[Name]) -> None:
    """Each target needs values to learn from."""
    for name in targets:
        known = int(training[name].notna().sum())
        if known < FEWEST_KNOWN:
            raise InputError(
                f"column {name!r}: {known} of {len(training)} values are known; at least "
                f"{FEWEST_KNOWN} are needed. Leave the column out, or give more data."
            )


def check_complete(values: pd.Series, name: Name, how: str = "") -> None:
    """A covariate must be known at all times; ``how`` says by which argument it is given."""
    missing = values.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"column {name!r}: a covariate must be known at all times, and {missing.sum()} of "
            f"{len(values)} values are missing (first: time {values.index[missing.argmax()]}). "
            f"Give all of them{how}, or fit without this covariate."
        )


def numbers_of(column: pd.Series, where: str) -> Float64[ndarray, " N"]:
    """A column as floats, NaN where it is empty; text and wild numbers are refused by row."""
    kind = infer_dtype(column, skipna=True)
    is_numeric = is_numeric_dtype(column.dtype) or kind in NUMBERS
    if is_complex_dtype(column.dtype) or not is_numeric:
        numbers = pd.to_numeric(column.astype(object), errors="coerce")
        bad = (numbers.isna() & column.notna()).to_numpy()
        row = int(bad.argmax() if bad.any() else column.notna().to_numpy().argmax())
        raise InputError(
            f"{where}: {column.iloc[row]!r} at row {row} is no number. Leave such fields empty to "
            "mark them as missing, and convert the rest with pd.to_numeric."
        )
    plain = column.astype(object) if kind == "decimal" else column
    values = pd.to_numeric(plain).to_numpy(dtype=np.float64, na_value=np.nan)
    for bad, what in (
        (np.isinf(values), "infinite"),
        (np.abs(values) > LARGEST, f"larger than {LARGEST:g}"),
    ):
        if bad.any():
            raise InputError(
                f"{where}: {bad.sum()} of {len(values)} values are {what} "
                f"(first: row {bad.argmax()}). Remove them, or leave them empty to mark them as "
                "missing."
            )
    return values


def listing(items: Sequence[Any]) -> str:
    """The first of many things, and how many more there are."""
    more = f" and {len(items) - _MOST_LISTED} more" if len(items) > _MOST_LISTED else ""
    return ", ".join(str(item) for item in items[:_MOST_LISTED]) + more


def _telling_apart(stamps: pd.Index, frame: pd.DataFrame) -> Name | None:
    """A column of labels that tells rows of the same time apart, as in a stack of several series."""
    most_at_once = stamps.value_counts().max()
    for name in frame.columns:
        column = frame[name]
        n_labels = column.nunique()
        is_number = is_integer_dtype(column.dtype) and n_labels == most_at_once
        is_label = isinstance(column.dtype, pd.CategoricalDtype) or infer_dtype(column) == "string"
        if not (is_label or is_number) or n_labels == len(column):
            continue
        pairs = pd.DataFrame({"time": stamps, "label": column.to_numpy()})
        if not pairs.duplicated().any():
            return name
    return None
