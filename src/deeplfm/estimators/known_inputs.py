"""Inputs beside time: numbers and categories of the user, and the calendar of the times themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray
from pandas.api.types import infer_dtype, is_bool_dtype

from deeplfm.errors import ConfigError, InputError
from deeplfm.io.typed import checked

Name = str | int

CALENDAR = {"hour": 24, "weekday": 7, "weekend": 2, "month": 12, "quarter": 4}  # levels
_MOST_LEVELS = 50
_FEWEST_DAYS = 2  # of a holiday in the record, for an effect of its own


@dataclass(frozen=True)
class KnownInputs:
    """Columns that a model sees beside the time.

    A category has one column of zeros and ones for each level but the first. Holidays have one column
    together, and one for each that occurs at least twice in the training rows.

    Attributes:
        levels: of the covariates that are categories, by their name.
        calendar: parts of the calendar: "hour", "weekday", "weekend", "month" or "quarter".
        country: whose holidays count, such as "DE", or "DE-BY" for a part of it; ``None`` for none.
        holidays: names of those with an effect of their own.
    """

    levels: dict[Name, list[str]] = field(default_factory=dict)
    calendar: tuple[str, ...] = ()
    country: str | None = None
    holidays: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        covariates: Sequence[Name],
        stamps: pd.Index,
        calendar: Any,
        holidays: str | None,
    ) -> KnownInputs:
        """The inputs of a user's frame; see ``DeepLFMForecaster.fit`` for the arguments."""
        parts = (calendar,) if isinstance(calendar, str) else tuple(calendar or ())
        for part in parts:
            if part not in CALENDAR:
                raise ConfigError(
                    f"calendar: {part!r} is not known. Choose from {', '.join(CALENDAR)}."
                )
        if (parts or holidays) and not isinstance(stamps, pd.DatetimeIndex):
            raise InputError(
                "calendar, holidays: they need timestamps, and the times are none. Leave them out."
            )
        levels = {name: _levels(frame[name]) for name in covariates if is_category(frame[name])}
        if holidays is None:
            return cls(levels, parts)
        names = _holidays(stamps, holidays)
        counts = pd.Series(names, index=_dates(stamps)).groupby(level=0).first().value_counts()
        often = sorted(str(name) for name, n in counts.items() if name and n >= _FEWEST_DAYS)
        return cls(levels, parts, holidays, tuple(often))

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which :meth:`from_dict` makes the same inputs; names may be numbers."""
        return asdict(self) | {"levels": [[name, items] for name, items in self.levels.items()]}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> KnownInputs:
        """The inputs that were described."""
        given = {name: tuple(content.get(name, ())) for name in ("calendar", "holidays")}
        levels = {name: list(items) for name, items in content.get("levels", [])}
        return checked(cls(levels, country=content.get("country"), **given))

    def codes(self, column: pd.Series, name: Name) -> Float64[ndarray, " N"]:
        """Numbers of the levels of a category; NaN where it is missing."""
        texts = _texts(column)
        known = self.levels[name]
        codes = texts.map({level: i for i, level in enumerate(known)}).to_numpy(dtype=np.float64)
        new = (np.isnan(codes) & texts.notna().to_numpy()).nonzero()[0]
        if len(new):
            raise InputError(
                f"column {name!r}: {texts.iloc[new[0]]!r} at row {new[0]} is no level that the model was "
                f"fitted on. Choose from {', '.join(known)}, or fit again."
            )
        return codes

    def columns(self, values: pd.DataFrame, covariates: Sequence[Name]) -> Float64[ndarray, "N P"]:
        """Inputs beside the time: covariates and the calendar of some rows by time."""
        found: list[Any] = []
        for name in covariates:
            numbers = values[name].to_numpy(dtype=np.float64)
            if name in self.levels:
                found.append(_one_hot(numbers, len(self.levels[name])))
            else:
                found.append(numbers[:, None])
        for part in self.calendar:
            found.append(_one_hot(_part(values.index, part), CALENDAR[part]))
        if self.country is not None:
            names = _holidays(values.index, self.country)
            found.append(np.array([[bool(name)] for name in names], dtype=np.float64))
            found += [np.array([[name == item] for name in names], float) for item in self.holidays]
        return np.hstack(found) if found else np.empty((len(values), 0))


def mostly_numbers(column: pd.Series) -> bool:
    """Whether most of the known values of a column can be read as numbers."""
    numbers = pd.to_numeric(column.astype(object), errors="coerce")
    return 2 * int(numbers.notna().sum()) > int(column.notna().sum())


def is_category(column: pd.Series) -> bool:
    """Whether a column holds text, truth values or categories, and no numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype) or is_bool_dtype(column.dtype):
        return True
    if infer_dtype(column, skipna=True) not in ("string", "boolean", "categorical"):
        return False
    return not mostly_numbers(column)


def _levels(column: pd.Series) -> list[str]:
    levels = sorted(set(_texts(column).dropna()))
    if len(levels) > _MOST_LEVELS:
        raise InputError(
            f"column {column.name!r}: {len(levels)} different texts found, of which each would be an "
            f"input; at most {_MOST_LEVELS} are accepted. Group them, or leave the column out."
        )
    return levels


def _texts(column: pd.Series) -> pd.Series:
    values = column.astype(object)
    return values.where(values.isna(), values.map(str)).reset_index(drop=True)


def _one_hot(codes: Float64[ndarray, " N"], n_levels: int) -> Float64[ndarray, "N L"]:
    """One column for each level but the first; NaN stays NaN."""
    columns = (codes[:, None] == np.arange(1, max(n_levels, 2))).astype(np.float64)
    columns[np.isnan(codes)] = np.nan
    return columns


def _part(stamps: pd.Index, part: str) -> Float64[ndarray, " N"]:
    local: Any = pd.DatetimeIndex(stamps)
    if part == "weekend":
        return np.asarray(local.dayofweek >= 5, dtype=np.float64)
    if part in ("month", "quarter"):
        return np.asarray(getattr(local, part) - 1, dtype=np.float64)
    return np.asarray(local.dayofweek if part == "weekday" else local.hour, dtype=np.float64)


def _dates(stamps: pd.Index) -> ndarray:
    return np.asarray(pd.DatetimeIndex(stamps).date)


def _holidays(stamps: pd.Index, country: str) -> list[str]:
    """The name of the holiday of each time, empty where there is none."""
    try:
        import holidays
    except ImportError as error:
        raise ConfigError(
            "holidays: needs the package holidays, which is not installed. Run pip install "
            '"deeplfm[holidays]", or give a covariate of your own.'
        ) from error
    nation, _, part = country.partition("-")
    dates = _dates(stamps)
    years = range(min(dates).year, max(dates).year + 1)
    try:
        days = holidays.country_holidays(nation, subdiv=part or None, years=years)
    except (NotImplementedError, ValueError) as error:
        raise ConfigError(
            f"holidays: {country!r} is not known ({str(error).partition(chr(10))[0]}). Give a code such "
            "as 'DE', 'US' or 'DE-BY'."
        ) from error
    return [days.get(date) or "" for date in dates]
