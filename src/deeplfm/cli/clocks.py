"""The columns of times: one, or a date and a time of day (clock), as data loggers write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy import ndarray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from deeplfm.data.numbers import place_of
from deeplfm.data.text import NAMELESS
from deeplfm.errors import InputError
from deeplfm.estimators.stamps import holds_timestamps, read_stamps
from deeplfm.estimators.year_columns import find_year_columns

_HOUR, _SECOND = r"(?P<hour>[01]?\d|2[0-4])", r"(?P<second>[0-5]\d(?:[.,]\d+)?)"
_FORMS = (
    rf"{_HOUR}[:h](?P<minute>[0-5]\d)(?::{_SECOND})?(?:\s*(?P<half>[ap])\.?m\.?)?",
    rf"{_HOUR}\.(?P<minute>[0-5]\d)\.{_SECOND}",  # 18.30 is a number
)
_MIDNIGHT = r"[ T]00:00(?::00(?:\.0+)?)?$"
_ISO = "%Y-%m-%d"
_NAMES_OF_TIME = frozenset("t time date datetime timestamp day month year hour".split())
_NAMES = frozenset("time clock hour hours hr uhrzeit zeit stunde heure hora ora".split())


class _Clocks(NamedTuple):
    """Times of day as text such as 18:30:00; 24:00 is 00:00 of the next day."""

    texts: pd.Series
    is_next_day: Bool[ndarray, " N"]


def named_pair(frame: pd.DataFrame, name: str) -> tuple[str, str] | None:
    """The two columns of a name such as "Date,Time" or "Date Time"."""
    for mark in re.finditer("[, ]", name):
        pair = name[: mark.start()].strip(), name[mark.end() :].strip()
        if pair[0] != pair[1] and all(half in frame.columns for half in pair):
            return pair
    return None


def pair_of(frame: pd.DataFrame, time: str, taken: Collection[str] = ()) -> tuple[str, str] | None:
    """The columns of date and time of day, if the column of times holds only one of both.

    A time of day needs a name of time as well: a column "sunrise" is a value. Dates that do not repeat
    need none.
    """
    column, others = frame[time], [name for name in frame.columns if name not in (time, *taken)]
    if _days(column) is None:
        if _clocks(column) is None or (_is_number(column) and not column.duplicated().any()):
            return None
        return next(((date, time) for date in others if _days(frame[date]) is not None), None)
    if not column.duplicated().any():
        return None
    named = [name for name in others if _NAMES.intersection(_words(name))]
    # a column with some unreadable values is a clock too; joined_times names them
    clocks = [name for name in named if _clocks(frame[name].dropna().head(1)) is not None]
    clocks = [name for name in clocks if not _is_number(frame[name]) or _clocks(frame[name])]
    clocks.sort(key=lambda name: _is_number(frame[name]))  # whole hours last
    has_minutes = any(_words(name) & {"minute", "minutes", "min"} for name in others)
    if not clocks or (has_minutes and _is_number(frame[clocks[0]])):
        return None
    return time, clocks[0]


def joined_times(frame: pd.DataFrame, pair: tuple[str, str], source: str) -> pd.Index:
    """Join the date and the time of day of each row; the index has the names of both columns.

    >>> frame = pd.DataFrame({"Date": ["10/03/2004", "10/03/2004"], "Time": ["18.00.00", "19.00.00"]})
    >>> joined_times(frame, ("Date", "Time"), "log.csv").tolist()
    ['10/03/2004 18:00:00', '10/03/2004 19:00:00']
    """
    date, clock = pair
    if _days(frame[date]) is None and _days(frame[clock]) is not None:
        date, clock = clock, date
    days, clocks = _days(frame[date]), _clocks(frame[clock])
    if days is None:
        raise _refusal(frame, date, source, _days, "dates such as 2024-12-31")
    if clocks is None:
        raise _refusal(frame, clock, source, _clocks, "times of day such as 18:30, or whole hours")
    if clocks.is_next_day.any():
        index = pd.DatetimeIndex(read_stamps(days, f"{source}: column {date!r}"))
        index += pd.to_timedelta(clocks.is_next_day.astype(int), unit="D")
        days = pd.Series(index.strftime(_ISO), days.index)
    return pd.Index(days + " " + clocks.texts, name=f"{pair[0]} {pair[1]}")


def _words(name: object) -> set[str]:
    return set(re.split(r"[^a-z]+", str(name).lower()))


def _is_number(column: pd.Series) -> bool:
    return bool(column.dtype.kind in "iuf")


def _days(column: pd.Series) -> pd.Series | None:
    """Dates as text, or ``None`` if the column holds something else."""
    if column.empty or column.isna().any() or column.dtype.kind in "bmc":
        return None
    if column.dtype.kind == "M" or _is_number(column):
        with suppress(InputError):  # infinite numbers
            stamps = read_stamps(column, str(column.name), kind="timestamp")
            if isinstance(stamps, pd.DatetimeIndex) and stamps.tz is None:
                is_plain = stamps.equals(stamps.normalize())
                return pd.Series(stamps.strftime(_ISO), column.index) if is_plain else None
        return None
    texts = column.astype(str).str.strip().str.replace(_MIDNIGHT, "", regex=True)
    different = pd.Series(texts.unique())
    is_date = not different.str.contains(":").any() and holds_timestamps(different)
    return texts if is_date else None


def _clocks(column: pd.Series) -> _Clocks | None:
    """Times of day, or ``None`` if the column holds something else."""
    if column.empty or column.isna().any() or column.dtype.kind in "bmMc":
        return None
    if _is_number(column):
        if not column.isin(range(25)).all():
            return None
        hour = column.astype(int)
        return _Clocks(_two_digits(hour % 24) + ":00:00", (hour == 24).to_numpy())
    texts = column.astype(str).str.strip()
    for form in _FORMS:
        if re.fullmatch(form, texts.iloc[0], re.IGNORECASE):
            return _from_parts(texts.str.extract(f"^{form}$", flags=re.IGNORECASE))
    return None


def _from_parts(parts: pd.DataFrame) -> _Clocks | None:
    if parts["hour"].isna().any():
        return None
    hour = parts["hour"].astype(int)
    if "half" in parts:
        half = parts["half"].str.lower()
        hour = hour.where(half.isna(), hour % 12 + 12 * (half == "p"))
    second = parts["second"].fillna("00").str.replace(",", ".", regex=False)
    whole, fraction = second.str[:2], second.str[3:]
    if n_digits := int(fraction.str.len().max()):  # dates are read in one form for all rows
        whole = whole + "." + fraction.str.ljust(n_digits, "0")
    is_next_day = (hour == 24).to_numpy()
    if bool(((parts["minute"] != "00") | (second.astype(float) > 0))[is_next_day].any()):
        return None
    return _Clocks(_two_digits(hour % 24) + ":" + parts["minute"] + ":" + whole, is_next_day)


def _two_digits(hour: pd.Series) -> pd.Series:
    return hour.astype(str).str.zfill(2)


def _refusal(
    frame: pd.DataFrame, name: str, source: str, read: Callable[..., object], wanted: str
) -> InputError:
    """The error for a column that cannot be read."""
    column = frame[name]
    is_bad = column.isna()
    if not is_bad.any():
        bad = {value for value in column.unique() if read(pd.Series([value])) is None}
        is_bad = column.isin(bad) if bad else is_bad | True
    first = int(is_bad.to_numpy().argmax())
    found = "nothing" if pd.isna(column.iloc[first]) else repr(str(column.iloc[first]))
    return InputError(
        f"{source}: column {name!r} does not hold {wanted}, in {int(is_bad.sum())} of {len(column)} "
        f"rows (first: {found} in {place_of(frame, first)}). Correct them, or name other "
        "columns with --time."
    )


def time_columns_of(
    frame: pd.DataFrame, named: str | None, stamps: str | None, taken: list[str], source: str
) -> list[str]:
    """The column of times, or those of the date and the time of day."""
    if named is None:
        if stamps is None and (
            parts := find_year_columns(frame.drop(columns=taken, errors="ignore"))
        ):
            return parts
        time = stamps or first_if_time(frame, source)
        return list(pair_of(frame, time, taken) or [time])
    if named in frame.columns:
        return [named]
    halves = [half.strip() for half in named.split(",")]
    if len(halves) > 1 and set(halves) <= set(frame.columns):
        return halves
    return list(named_pair(frame, named) or (halves if len(halves) == 2 else [named]))


def times_beside_row_numbers(frame: pd.DataFrame) -> str | None:
    """The column of timestamps, if the first column has no name and counts the rows."""
    first, *others = frame.columns
    numbers = frame[first].to_numpy()
    if first != NAMELESS.format(1) or numbers.dtype.kind not in "if":
        return None
    if not bool((np.diff(numbers) == 1).all()):
        return None
    return next((name for name in others if holds_timestamps(frame[name])), None)


def first_if_time(frame: pd.DataFrame, source: str) -> str:
    """The first column, if its name or its values are those of times; else the only timestamps."""
    name = str(frame.columns[0])
    column = frame.iloc[:, 0].dropna()
    if _NAMES_OF_TIME.intersection(re.split(r"[^a-z]+", name.lower())):
        return name
    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        if len(column) > 1 and bool((np.diff(column.to_numpy()) > 0).all()):
            return name
        reason = "its numbers do not always increase"
    else:
        try:
            read_stamps(column, name)
            return name
        except InputError:
            reason = f"it holds {str(column.iloc[0])!r}" if len(column) else "empty"
    stamps = [other for other in frame.columns[1:] if holds_timestamps(frame[other])]
    if len(stamps) == 1:
        return str(stamps[0])
    raise InputError(
        f"{source}: the first column {name!r} does not look like time ({reason}). Name the "
        f"column of times with --time; there are {', '.join(map(str, frame.columns))}."
    )
