"""Times of the user, read as an index of numbers, timestamps or durations."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_integer_dtype

from deeplfm.errors import InputError
from deeplfm.estimators.layouts import guessed_layouts

Kind = Literal["number", "timestamp", "duration"]
DateOrder = Literal["day first", "month first"]

LARGEST = 1e150  # the square of anything larger overflows
_KINDS: dict[str, Kind] = {
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "datetime": "timestamp",
    "datetime64": "timestamp",
    "date": "timestamp",
    "timedelta": "duration",
    "timedelta64": "duration",
}
# In the order in which texts are tried: "00:01:30" is no time of today.
EXAMPLES: dict[Kind, str] = {
    "number": "numbers such as 120.5",
    "duration": "durations such as '00:01:30'",
    "timestamp": "timestamps such as '2024-03-01 12:00'",
}
_DATE = re.compile(
    r"\d{1,2}(?P<mark>[/.-])\d{1,2}(?P=mark)(?P<year>\d{4}|\d{2})"
    r"(?P<time>[ T]\d{1,2}:\d{2}(?P<seconds>:\d{2}(?P<fraction>\.\d+)?)?)?"
)
_CALENDAR = (1800_01_01, 2199_12_31)  # dates as numbers
_QUARTER = r"\d{4}[- :]?Q[1-4]"
_NO_DURATION = r"\d\.\d+\.\d|\d,\d"


def kind_of(index: pd.Index) -> Kind:
    """The kind of times in an index that was read here."""
    if isinstance(index, pd.DatetimeIndex):
        return "timestamp"
    return "duration" if isinstance(index, pd.TimedeltaIndex) else "number"


def holds_timestamps(column: pd.Series) -> bool:
    """Whether the known values of a column are timestamps, also dates of unclear order."""
    orders: tuple[DateOrder | None, ...] = (None, "day first")
    for order in orders:
        with suppress(InputError):
            stamps = read_stamps(column.dropna(), str(column.name), date_order=order)
            return kind_of(stamps) == "timestamp"
    return False


def read_stamps(
    values: Any,
    where: str,
    kind: Kind | None = None,
    zone: str | None = None,
    date_order: DateOrder | None = None,
) -> pd.Index:
    """Times as numbers (int64 or float64), a DatetimeIndex or a TimedeltaIndex, none missing.

    Args:
        values: numbers, timestamps, durations, or texts of one of them.
        where: what to call the values in an error.
        kind: of texts; ``None`` finds out.
        zone: in which to give timestamps; those without a zone are taken as local times in it.
        date_order: of dates such as 01/02/2024; ``None`` finds out.
    """
    series = _series(values, where)
    if len(series) == 0:
        raise InputError(f"{where}: no times found. Give at least one.")
    missing = series.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"{where}: {missing.sum()} of {len(series)} times are missing "
            f"(first: row {missing.argmax()}). Remove these rows, or fill in their times."
        )
    found = infer_dtype(series, skipna=True)
    if found == "period":
        return _timestamps(series.dt.to_timestamp(), where, zone)
    if found == "string":
        return _from_text(series.astype(object).str.strip(), where, kind, zone, date_order)
    if found not in _KINDS:
        raise InputError(
            f"{where}: values of type {type(series.iloc[0]).__name__} ({found}) are no times "
            f"(first: {series.iloc[0]!r}). Give {', '.join(EXAMPLES.values())}."
        )
    if _KINDS[found] == "number":
        return _numbers_or_dates(pd.to_numeric(series), where, kind, zone)
    if _KINDS[found] == "duration":
        return pd.TimedeltaIndex(series, name=None)
    return _timestamps(series, where, zone)


def date_order_of(values: Any, where: str) -> DateOrder | None:
    """The order of day and month in texts; ``None`` for other texts and times."""
    series = _series(values, where)
    if infer_dtype(series, skipna=True) != "string":
        return None
    layout = _date_layout(series.astype(object).str.strip(), where, None)
    if layout is None:
        return None
    return "day first" if layout.startswith("%d") else "month first"


def _series(values: Any, where: str) -> pd.Series:
    if isinstance(values, pd.MultiIndex):
        raise InputError(
            f"{where}: several levels found. Give one level of time, and a column for each series."
        )
    if np.isscalar(values) or not hasattr(values, "__len__"):
        values = [values]
    if np.ndim(values) > 1:
        raise InputError(f"{where}: a {type(values).__name__} found. Give one list of times.")
    series = pd.Series(values).reset_index(drop=True)
    return series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series


def _numbers_or_dates(
    series: pd.Series, where: str, kind: Kind | None, zone: str | None
) -> pd.Index:
    """Numbers, unless all are dates such as 20241231: as numbers, months would end in long gaps."""
    numbers = series.to_numpy(dtype=np.float64)
    may_be_dates = kind == "timestamp" or (kind is None and len(np.unique(numbers)) > 2)
    first, last = _CALENDAR
    if may_be_dates and bool(
        ((numbers >= first) & (numbers <= last) & (numbers == np.trunc(numbers))).all()
    ):
        texts = pd.Series(numbers.astype(np.int64).astype(str))
        dates = pd.to_datetime(texts, format="%Y%m%d", errors="coerce")
        if dates.notna().all():
            return _timestamps(dates, where, zone)
    return _numbers(series, where)


def _numbers(series: pd.Series, where: str) -> pd.Index:
    is_whole = is_integer_dtype(series.dtype) and series.max() <= np.iinfo(np.int64).max
    numbers = series.to_numpy(dtype=np.int64 if is_whole else np.float64)
    wild = ~(np.abs(numbers.astype(np.float64)) <= LARGEST)
    if wild.any():
        raise InputError(
            f"{where}: {wild.sum()} of {len(numbers)} times are infinite or beyond {LARGEST:g} "
            f"(first: {numbers[wild.argmax()]} at row {wild.argmax()}). Remove these rows."
        )
    return pd.Index(numbers)


def _timestamps(
    series: pd.Series, where: str, zone: str | None, layout: str | None = None
) -> pd.DatetimeIndex:
    """Timestamps in one zone whose name can be saved, or in none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # pandas 2 warns of mixed zones
            index = pd.DatetimeIndex(pd.to_datetime(series, format=layout), name=None)
    except (ValueError, TypeError, FutureWarning) as error:
        zones = [str(pd.Timestamp(value).tz or "no zone") for value in series]
        if zone is None or "no zone" in zones:
            row = next((row for row, found in enumerate(zones) if found != zones[0]), 0)
            raise InputError(
                f"{where}: timestamps must all be in one time zone, or all in none; found {zones[0]} "
                f"at row 0 and {zones[row]} at row {row}. Convert them with pd.to_datetime(times, "
                "utc=True), or give the zone in which they are meant, such as zone='Europe/Berlin'."
            ) from error
        index = pd.DatetimeIndex(pd.to_datetime(series, format=layout, utc=True), name=None)
    if zone is None and index.tz is None:
        return index
    return _in_zone(index, where, zone or getattr(index.tz, "key", None) or str(index.tz))


