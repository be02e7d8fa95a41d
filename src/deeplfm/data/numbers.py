"""Columns of a table as numbers, and errors that name the place of any other value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64
from numpy import ndarray

from deeplfm.errors import InputError

# Marks of missing values, in addition to those that pandas knows.
MISSING = frozenset(
    "- -- . ? NA na N/A n/a <NA> NaN nan NAN Nan -nan NaT NULL Null null None none NONE "
    "#N/A #NA #NULL! #DIV/0!".split()
) | {""}
FORMULA = tuple("=+-@\t\r")  # a spreadsheet takes a field that begins so for a formula
FIRST_LINE = "first_line"  # in the attributes of a frame: the line of the file its first row is in

_LARGEST = 1e150  # the square of a larger number may overflow
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_SEPARATED = re.compile(r"[+-]?\d*[.,' \u00a0\u202f][\d.,' \u00a0\u202f]*\d")  # as in 1,234.5
_NAMES_SHOWN = 20


def source_name(source: str | Path) -> str:
    """How messages call a source."""
    return "standard input" if str(source) == "-" else str(source)


def numeric_column(frame: pd.DataFrame, name: str, source: str | Path) -> Float64[ndarray, " N"]:
    """A column as numbers, NaN where they are missing.

    Args:
        frame: the table.
        name: of the column.
        source: the file it was read from, for messages.

    >>> numeric_column(pd.DataFrame({"abp": [80.5, None]}), "abp", "vitals.csv")
    array([80.5,  nan])
    """
    label = source_name(source)
    n_found = list(frame.columns).count(name)
    if n_found != 1:
        names = [str(column) for column in frame.columns]
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        raise InputError(
            f"{label}: {n_found or 'no'} columns are named {name!r}. Choose from {shown}."
        )
    column = frame[name]
    values, is_text = _numbers(column)
    for is_bad, what in (
        (is_text, "not numbers"),
        (np.isinf(values), "infinite"),
        (np.abs(values) > _LARGEST, f"beyond ±{_LARGEST:g}"),
    ):
        if is_bad.any():
            first = int(is_bad.argmax())
            found = column.iloc[first]
            raise InputError(
                f"column {name!r} of {label}: {is_bad.sum()} of {len(column)} values are {what} "
                f"(first: {str(found)!r} in {place_of(frame, first)}). {_advice(found)}"
            )
    return values


def check_names(names: Iterable[str], source: str) -> None:
    """Refuse names that several columns share."""
    twins = [name for name, count in Counter(names).items() if count > 1]
    if twins:
        raise InputError(
            f"{source}: several columns are named {', '.join(map(repr, twins))}. "
            "Give each a name of its own."
        )


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point, and nothing else."""
    return _NUMBER.fullmatch(text) is not None


def with_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with every column of numbers in float64; columns of true and false stay."""
    numbers = {
        name: column.to_numpy(np.float64, na_value=np.nan)
        for name, column in frame.items()
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    }
    return with_columns(frame, numbers)


def with_columns(frame: pd.DataFrame, columns: Mapping[Any, Any]) -> pd.DataFrame:
    """The table with some columns replaced, whatever they are called."""
    result = frame.copy()
    for name, values in columns.items():
        result[name] = values
    return result


def _numbers(column: pd.Series) -> tuple[Float64[ndarray, " N"], Bool[ndarray, " N"]]:
    """Values of a column, and which of them are anything but numbers."""
    is_numeric = pd.api.types.is_numeric_dtype(column)
    if is_numeric and not pd.api.types.is_complex_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan), np.zeros(len(column), bool)
    values, is_text = np.full(len(column), np.nan), column.notna().to_numpy(copy=True)
    for row in np.flatnonzero(is_text):
        number = _number(column.iloc[row])
        if number is not None:
            values[row], is_text[row] = number, False
    return values, is_text


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        if text in MISSING:
            return np.nan
        return float(text) if is_number(text) else None
    if isinstance(value, bool | int | float | Decimal | np.bool_ | np.integer | np.floating):
        return float(value)
    return None


def place_of(frame: pd.DataFrame, position: int) -> str:
    """Where a user finds a row: its line in the file, or its label in the frame."""
    label = frame.index[position]
    if FIRST_LINE in frame.attrs and isinstance(label, int | np.integer):
        return f"line {label + frame.attrs[FIRST_LINE]}"
    return f"row {label}"


def _advice(value: Any) -> str:
    if isinstance(value, str) and _SEPARATED.fullmatch(value.strip()):
        return "Remove separators of thousands; if the comma marks decimals, give --decimal ','."
    return "Correct them, or leave them empty to mark them as missing."
