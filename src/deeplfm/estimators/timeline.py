"""The time axis of a series: as numbers for the model, and continued by its step for the user."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from deeplfm.data.text import NAMELESS
from deeplfm.errors import InputError
from deeplfm.estimators.layouts import write_layout
from deeplfm.estimators.stamps import EXAMPLES, DateOrder, Kind, kind_of, read_stamps
from deeplfm.estimators.steps import ROUNDING, Step, localised
from deeplfm.estimators.year_columns import join_year_columns, split_year_columns
from deeplfm.io.typed import checked

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
_UNITS: dict[str | None, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_MEAN_DAYS = {"days": 1.0, "weekdays": 1.4, "months": 30.436875, "month ends": 30.436875}
_EXACT = 2**53  # whole numbers up to this are floats as well
_MOST_TIMES = 10_000_000
# Steps of at most so much of a day, a week and a year show its shape.
_LONGEST_OF_DAY, _LONGEST_OF_WEEK, _LONGEST_OF_YEAR = 0.26, 0.2, 0.26


@dataclass(frozen=True)
class Timeline:
    """A time axis of numbers, timestamps in their zone, or durations.

    The model sees instants, counted from the first one in a unit that suits their step. Users see
    times of their own kind, zone and name.

    Attributes:
        name: of the column or index of times; ``None`` where it has none.
        kind: "number", "timestamp" or "duration".
        step: from one row to the next, and beyond the last one.
        unit: of the numbers that a model sees: "second", "minute", "hour" or "day"; ``None`` for
            numbers, which keep the user's own.
        zone: of timestamps; ``None`` where they have none.
        resolution: of timestamps and durations: "s", "ms", "us" or "ns".
        origin: what counts as 0: ticks of the resolution since 1970, or a number.
        date_order: in which dates such as 01/02/2024 were written; ``None`` where there were none.
        frequency: of the user's index, as pandas names it; ``None`` where it has none.
        is_period: the user's times are periods, which are read as their first instants.
        layout: in which texts of timestamps were written; ``None`` where there were none.
        columns: the columns of a year and its parts from which times were joined.

    >>> days = Timeline.of(pd.date_range("2024-03-28", periods=3, tz="Europe/Berlin"), "day")
    >>> days.numbers(days.read("2024-04-01"))
    array([3.95833333])
    >>> for time in days.after(days.read("2024-03-30"), horizon=2):
    ...     print(time)
    2024-03-31 00:00:00+01:00
    2024-04-01 00:00:00+02:00
    """

    name: Any
    kind: Kind
    step: Step
    unit: str | None = None
    zone: str | None = None
    resolution: str | None = None
    origin: int = 0
    date_order: DateOrder | None = None
    frequency: str | None = None
    is_period: bool = False
    layout: str | None = None
    columns: tuple[str | int, ...] = ()

    @classmethod
    def of(cls, index: pd.Index, name: str | int | None = None) -> Timeline:
        """The time axis of a series of at least two times in order."""
        kind, step = kind_of(index), Step.of(index)
        if kind == "number":
            is_beyond = index.dtype.kind == "i" and np.abs(index.to_numpy()).max() > _EXACT
            return cls(name, kind, step, origin=int(index[0]) if is_beyond else 0)
        typical = pd.Series(index).diff().median().total_seconds()
        unit = [unit for unit, seconds in _UNITS.items() if seconds <= max(1, typical)][-1]
        if isinstance(index, pd.DatetimeIndex):
            zone = None if index.tz is None else str(index.tz)
            return cls(name, kind, step, unit, zone, index.unit, int(index.asi8[0]))
        return cls(name, kind, step, unit, None, index.unit)

    @property
    def label(self) -> str:
        """The name of the time in figures; a column without a name is called so only in tables."""
        return "time" if self.name in (None, NAMELESS.format(1)) else str(self.name)

    def read(self, times: Any, where: str = "times") -> pd.Index:
        """Times of the user in this axis' kind, zone and name."""
        index = read_stamps(times, where, self.kind, self.zone, self.date_order)
        if kind_of(index) != self.kind:
            raise InputError(
                f"{where}: {kind_of(index)}s found (first: {index[0]}), but the model was fitted on "
                f"{self.kind}s. Give {EXAMPLES[self.kind]}."
            )
        if self.zone is None and getattr(index, "tz", None) is not None:
            raise InputError(
                f"{where}: timestamps in zone {index.tz} found (first: {index[0]}), but the model was "
                "fitted on timestamps without one. Take the zone off with tz_localize(None)."
            )
        return index.rename(self.name)

    def shown(self, index: pd.Index) -> pd.Index:
        """Times as the user's own index has them: periods, or timestamps with their frequency."""
        if self.frequency is None or not isinstance(index, pd.DatetimeIndex):
            return index
        if self.is_period:
            return index.tz_localize(None).to_period(self.frequency)
        try:
            return pd.DatetimeIndex(index, freq=self.frequency)
        except ValueError:  # times that leave some out
            return index

    def written(self, index: pd.Index) -> pd.DataFrame:
        """Times as columns of texts or numbers, in the layout in which the user wrote them."""
        name = "index" if self.name is None else self.name
        if isinstance(index, pd.PeriodIndex):
            index = index.to_timestamp()
        if self.columns:
            return pd.DataFrame(split_year_columns(index, self.columns))
        if self.layout is not None:
            return pd.DataFrame({name: write_layout(index, self.layout)})
        return pd.DataFrame({name: index})

    def texts(self, index: pd.Index) -> list[str]:
        """Times as texts for messages, as the user wrote them."""
        written = self.written(index)
        if self.columns:
            return join_year_columns(written, self.columns).tolist()
        if self.kind == "number" and self.step.decimals is None:  # no digits of rounding
            return [f"{time:.10g}" for time in written.iloc[:, 0]]
        if self.kind == "timestamp" and self.layout is None and self._has_days(index):
            return [f"{time:%Y-%m-%d}" for time in pd.DatetimeIndex(written.iloc[:, 0])]
        return [str(time) for time in written.iloc[:, 0]]

    def _has_days(self, index: pd.Index) -> bool:
        """Whether times are dates, without a time of day or a zone."""
        if isinstance(index, pd.PeriodIndex):
            index = index.to_timestamp()
        is_daily = self.zone is None and (self.step.calendar is not None or self.unit == "day")
        return is_daily and bool((index == index.normalize()).all())

    def text_of(self, number: float) -> str:
        """A time of :meth:`numbers` as the user writes it."""
        if self.kind == "number":
            return f"time {number + self.origin:g}"
        span = pd.Timedelta(seconds=number * _UNITS[self.unit])
        origin = self._index(np.array([self.origin if self.kind == "timestamp" else 0]))
        return self.texts((origin + span).round("s"))[0]

    def numbers(self, index: pd.Index) -> Float64[ndarray, " N"]:
        """Times as the model sees them: instants, so that changes of the clocks do not matter."""
        if self.kind == "number":
            return np.asarray(index.to_numpy() - self.origin, dtype=np.float64)
        origin = self._index(np.array([self.origin]))[0]
        instants = index if self.kind == "duration" else index - origin
        return np.asarray(instants / pd.Timedelta(seconds=_UNITS[self.unit]), dtype=np.float64)

    def length(self, duration: Any) -> float:
        """A duration in the unit of :meth:`numbers`: text such as ``"1D"``, or a number.

        A number counts steps where times are timestamps or durations, and units where they are numbers.
        """
        is_text = isinstance(duration, str)
        if self.unit is None:
            if is_text:
                raise InputError(
                    f"season: the period {duration!r} is a duration, and times are numbers. Give a "
                    "number in their units."
                )
            return float(duration)
        unit = pd.Timedelta(seconds=_UNITS[self.unit])
        if is_text:
            try:
                return float(pd.Timedelta(duration) / unit)
            except ValueError as error:
                raise InputError(
                    f"season: {duration!r} is no duration ({error}). Write it as '1D', '12h' or '7 days'."
                ) from None
        if self.step.calendar is not None:
            days = _MEAN_DAYS[self.step.calendar] * self.step.size
            return float(duration * (pd.Timedelta(days=days) / unit))
        seconds = self.step.size / _TICKS[str(self.resolution)]
        return float(duration * seconds / _UNITS[self.unit])

    def seasons(self) -> tuple[float, ...]:
        """Periods of the calendar that are longer than a step, in the unit of :meth:`numbers`.

        Days and weeks of hours, weeks and years of days, years of weeks and months; none for numbers, and
        for steps below a minute, whose cycles are not of the calendar.
        """
        if self.unit is None or self.kind != "timestamp":
            return ()
        step = self.length(1)
        days = {"1D": self.length("1D"), "7D": self.length("7D"), "1Y": self.length("365.25D")}
        if step < self.length("1min"):
            return ()
        if step < _LONGEST_OF_DAY * days["1D"]:
            return (days["1D"], days["7D"], days["1Y"])
        if step < _LONGEST_OF_WEEK * days["7D"]:
            return (days["7D"], days["1Y"])
        return (days["1Y"],) if step < _LONGEST_OF_YEAR * days["1Y"] else ()

    def after(self, last: pd.Index, horizon: int) -> pd.Index:
        """The next ``horizon`` times after the last one, which is an index of one."""
        is_count = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool)
        if not is_count or not 1 <= horizon <= _MOST_TIMES:
            raise InputError(
                f"horizon: {horizon!r} found. Give a number of steps from 1 to {_MOST_TIMES}, or a "
                "last time as until=."
            )
        return self._continued(last, int(horizon), "horizon")

    def until(self, last: pd.Index, end: Any) -> pd.Index:
        """All times after the last one up to an end, which is included where a step meets it."""
        target = self.read([end], "until")
        if target[0] <= last[0]:
            raise InputError(
                f"until: {target[0]} is not after the last time {last[0]}. Give a later one, or the "
                "times themselves as times=."
            )
        count = self.step.count_until(last, target)
        if count > _MOST_TIMES:
            raise InputError(
                f"until: about {count} steps lead from {last[0]} to {target[0]}. Give an earlier end, "
                "or the times themselves as times=."
            )
        found = self._continued(last, count, "until")
        room = ROUNDING * self.step.size if self.kind == "number" else pd.Timedelta(0)
        found = found[found <= target[0] + room]
        if len(found) == 0:
            raise InputError(
                f"until: {target[0]} is less than a step after the last time {last[0]}. Give a later "
                "one, or the times themselves as times=."
            )
        return found

    def refined(self, index: pd.Index) -> Timeline:
        """The same time axis at the resolution of an index, which may have become finer."""
        if self.resolution is None or index.unit == self.resolution:
            return self
        factor = _TICKS[index.unit] // _TICKS[self.resolution]
        step = self.step if self.step.calendar else replace(self.step, size=self.step.size * factor)
        return replace(self, step=step, resolution=index.unit, origin=self.origin * factor)

    def ticks(self, index: pd.Index) -> Tensor:
        """Times as whole numbers or floats, from which :meth:`from_ticks` makes the same bits."""
        values = index.to_numpy() if self.kind == "number" else index.asi8
        return torch.from_numpy(values.copy())

    def from_ticks(self, ticks: Tensor) -> pd.Index:
        """Times of their ticks, which are in order."""
        if not (ticks.isfinite().all() and (ticks.diff() > 0).all()):
            raise ValueError("its times are not in order")
        return self._index(ticks.numpy()).rename(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which :meth:`from_dict` makes the same time axis."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Timeline:
        """The time axis that was described."""
        columns = tuple(content.get("columns", ()))
        return checked(cls(**content | {"step": Step(**content["step"]), "columns": columns}))

    def _index(self, ticks: NDArray[Any]) -> pd.Index:
        """Numbers as they are; timestamps from ticks since 1970 in UTC, durations from ticks."""
        if self.kind == "number":
            return pd.Index(ticks)
        if self.kind == "duration":
            return pd.TimedeltaIndex(ticks.view(f"m8[{self.resolution}]"))
        stamps = pd.DatetimeIndex(ticks.view(f"M8[{self.resolution}]"))
        return stamps if self.zone is None else stamps.tz_localize("UTC").tz_convert(self.zone)

    def _by_frequency(self, last: pd.DatetimeIndex, count: int) -> pd.DatetimeIndex:
        """``count`` times after the last one, by the frequency of the user's index."""
        if self.is_period:
            periods = last.tz_localize(None).to_period(self.frequency)
            later = pd.period_range(periods[0] + 1, periods=count, freq=periods.freq)
            return localised(later.to_timestamp(), last)
        later = pd.date_range(last[0], periods=count + 1, freq=self.frequency)
        return later[later > last[0]][:count].as_unit(last.unit)

    def _continued(self, last: pd.Index, count: int, where: str) -> pd.Index:
        try:
            if self.frequency is not None:
                return self._by_frequency(last, count).rename(self.name)
            return self.step.after(last, count).rename(self.name)
        except (pd.errors.OutOfBoundsDatetime, OverflowError) as error:
            raise InputError(
                f"{where}: {count} steps after {last[0]} lead beyond what timestamps can hold. "
                "Ask for fewer."
            ) from error
