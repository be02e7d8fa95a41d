"""Which column of a user's frame is what: time, targets and covariates."""

from __future__ import annotations

import difflib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype

from deeplfm.errors import InputError
from deeplfm.estimators.observations import NUMBERS, Name, check_complete, listing, numbers_of
from deeplfm.estimators.stamps import holds_timestamps

SUFFIXES = ("_std", "_low", "_high")  # of the columns that a prediction adds to that of its mean


@dataclass(frozen=True)
class Roles:
    """What the columns of a frame are.

    Attributes:
        time: name of the column of times; ``None`` for an index without a name.
        targets: names of the columns to be predicted.
        covariates: names of the columns that are known at all times.
    """

    time: Name | None
    targets: list[Name]
    covariates: list[Name]

    @classmethod
    def choose(cls, frame: pd.DataFrame, time: Any, targets: Any, covariates: Any) -> Roles:
        """The columns that a user named, and where none were, the index and all columns of numbers."""
        if time is not None and not isinstance(time, str | int | np.integer):
            raise InputError(f"time: {time!r} found. Give the name of one column.")
        if time is None:
            _check_index(frame)
            clock = _plain(frame.index.name)
        elif time == frame.index.name and time not in frame.columns:
            clock = _plain(time)
        else:
            (clock,) = _existing(frame, [time], "time")
        known = _existing(frame, _listed(covariates), "covariates")
        taken = {*known, time}
        if targets is None:
            wanted = _numeric_columns(frame, taken)
        else:
            wanted = _existing(frame, _listed(targets), "targets")
        roles = cls(clock, wanted, known)
        _check_roles(roles, time)
        return roles

    def times(self, frame: pd.DataFrame) -> tuple[pd.Series | pd.Index, str]:
        """The times of a frame, and what to call them: the named column, or else the index.

        An index without a name that does more than count the rows is taken for the times as well.
        """
        if self.time is None:
            return frame.index, "the index"
        if self.time in frame.columns:
            return frame[self.time], f"column {self.time!r}"
        is_count = isinstance(frame.index, pd.RangeIndex)
        name = _plain(frame.index.name)
        if name == self.time:
            return frame.index, f"times {name!r}"
        if name is None and not is_count:
            return frame.index, "the index"
        raise InputError(_absent(frame, self.time, "time"))

    def values(
        self, frame: pd.DataFrame, stamps: pd.Index, with_targets: bool = True
    ) -> pd.DataFrame:
        """Targets and covariates as floats, by the times of their rows.

        Args:
            frame: what the user gave.
            stamps: times of its rows.
            with_targets: whether targets are there.
        """
        targets = self.targets if with_targets else []
        names = _existing(frame, [*targets, *self.covariates], "frame")
        values = {name: numbers_of(frame[name], f"column {name!r}") for name in names}
        for name in self.covariates:
            check_complete(pd.Series(values[name], stamps), name)
        return pd.DataFrame(values, index=stamps, columns=names)


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


def _check_index(frame: pd.DataFrame) -> None:
    """A frame that counts its rows and has a column of timestamps forgot to say which."""
    if not isinstance(frame.index, pd.RangeIndex):
        return
    for name in frame.columns:
        if holds_timestamps(frame[name]):
            raise InputError(
                f"time: not given, and the index only counts the rows, but column {name!r} holds "
                f"timestamps. Give time={name!r}, or drop that column to use the row numbers."
            )


def _numeric_columns(frame: pd.DataFrame, taken: set[Any]) -> list[Name]:
    """All columns of numbers; one of numbers and a few words was meant to be one of them."""
    found: list[Any] = []
    for name in frame.columns:
        column = frame[name]
        if name in taken or is_bool_dtype(column.dtype):
            continue
        is_numeric = is_numeric_dtype(column.dtype)
        if infer_dtype(column, skipna=True) in ("string", "mixed", "mixed-integer", *NUMBERS):
            numbers = pd.to_numeric(column.astype(object), errors="coerce")
            is_numeric |= 2 * numbers.notna().sum() > column.notna().sum()
        if is_numeric:
            numbers_of(column, f"column {name!r}")
            found.append(name)
        elif _has_decimal_commas(column):
            warnings.warn(
                f"column {name!r}: left out, since it holds text such as {column.dropna().iloc[0]!r}. If "
                "these are numbers with a decimal comma, read the file with decimal=',', or name the "
                "targets to say that it is none of them.",
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


def _check_roles(roles: Roles, time: Any) -> None:
    """No column is two things, and no name of a result is taken."""
    if not roles.targets:
        raise InputError("targets: none given. Name at least one column.")
    named = [*roles.targets, *roles.covariates, *([] if time is None else [time])]
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
