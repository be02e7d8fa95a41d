"""Times in several columns: a year and its quarter, month, day and hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from deeplfm.errors import InputError

_NAMES = {
    "year": ("year", "yr", "yyyy"),
    "quarter": ("quarter", "qtr", "q"),
    "month": ("month", "mon", "mm"),
    "day": ("day", "dd"),
    "hour": ("hour", "hr", "hh"),
}
_ORDERS = (("year", "month", "day", "hour"), ("year", "quarter"))
_RANGES = {"year": (1, 9999), "quarter": (1, 4), "month": (1, 12), "day": (1, 31), "hour": (0, 23)}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def find_year_columns(frame: pd.DataFrame) -> list[Any] | None:
    """The columns that hold a year and its parts; ``None`` if the frame has no such columns."""
    found = {part: name for name in frame.columns if (part := _part_of(name)) is not None}
    if "year" not in found or not frame[found["year"]].duplicated().any():
        return None
    for order in _ORDERS:
        parts = []
        for part in order:
            if part not in found:
                break
            parts.append(found[part])
        if len(parts) > 1 and not frame.duplicated(parts).any():
            return parts
    return None


def find_clock(frame: pd.DataFrame) -> Any:
    """The column of numbers named "time" or as a year, if none of them repeats or is missing."""
    for name in frame.columns:
        is_named = str(name).strip().lower() == "time" or _part_of(name) == "year"
        if is_named and is_numeric_dtype(frame[name].dtype):
            return name if frame[name].notna().all() and frame[name].is_unique else None
    return None


def are_parts_of_a_year(names: Sequence[Any]) -> bool:
    """Whether columns are named as a year and its parts, in order."""
    parts = tuple(_part_of(name) for name in names)
    return parts in [order[:n] for order in _ORDERS for n in range(2, len(order) + 1)]


def join_year_columns(frame: pd.DataFrame, names: Sequence[Any]) -> pd.Series:
    """Times such as 2004Q1, 2004-03, 2004-03-31 or 2004-03-31 12:00 of the rows of a frame.

    >>> frame = pd.DataFrame({"year": [2004, 2004], "quarter": [1, 2]})
    >>> join_year_columns(frame, ["year", "quarter"]).tolist()
    ['2004Q1', '2004Q2']
    """
    if not are_parts_of_a_year(names):
        raise InputError(
            f"time: columns {', '.join(map(repr, names))} found. Give a year and a quarter, or a year, "
            "month, day and hour, in this order and by these names."
        )
    values = {str(_part_of(name)): _whole(frame[name], str(_part_of(name))) for name in names}
    text = values["year"].astype(str).str.zfill(4)
    if "quarter" in values:
        return text + "Q" + values["quarter"].astype(str)
    for part, mark in (("month", "-"), ("day", "-"), ("hour", " ")):
        if part in values:
            text = text + mark + values[part].astype(str).str.zfill(2)
    return text + ":00" if "hour" in values else text


def split_year_columns(times: pd.DatetimeIndex, names: Sequence[Any]) -> dict[Any, Any]:
    """The columns of :func:`join_year_columns`, as whole numbers."""
    return {name: np.asarray(getattr(times, str(_part_of(name)))) for name in names}


def _part_of(name: Any) -> str | None:
    text = str(name).strip().lower()
    return next((part for part, names in _NAMES.items() if text in names), None)


def _whole(column: pd.Series, part: str) -> pd.Series:
    """The whole numbers of a column, in the range of a part of a date."""
    texts = column.astype(str).str.strip().str.lower()
    if part == "month":
        texts = (
            texts.str[:3].map({name: str(i + 1) for i, name in enumerate(_MONTHS)}).fillna(texts)
        )
    if part == "quarter":
        texts = texts.str.removeprefix("q")
    numbers = pd.to_numeric(texts, errors="coerce")
    low, high = _RANGES[part]
    bad = ~(numbers.between(low, high) & (numbers % 1 == 0)).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"column {column.name!r}: {str(column.iloc[row])!r} at row {row} is no {part}. Give whole "
            f"numbers from {low} to {high}."
        )
    return numbers.astype(np.int64)