def _in_zone(index: pd.DatetimeIndex, where: str, zone: str) -> pd.DatetimeIndex:
    try:
        if index.tz is not None:
            return index.tz_convert(zone)
        index.tz_localize("UTC").tz_convert(zone)  # is there such a zone?
    except (KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{where}: {zone!r} is no name of a time zone. Give one such as 'Europe/Berlin' or 'UTC'."
        ) from error
    is_descending = len(index) > 1 and bool((np.diff(index.asi8) < 0).mean() > 0.5)
    step = -1 if is_descending else 1  # the rows before decide which of two equal hours it is
    try:
        return index[::step].tz_localize(zone, ambiguous="infer")[::step]
    except Exception as error:  # pandas 2 raises errors of another library
        raise InputError(
            f"{where}: a time does not exist, or exists twice, in {zone} ({error}). "
            "Give it with its offset from UTC, such as 2024-10-27 02:30+02:00."
        ) from error


def _from_text(
    texts: pd.Series,
    where: str,
    kind: Kind | None,
    zone: str | None,
    date_order: DateOrder | None,
) -> pd.Index:
    kinds, row = [kind] if kind else list(EXAMPLES), 0
    if "timestamp" in kinds and texts.str.fullmatch(_QUARTER).all():
        quarters = pd.PeriodIndex(texts.str.replace("[- :]", "", regex=True), freq="Q")
        return _timestamps(pd.Series(quarters.to_timestamp()), where, zone)
    for candidate in kinds:
        if _attempt(texts.head(1), candidate).isna().all():  # spares the others a slow attempt
            continue
        found = _attempt(texts, candidate)
        if found.isna().any():
            row = max(row, int(found.isna().to_numpy().argmax()))
        elif candidate == "number":
            return _numbers_or_dates(found, where, kind, zone)
        elif candidate == "duration":
            return pd.TimedeltaIndex(found, name=None)
        else:
            return _timestamps(texts, where, zone, "ISO8601")
    if "timestamp" in kinds:
        layout = _date_layout(texts, where, date_order) or _layout_with_month_names(texts)
        if layout is not None:
            return _timestamps(texts, where, zone, layout)
    wanted = " or ".join(EXAMPLES[candidate] for candidate in kinds)
    raise InputError(f"{where}: {texts.iloc[row]!r} at row {row} is no time. Give {wanted}.")


