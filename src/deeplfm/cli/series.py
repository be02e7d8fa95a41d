"""From a file on the command line to a table whose columns are known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deeplfm.cli.options import Columns, Reading
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_NAMES_OF_TIME = frozenset(
    ["t", "time", "date", "datetime", "timestamp", "day", "month", "year", "hour"]
)


@dataclass(frozen=True)
class Series:
    """A table with a row per time.

    Attributes:
        frame: all columns of the file; targets and covariates are numbers.
        time: name of the column of times, or of the index.
        time_columns: what the times were read from: that column, or a date and a clock.
        targets: what to model.
        covariates: what is known in advance.
        time_is_guessed: the user did not say which column is time.
        left_out: columns that were not asked for and are not numbers.
        duplicates: what to do with rows of the same time.
        zone: of times that have none.
    """

    frame: pd.DataFrame
    time: str
    time_columns: list[str]
    targets: list[str]
    covariates: list[str]
    time_is_guessed: bool
    left_out: list[str]
    duplicates: str
    zone: str | None


def read_frame(source: str, reading: Reading, fewest_columns: int = 2) -> pd.DataFrame:
    """The table in a file, as it is."""
    from deeplfm.data.tables import read_table

    return read_table(
        source,
        delimiter=reading.delimiter,
        decimal=reading.decimal,
        fewest_columns=fewest_columns,
        keep_fields=True,
    )


def read_series(source: str, reading: Reading, columns: Columns) -> Series:
    """The table in a file, and what its columns are."""
    frame = read_frame(source, reading)
    stamps = _times_beside_row_numbers(frame)
    covariates = split_names(columns.covariate, frame)
    targets = split_names(columns.target, frame)
    time_columns = _time_columns(frame, columns.time, stamps, [*targets, *covariates], source)
    time = " ".join(time_columns)
    taken = [*time_columns, *covariates, *([] if stamps is None else frame.columns[:1])]
    others = [name for name in frame.columns if name not in taken]
    left_out = [] if targets else [name for name in others if not _is_numeric(frame[name])]
    targets = targets or [name for name in others if name not in left_out]
    _check_roles(source, frame, time_columns, targets, covariates)
    frame = by_time(frame, time_columns, [*targets, *covariates], source)
    return Series(
        frame,
        time,
        time_columns,
        targets,
        covariates,
        columns.time is None,
        left_out,
        str(columns.duplicates),
        columns.zone,
    )


def _time_columns(
    frame: pd.DataFrame, asked: str | None, stamps: str | None, taken: list[str], source: str
) -> list[str]:
    """The column of times, or those of a date and a clock."""
    from deeplfm.cli.clocks import named_pair, pair_of

    if asked is None:
        time = stamps or first_if_time(frame, source)
        return list(pair_of(frame, time, taken) or [time])
    if asked in frame.columns:
        return [asked]
    halves = [half.strip() for half in asked.split(",")]
    return list(named_pair(frame, asked) or (halves if len(halves) == 2 else [asked]))


def by_time(
    frame: pd.DataFrame, times: Sequence[str | int], numbers: Sequence[str], source: str
) -> pd.DataFrame:
    """The table with some columns as numbers; where its times are in two, these are its index."""
    from deeplfm.cli.clocks import joined_times

    result = with_numbers(frame, numbers, source)
    if len(times) == 2:
        result = result.set_axis(joined_times(frame, (str(times[0]), str(times[1])), source))
    return result


def with_numbers(frame: pd.DataFrame, names: Sequence[str], source: str) -> pd.DataFrame:
    """The table with these columns as numbers, or an error that says where they are none."""
    from deeplfm.data.numbers import with_columns
    from deeplfm.data.tables import numeric_column

    return with_columns(frame, {name: numeric_column(frame, name, source) for name in names})


def split_names(given: Sequence[str] | None, frame: pd.DataFrame) -> list[str]:
    """Names that were repeated, separated by commas, or both; without repetitions."""
    known = set(frame.columns)
    names = (
        name.strip()
        for item in given or []
        for name in ([item] if item in known else item.split(","))
    )
    return list(dict.fromkeys(name for name in names if name))


def _is_numeric(column: pd.Series) -> bool:
    """Whether a column was meant to hold numbers: most of what it holds are."""
    import pandas as pd

    if column.dtype.kind in "bmM":  # true and false, durations, timestamps
        return False
    numbers = pd.to_numeric(column, errors="coerce")
    return column.isna().all() or 2 * numbers.notna().sum() > column.notna().sum()


def _check_roles(
    source: str,
    frame: pd.DataFrame,
    times: list[str],
    targets: list[str],
    covariates: list[str],
) -> None:
    for option, names in (("--time", times), ("--target", targets), ("--covariate", covariates)):
        for name in names:
            if name not in frame.columns:
                raise InputError(
                    f"{option}: {source} has no column {name!r}. {_choices(frame, name)}"
                )
    for option, names in (("--target", targets), ("--covariate", covariates)):
        for time in times:
            if time in names:
                raise InputError(f"{option}: {time!r} is a column of times. Name another one.")
    both = [name for name in targets if name in covariates]
    if both:
        raise InputError(
            f"--covariate: {both[0]!r} is a target too. Name it either --target or --covariate."
        )
    if not targets:
        raise InputError(
            f"{source}: no column of numbers beside the times {' '.join(times)!r}. "
            "Give at least one target."
        )


def _choices(frame: pd.DataFrame, name: str) -> str:
    import difflib

    names = [str(column) for column in frame.columns]
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(names)}."


def _times_beside_row_numbers(frame: pd.DataFrame) -> str | None:
    """The column of timestamps, where the first has no name and only counts the rows."""
    import numpy as np

    from deeplfm.data.text import NAMELESS
    from deeplfm.estimators.stamps import holds_timestamps

    first, *others = frame.columns
    numbers = frame[first].to_numpy()
    if first != NAMELESS.format(1) or numbers.dtype.kind not in "if":
        return None
    if not bool((np.diff(numbers) == 1).all()):
        return None
    return next((name for name in others if holds_timestamps(frame[name])), None)


def first_if_time(frame: pd.DataFrame, source: str) -> str:
    """The first column, if a person would take it for time as well."""
    import numpy as np
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    from deeplfm.estimators.stamps import read_stamps

    name = str(frame.columns[0])
    column = frame.iloc[:, 0].dropna()
    if _NAMES_OF_TIME.intersection(re.split(r"[^a-z]+", name.lower())):
        return name
    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        is_time = len(column) > 1 and bool((np.diff(column.to_numpy()) > 0).all())
        reason = "its numbers do not always increase"
    else:
        try:
            read_stamps(column, name)
            is_time = True
        except InputError:
            is_time, reason = False, f"it holds {str(column.iloc[0])!r}" if len(column) else "empty"
    if not is_time:
        raise InputError(
            f"{source}: the first column {name!r} does not look like time ({reason}). Name the "
            f"column of times with --time; there are {', '.join(map(str, frame.columns))}."
        )
    return name
