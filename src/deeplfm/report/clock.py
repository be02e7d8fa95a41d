"""Times of a series as numbers, text, and positions on an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.report.wording import amount, digits_for

_YEAR = 365.2425 * 86400.0
_SECONDS = {
    "year": _YEAR,
    "month": _YEAR / 12,
    "day": 86400.0,
    "hour": 3600.0,
    "minute": 60.0,
    "second": 1.0,
    "millisecond": 1e-3,
}
_PATTERNS = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:%M", "minute": "%Y-%m-%d %H:%M"}


@dataclass(frozen=True)
class Clock:
    """Conversion of the times of one series.

    Attributes:
        kind: "number", "timestamp" or "duration".
        name: of the user's time column.
        origin: timestamp from which seconds are counted.
        unit: unit in which durations are drawn.
        digits: significant digits that distinguish successive numbers.
        resolution: finest part of a timestamp that is not zero everywhere.
        is_universal: timestamps are shown in UTC, because local time was set back.
    """

    kind: str
    name: str
    origin: Any = None
    unit: str = "second"
    digits: int = 6
    resolution: str = "second"
    is_universal: bool = False

    @classmethod
    def of(cls, times: pd.Index) -> Self:
        """The clock of times in increasing order."""
        name = "time" if times.name is None else str(times.name)
        if isinstance(times, pd.DatetimeIndex):
            wall = times.unique().tz_localize(None)
            turned_back = not (wall.is_monotonic_increasing and wall.is_unique)
            return cls(
                "timestamp",
                name,
                origin=times[0],
                resolution=times.resolution,
                is_universal=turned_back,
            )
        if isinstance(times, pd.TimedeltaIndex):
            return cls("duration", name, unit=_unit_of(float((times[-1] - times[0]) / _second())))
        numbers = times.to_numpy(np.float64)
        steps = np.diff(numbers)
        finest = float(np.median(steps[steps > 0])) / 10 if (steps > 0).any() else None
        return cls("number", name, digits=digits_for(numbers, finest))

    def numbers(self, times: pd.Index) -> Float64[ndarray, " n"]:
        """Times as numbers whose differences are lengths: seconds, or the user's own unit."""
        if self.kind == "timestamp":
            times = times - self.origin
        if self.kind != "number":
            times = times / _second()
        return times.to_numpy(np.float64)

    def times(self, numbers: Float64[ndarray, " n"]) -> pd.Index:
        """Times of the user's kind, from :meth:`numbers`."""
        if self.kind == "number":
            return pd.Index(numbers)
        spans = pd.to_timedelta(numbers, unit="s")
        return self.origin + spans if self.kind == "timestamp" else pd.Index(spans)

    def drawn(self, times: pd.Index) -> Float64[ndarray, " n"]:
        """Times as an axis of a chart takes them.

        Timestamps are milliseconds since 1970 in local time, because charts have no time zones.
        """
        if self.kind == "timestamp":
            since = self._local(times) - pd.Timestamp(0)
            return (since / pd.Timedelta(milliseconds=1)).to_numpy(np.float64)
        return self.numbers(times) / (_SECONDS[self.unit] if self.kind == "duration" else 1.0)

    @property
    def title(self) -> str:
        """Name of the axis, with its unit or zone."""
        if self.kind == "duration":
            return f"{self.name} ({self.unit}s)"
        zone = self.zone
        return f"{self.name} ({zone})" if zone else self.name

    @property
    def zone(self) -> str | None:
        """Time zone of the shown timestamps."""
        if self.kind != "timestamp" or self.origin.tz is None:
            return None
        return "UTC" if self.is_universal else str(self.origin.tz)

    def text(self, time: Any) -> str:
        """One time as text, at the resolution of the record."""
        if self.kind == "timestamp":
            wall = self._local(pd.DatetimeIndex([time]))[0]
            if self.resolution in ("millisecond", "microsecond", "nanosecond"):
                return str(wall)
            return wall.strftime(_PATTERNS.get(self.resolution, "%Y-%m-%d %H:%M:%S"))
        if self.kind == "duration":
            return self.length(float(time / _second()))
        return amount(float(time), self.digits)

    def length(self, number: float) -> str:
        """A span of time with the largest unit not longer than it."""
        unit, size = self.unit_of(number)
        share = number / size
        if unit == "year" and abs(share - round(share)) < 0.005:  # years have 365 or 366 days
            share = round(share)
        value = amount(share, 4 if self.kind == "number" else 3)
        if value != "1":
            unit = unit.replace("unit", "units") if self.kind == "number" else f"{unit}s"
        return f"{value} {unit}"

    def brief(self, number: float) -> str:
        """A span of time for a table, without the unit if it is the user's own."""
        return amount(number) if self.kind == "number" else self.length(number)

    def unit_of(self, length: float) -> tuple[str, float]:
        """The unit of such a span of time, and its size in :meth:`numbers`."""
        if self.kind == "number":
            return f"unit of {self.name}", 1.0
        unit = _unit_of(length)
        return unit, _SECONDS[unit]

    def rate_unit(self, period: float) -> tuple[str, float]:
        """The smallest unit of time that holds about one such period or more, and its size."""
        if self.kind == "number":
            return self.unit_of(period)
        return next(
            ((unit, size) for unit, size in reversed(_SECONDS.items()) if size >= 0.9 * period),
            ("year", _YEAR),
        )

    def _local(self, times: pd.Index) -> pd.DatetimeIndex:
        stamps = pd.DatetimeIndex(times)
        return (stamps.tz_convert("UTC") if self.is_universal else stamps).tz_localize(None)


def _second() -> pd.Timedelta:
    return pd.Timedelta(seconds=1)


def _unit_of(seconds: float) -> str:
    """The largest unit not longer than a span; months are for two of them or more."""
    for unit, size in _SECONDS.items():
        if abs(seconds) >= (2 if unit == "month" else 0.99 if unit == "year" else 1) * size:
            return unit
    return "millisecond"