def _attempt(texts: pd.Series, kind: Kind) -> pd.Series:
    """Texts as one kind of time, empty where they are none."""
    numbers = pd.to_numeric(texts, errors="coerce")
    if kind == "number":
        return numbers
    if kind == "duration":  # pandas makes nanoseconds of a number and of 2024-01,
        has_unit = texts.str.contains(r"[:A-Za-z]")
        is_plain = ~texts.str.contains(_NO_DURATION)  # a day of 29.06.2024 00:00, 15 hours of 1,5 h
        return pd.to_timedelta(texts, errors="coerce").where(numbers.isna() & has_unit & is_plain)
    return pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True)


def _date_layout(texts: pd.Series, where: str, date_order: DateOrder | None) -> str | None:
    """The layout of dates such as 31/12/2024 13:00, if day and month can only be in one order."""
    match = _DATE.fullmatch(texts.iloc[0])
    if match is None:
        return None
    year = "%Y" if len(match["year"]) == 4 else "%y"
    clock = ""
    if match["time"]:
        clock = f"{match['time'][0]}%H:%M{':%S' * bool(match['seconds'])}"
        clock += ".%f" * bool(match["fraction"])
    orders: dict[DateOrder, tuple[str, str, str]] = {
        "day first": ("%d", "%m", year),
        "month first": ("%m", "%d", year),
    }
    layouts = [
        match["mark"].join(orders[order]) + clock for order in orders if date_order in (None, order)
    ]
    read = [pd.to_datetime(texts, errors="coerce", format=layout) for layout in layouts]
    possible = [i for i, found in enumerate(read) if found.notna().all()]
    if len(possible) == 2 and not read[0].equals(read[1]):
        raise InputError(
            f"{where}: {texts.iloc[0]!r} could be day and month or month and day. Write dates as "
            "2024-12-31, or read them with pd.to_datetime(times, format='%d/%m/%Y')."
        )
    return layouts[possible[0]] if possible else None


def _layout_with_month_names(texts: pd.Series) -> str | None:
    """The layout of dates such as "Jan 31 2024" or "January 2024", which have only one order."""
    for layout in guessed_layouts(texts.iloc[0]):
        if pd.to_datetime(texts, errors="coerce", format=layout).notna().all():
            return layout
    return None
