"""Columns of a frame that hold the measurement errors of its targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deeplfm.errors import InputError
from deeplfm.estimators.columns import Name, numbers_of


def error_columns(frame: pd.DataFrame, given: Any) -> list[Name] | dict[Name, Name]:
    """The columns that a user named: one for all targets, one for each, or a dict by target."""
    named = dict(given) if isinstance(given, Mapping) else None
    columns = [*named.values()] if named else [given] if isinstance(given, Name) else [*given]
    absent = [name for name in columns if name not in frame.columns]
    if absent or not columns:
        raise InputError(
            f"measurement_error: {given!r} found. Give the name of a column of standard deviations, one "
            f"for each target, or a dict by target; columns are {', '.join(map(repr, frame.columns))}."
        )
    return named or columns


def without_errors(frame: pd.DataFrame, columns: list[Name] | dict[Name, Name]) -> pd.DataFrame:
    """The frame without these columns, which are no targets."""
    named = columns.values() if isinstance(columns, dict) else columns
    return frame.drop(columns=[*set(named)])


def by_target(columns: list[Name] | dict[Name, Name], targets: Sequence[Name]) -> dict[Name, Name]:
    """The column of each target that has one."""
    if isinstance(columns, dict):
        unknown = [name for name in columns if name not in targets]
        if unknown:
            raise InputError(
                f"measurement_error: {unknown[0]!r} is no target. Targets are "
                f"{', '.join(map(repr, targets))}."
            )
        return columns
    if len(columns) not in (0, 1, len(targets)):
        raise InputError(
            f"measurement_error: {len(columns)} columns for {len(targets)} targets found. Give one "
            "column for all, one for each, or a dict by target."
        )
    if len(columns) == 1:
        columns = columns * len(targets)
    return dict(zip(targets, columns, strict=False))


def errors_of(
    frame: pd.DataFrame,
    stamps: pd.Index,
    rows: pd.Index,
    targets: Sequence[Name],
    columns: Mapping[Name, Name],
) -> NDArray[np.float64] | None:
    """Standard deviations of the measurement error of each target, by row."""
    if not columns or not set(columns.values()) <= set(frame.columns):
        return None
    if stamps.has_duplicates:
        raise InputError(
            "measurement_error: several rows of one time found. Average them and their errors before: "
            "the mean of n values with errors e has the error sqrt(sum(e**2)) / n."
        )
    values = {name: numbers_of(frame[name], f"column {name!r}") for name in columns.values()}
    known = pd.DataFrame(values, index=stamps).reindex(rows)
    nothing = np.zeros(len(rows))
    return np.column_stack(
        [known[columns[name]].to_numpy() if name in columns else nothing for name in targets]
    )
