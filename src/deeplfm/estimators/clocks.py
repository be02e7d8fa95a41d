"""Dates in one column and clocks in another, as loggers write them, made times."""

from __future__ import annotations

import re

import pandas as pd

from deeplfm.errors import InputError
from deeplfm.estimators.stamps import holds_timestamps

_CLOCK = re.compile(
    r"(?P<hour>[01]?\d|2[0-3])[:.h](?P<minute>[0-5]\d)(?:[:.](?P<second>[0-5]\d(?:[.,]\d+)?))?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?",
    re.IGNORECASE,
)
_HOURS = frozenset(["hour", "hours", "hr"])  # names of columns of whole hours


def named_pair(frame: pd.DataFrame, name: str) -> tuple[str, str] | None:
    """Date and clock, where a name stands for two columns: both, with a comma or a blank between."""
    for mark in (",", " "):
        for place in (found.start() for found in re.finditer(mark, name)):
            pair = name[:place].strip(), name[place + 1 :].strip()
            if pair[0] != pair[1] and all(half in frame.columns for half in pair):
                return pair
    return None


def pair_of(frame: pd.DataFrame, time: str) -> tuple[str, str] | None:
    """Date and clock, where a column of times has only one of both, and rows repeat it.

    Args:
        frame: of a file.
        time: name of the column.
    """
    if not frame[time].duplicated().any():
        return None
    others = [name for name in frame.columns if name != time]
    if _are_dates(frame[time]):
        clocks = (name for name in others if _clocks(frame[name], is_guess=True) is not None)
        return next(((time, clock) for clock in clocks), None)
    if _clocks(frame[time], is_guess=True) is None:
        return None
    return next(((date, time) for date in others if _are_dates(frame[date])), None)


def with_times(frame: pd.DataFrame, date: str, clock: str) -> pd.DataFrame:
    """The frame with its times as the index, whose name is that of both columns.

    >>> frame = pd.DataFrame({"Date": ["10/03/2004", "10/03/2004"], "Time": ["18.00.00", "19.00.00"]})
    >>> with_times(frame, "Date", "Time").index.tolist()
    ['10/03/2004 18:00:00', '10/03/2004 19:00:00']
    """
    days, clocks = frame[date], _clocks(frame[clock], is_guess=False)
    if not _are_dates(days):
        raise InputError(
            f"column {date!r}: no dates without a clock found (first: {str(days.iloc[0])!r}). Name the "
            "column of dates first, then that of clocks."
        )
    if clocks is None:
        raise InputError(
            f"column {clock!r}: not all are clocks such as 18:30 or whole hours from 0 to 23 "
            f"(first: {str(frame[clock].iloc[0])!r}). Name a column of clocks, or mend it."
        )
    return frame.set_axis(pd.Index(_texts(days) + " " + clocks, name=f"{date} {clock}"))


def _are_dates(column: pd.Series) -> bool:
    """Whether a column holds days, and says nothing of hours."""
    if column.empty or column.isna().any() or column.dtype.kind in "bm":
        return False
    texts = _texts(column)
    return not texts.str.contains(":").any() and holds_timestamps(texts)


def _texts(days: pd.Series) -> pd.Series:
    """Days as texts that are read as dates."""
    if days.dtype.kind == "M":
        is_midnight = bool((days == days.dt.normalize()).all())
        return days.dt.strftime("%Y-%m-%d" if is_midnight else "%Y-%m-%d %H:%M")
    if days.dtype.kind in "iuf":
        is_whole = bool((days == days.round()).all())
        days = days.astype("int64" if is_whole else "float64").astype(str)
        return days.str.replace(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3", regex=True)
    return days.astype(str).str.strip()


def _clocks(column: pd.Series, is_guess: bool) -> pd.Series | None:
    """Clocks as texts such as 18:30:00, or ``None`` where a column holds something else.

    Args:
        column: of a file.
        is_guess: whole hours must have a name that says so.
    """
    if column.empty or column.isna().any():
        return None
    if column.dtype.kind in "iuf":
        may_be_hours = not is_guess or str(column.name).strip().lower() in _HOURS
        if not may_be_hours or not column.isin(range(24)).all():
            return None
        return column.astype(int).astype(str).str.zfill(2) + ":00:00"
    if column.dtype.kind in "bmM" or not _CLOCK.fullmatch(str(column.iloc[0]).strip()):
        return None
    parts = column.astype(str).str.strip().str.extract(f"^{_CLOCK.pattern}$", flags=re.IGNORECASE)
    if parts["hour"].isna().any():
        return None
    hour = parts["hour"].astype(int)
    half = parts["half"].str.lower()
    hour = hour.where(half.isna(), hour % 12 + 12 * (half == "p"))
    second = parts["second"].fillna("00").str.replace(",", ".", regex=False)
    return hour.astype(str).str.zfill(2) + ":" + parts["minute"] + ":" + second
