"""A frame of many series in long form: which column names them, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from deeplfm.errors import InputError
from deeplfm.estimators.columns import Name, Roles

_TARGET = "y"


@dataclass(frozen=True)
class PanelColumns:
    """Roles of the columns of a panel, as each of its series is fitted with them.

    Attributes:
        series: the column that names the series.
        time: the column of times, columns of a year and its parts; ``None`` for the index.
        targets: columns to be predicted.
        covariates: columns that are known at all times.
    """

    series: str
    time: Any
    targets: list[Name]
    covariates: list[Name]

    @classmethod
    def choose(
        cls, frame: pd.DataFrame, series: str, time: Any, targets: Any, covariates: Any
    ) -> PanelColumns:
        """The roles that a user named; by default ``ds`` is the time, and ``y`` the target."""
        if series not in frame.columns:
            raise InputError(
                f"series: there is no column {series!r}. Choose from "
                f"{', '.join(map(repr, frame.columns))}."
            )
        if frame[series].isna().any():
            row = int(frame[series].isna().to_numpy().argmax())
            raise InputError(
                f"column {series!r}: the series of row {row} is not named. Name it, or drop the row."
            )
        longest = frame[series] == frame[series].value_counts().index[0]
        others = frame[longest].drop(columns=series)  # times repeat among the series, not in one
        if targets is None and _TARGET in others.columns:
            targets = [_TARGET]
        elif targets is None:
            first = Roles.choose(others.assign(y=0.0), time, [_TARGET], covariates)
            taken = {first.time, *first.time_columns, *first.covariates}
            targets = [name for name in others if name not in taken and _is_numeric(others[name])]
        roles = Roles.choose(others, time, targets, covariates)
        own = list(roles.time_columns) or (roles.time if roles.time in others.columns else None)
        return cls(series, own, roles.targets, roles.covariates)

    def split(self, frame: pd.DataFrame) -> Iterator[tuple[Name, pd.DataFrame]]:
        """Name and rows of each series, in the order of their first rows."""
        for name, rows in frame.groupby(self.series, sort=False, observed=True):
            yield plain_name(name), self._own(rows)

    def _own(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of a series, whose targets are numbers where all of them can be read as such."""
        found = rows.drop(columns=self.series)
        for name in self.targets:
            if name in found.columns and not is_numeric_dtype(found[name].dtype):
                with suppress(ValueError, TypeError):
                    found[name] = pd.to_numeric(found[name])
        is_counted = found.index.dtype.kind in "iu" and found.index.name is None
        return found.reset_index(drop=True) if is_counted else found


def plain_name(name: Any) -> Name:
    """The name of a series as text or a whole number."""
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, str | int) else str(name)


def _is_numeric(column: pd.Series) -> bool:
    """Whether most values of a column are numbers: one bad field does not take its role away."""
    if is_bool_dtype(column.dtype):
        return False
    if is_numeric_dtype(column.dtype):
        return True
    if column.dtype.kind in "mM" or isinstance(column.dtype, pd.PeriodDtype | pd.DatetimeTZDtype):
        return False
    numbers = pd.to_numeric(column.astype(object), errors="coerce")
    return bool(2 * numbers.notna().sum() > column.notna().sum())
