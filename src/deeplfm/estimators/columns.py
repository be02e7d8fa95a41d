"""The columns of a user's frame: which are time, targets and covariates, and their values as numbers."""

from __future__ import annotations

import difflib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype

from deeplfm.errors import InputError
from deeplfm.estimators.known_inputs import KnownInputs, Name, mostly_numbers
from deeplfm.estimators.predictions import SUFFIXES
from deeplfm.estimators.stamps import LARGEST, holds_timestamps, read_stamps
from deeplfm.estimators.year_columns import find_clock, find_year_columns, join_year_columns

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")
_MOST_LISTED = 20
_DATES = ("date", "datetime", "time", "timestamp")  # texts here are times
_DS = "ds"  # the column of times by the convention of Prophet and Nixtla


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of a frame."""

    time: Name | None  # None for an index without a name
    targets: list[Name]
    covariates: list[Name]
    time_columns: tuple[Name, ...] = ()  # those of a year and its parts

    @classmethod
    def choose(cls, frame: pd.DataFrame, time: Any, targets: Any, covariates: Any) -> Roles:
        """The columns that a user named.

        By default the time is the index. If that only counts the rows, the time is the column "ds", the
        only column of timestamps, a year and its parts, or a column "time" or "year" that does not
        repeat. Targets are all columns of numbers.
        """
        time = _default_time(frame) if time is None else time
        if isinstance(time, list | tuple) and len(time) == 1:
            (time,) = time
        several = _existing(frame, time, "time") if isinstance(time, list | tuple) else []
        if not isinstance(time, str | int | np.integer | list | tuple | None):
            raise InputError(f"time: {time!r} found. Give the name of one column.")
        if several:
            clock: Any = " ".join(map(str, several))
        elif time is None or (time == frame.index.name and time not in frame.columns):
            clock = _plain(frame.index.name)
        else:
            (clock,) = _existing(frame, [time], "time")
        known = _existing(frame, _listed(covariates), "covariates")
        taken = {*known, *several, *([] if several else [time])}
        if targets is None:
            wanted = _numeric_columns(frame, taken)
        else:
            wanted = _existing(frame, _listed(targets), "targets")
        roles = cls(clock, wanted, known, tuple(several))
        _check_roles(roles, list(several) if several else [] if time is None else [time])
        return roles

    def times(self, frame: pd.DataFrame) -> tuple[pd.Series | pd.Index, str]:
        """The times of a frame and their name for messages: the named column, or else the index.

        An index without a name is taken too, unless it only counts the rows.
        """
        if self.time is None:
            return frame.index, "the index"
        if self.time_columns and set(self.time_columns) <= set(frame.columns):
            return join_year_columns(frame, self.time_columns), f"columns {self.time!r}"
        if self.time in frame.columns:
            return frame[self.time], f"column {self.time!r}"
        name = _plain(frame.index.name)
        if name == self.time:
            return frame.index, f"times {name!r}"
        if name is None and not isinstance(frame.index, pd.RangeIndex):
            return frame.index, "the index"
        raise InputError(_absent(frame, self.time, "time"))

    def values(
        self,
        frame: pd.DataFrame,
        stamps: pd.Index,
        known: KnownInputs,
        missing_values: Sequence[float] = (),
        with_targets: bool = True,
    ) -> pd.DataFrame:
        """Targets, if there are any, and covariates as floats, by the times of their rows."""
        names = _existing(frame, [*self.targets * with_targets, *self.covariates], "frame")
        values = {}
        for name in names:
            if name in known.levels:
                values[name] = known.codes(frame[name], name)
                continue
            values[name] = numbers_of(frame[name], f"column {name!r}")
            if name in self.targets and len(missing_values):
                is_missing = np.isin(values[name], missing_values)
                values[name] = np.where(is_missing, np.nan, values[name])
        for name in self.covariates:
            check_complete(pd.Series(values[name], stamps), name)
        return pd.DataFrame(values, index=stamps, columns=names)


def as_frame(data: Any, where: str) -> pd.DataFrame:
    """A frame whose columns have one plain name each; a series is a frame of one column."""
    if isinstance(data, pd.Series):
        data = data.to_frame("y" if data.name is None else data.name)
    if not isinstance(data, pd.DataFrame) and hasattr(data, "__arrow_c_stream__"):
        data = _converted(data, where)
    if not isinstance(data, pd.DataFrame):
        raise InputError(
            f"{where}: a {type(data).__name__} found. Give a frame of pandas, polars or Arrow with a "
            "column for each target (collect lazy ones), or arrays to DeepLFMRegressor."
        )
    if data.empty:
        raise InputError(f"{where}: a frame of shape {data.shape} found. Give rows and columns.")
    odd = [
        name
        for name in data.columns
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool)
    ]
    if odd:
        raise InputError(
            f"{where}: {odd[0]!r} is no name of a column. Name columns by texts: "
            "frame.columns = ['abp', ...]."
        )
    twice = [name for name, count in Counter(data.columns).items() if count > 1]
    if twice:
        raise InputError(f"{where}: several columns are named {twice[0]!r}. Rename or drop them.")
    return data


def _converted(data: Any, where: str) -> pd.DataFrame:
    """A frame of polars, Arrow or another library that exports Arrow tables."""
    try:
        from pyarrow import table
    except ImportError as error:
        raise InputError(
            f"{where}: a {type(data).__name__} is converted with {error.name}, which is not installed. "
            "Install it with pip install 'deeplfm[parquet]', or give a pandas DataFrame."
        ) from error
    return table(data).to_pandas()


def check_complete(values: pd.Series, name: Name, how: str = "") -> None:
    """Refuse a covariate with missing values; ``how`` names the argument that gives them."""
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
    is_numeric = is_numeric_dtype(column.dtype) or kind in _NUMBERS
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
    """The first items of a list in words, and how many more there are."""
    more = f" and {len(items) - _MOST_LISTED} more" if len(items) > _MOST_LISTED else ""
    return ", ".join(str(item) for item in items[:_MOST_LISTED]) + more


def _listed(names: Any) -> list[Any]:
    if names is None:
        return []
    return [names] if isinstance(names, str | int | np.integer) else list(names)


def _existing(frame: pd.DataFrame, names: Sequence[Any], where: str) -> list[Name]:
    for name in names:
        if name not in frame.columns:
            raise InputError(_absent(frame, name, where))
    return [_plain(name) for name in names]


def _plain(name: Any) -> Any:
    """A name that can be written as JSON."""
    if isinstance(name, np.integer):
        return int(name)
    return name if name is None or isinstance(name, str | int) else str(name)


def _absent(frame: pd.DataFrame, name: Any, where: str) -> str:
    texts = [str(column) for column in frame.columns]
    close = difflib.get_close_matches(str(name), texts, n=1)
    return (
        f"{where}: there is no column {name!r}. "
        + (f"Did you mean {close[0]!r}? " if close else "")
        + f"Choose from {listing([repr(column) for column in frame.columns])}."
    )


def _default_time(frame: pd.DataFrame) -> Any:
    """The column, or columns, of times if the index just counts the rows; ``None`` for the index."""
    if frame.index.name is not None or frame.index.dtype.kind not in "iu":
        return None
    if _DS in frame.columns:
        return _DS
    found = [name for name in frame.columns if holds_timestamps(frame[name])]
    if len(found) > 1:
        raise InputError(
            f"time: not given, and columns {listing([repr(name) for name in found])} hold timestamps. "
            f"Give one of them, such as time={found[0]!r}, or drop them to use the row numbers."
        )
    time = found[0] if found else find_year_columns(frame) or find_clock(frame)
    for name in frame.columns if time is None else []:
        if str(name).lower() in _DATES and infer_dtype(frame[name], skipna=True) == "string":
            read_stamps(frame[name], f"column {name!r}")  # an error that names the first bad row
    return time


def _numeric_columns(frame: pd.DataFrame, taken: set[Any]) -> list[Name]:
    """All columns of numbers; one that holds mostly numbers is refused if the rest is text."""
    found: list[Any] = []
    for name in frame.columns:
        column = frame[name]
        if name in taken or is_bool_dtype(column.dtype):
            continue
        is_numeric = is_numeric_dtype(column.dtype)
        if infer_dtype(column, skipna=True) in ("string", "mixed", "mixed-integer", *_NUMBERS):
            is_numeric |= mostly_numbers(column)
        if is_numeric:
            numbers_of(column, f"column {name!r}")
            found.append(name)
        elif _has_decimal_commas(column):
            warnings.warn(
                f"column {name!r}: left out, since it holds text such as {column.dropna().iloc[0]!r}. If "
                "these are numbers with a decimal comma, read the file with decimal=',', or name the "
                "targets to leave it out.",
                stacklevel=4,
            )
    if not found:
        raise InputError(
            "targets: no column of numbers is left. Name the columns to predict; there are "
            f"{listing([repr(column) for column in frame.columns])}."
        )
    return _existing(frame, found, "targets")


def _has_decimal_commas(column: pd.Series) -> bool:
    """Whether the first text of a column would be a number with a point in place of its comma."""
    first = column.dropna().head(1)
    if infer_dtype(first) != "string" or not first.str.contains(",").all():
        return False
    plain = first.str.replace(",", ".", regex=False)
    return bool(pd.to_numeric(plain, errors="coerce").notna().all())


def _check_roles(roles: Roles, time: Sequence[Any]) -> None:
    """Refuse a column with two roles, and targets whose results would share a name."""
    if not roles.targets:
        raise InputError("targets: none given. Name at least one column.")
    named = [*roles.targets, *roles.covariates, *time]
    for name, count in Counter(named).items():
        if count > 1:
            raise InputError(
                f"column {name!r}: named {count} times among time, targets and covariates. "
                "Name it once."
            )
    for target in roles.targets:
        for suffix in SUFFIXES:
            if f"{target}{suffix}" in roles.targets:
                raise InputError(
                    f"column '{target}{suffix}': results for target {target!r} have a column of this "
                    "name. Rename one of the two."
                )
