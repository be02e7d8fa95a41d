"""The user's time: what a model sees of it, and how it goes on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.estimators.stamps import EXAMPLES, DateOrder, Kind, kind_of, read_stamps
from deeplfm.estimators.steps import Step, from_ticks
from deeplfm.estimators.validation import is_whole

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
_UNITS: dict[str | None, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_MEAN_DAYS = {"days": 1.0, "weekdays": 1.4, "months": 30.436875, "month ends": 30.436875}
_EXACT = 2**53  # whole numbers up to this are floats as well
_MOST_TIMES = 10_000_000


@dataclass(frozen=True)
class Timeline:
    """A clock as the user reads it: numbers, timestamps in their zone, or durations.

    Inside, instants are counted from the first one in a unit that suits their step; outside, every time
    is of the user's kind, zone and name.

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

    >>> days = Timeline.of(pd.date_range("2024-03-28", periods=3, tz="Europe/Berlin"), "day")
    >>> days.numbers(days.read("2024-04-01"))
    array([3.95833333])
    >>> for time in days.after(days.read("2024-03-30"), horizon=2):
    ...     print(time)
    2024-03-31 00:00:00+01:00
    2024-04-01 00:00:00+02:00
    """

    name: str | int | None
    kind: Kind
    step: Step
    unit: str | None = None
    zone: str | None = None
    resolution: str | None = None
    origin: int = 0
    date_order: DateOrder | None = None

    @classmethod
    def of(cls, index: pd.Index, name: str | int | None = None) -> Timeline:
        """The timeline of the times of a series, in order and at least two."""
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

    def read(self, times: Any, where: str = "times") -> pd.Index:
        """Times that a user gave, as this timeline's kind, in its zone and by its name.

        Args:
            times: one or several, or texts of them; timestamps without a zone are local to this one's.
            where: what to call them in an error.
        """
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

    def numbers(self, index: pd.Index) -> Float64[ndarray, " N"]:
        """Times as the model sees them: instants, so that clocks that change do not matter."""
        if self.kind == "number":
            return np.asarray(index.to_numpy() - self.origin, dtype=np.float64)
        instants = index if self.kind == "duration" else index - self._origin()
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

    def after(self, last: pd.Index, horizon: int) -> pd.Index:
        """So many times after the last one, each a step on.

        Args:
            last: an index of one time.
            horizon: how many times.
        """
        is_count = is_whole(horizon)
        if not is_count or not 1 <= horizon <= _MOST_TIMES:
            raise InputError(
                f"horizon: {horizon!r} found. Give a number of steps from 1 to {_MOST_TIMES}, or a "
                "last time as until=."
            )
        return self._continued(last, int(horizon), "horizon")

    def until(self, last: pd.Index, end: Any) -> pd.Index:
        """All times after the last one up to an end, which belongs to them where a step meets it."""
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
        room = 1e-6 * self.step.size if self.kind == "number" else pd.Timedelta(0)
        found = found[found <= target[0] + room]
        if len(found) == 0:
            raise InputError(
                f"until: {target[0]} is less than a step after the last time {last[0]}. Give a later "
                "one, or the times themselves as times=."
            )
        return found

    def refined(self, index: pd.Index) -> Timeline:
        """The same timeline at the resolution of an index, which may have become finer."""
        if self.resolution is None or index.unit == self.resolution:
            return self
        factor = _TICKS[index.unit] // _TICKS[self.resolution]
        step = self.step if self.step.calendar else replace(self.step, size=self.step.size * factor)
        return replace(self, step=step, resolution=index.unit, origin=self.origin * factor)

    def ticks(self, index: pd.Index) -> Tensor:
        """Times as whole numbers or floats from which :meth:`from_ticks` makes the same bits."""
        values = index.to_numpy() if self.kind == "number" else index.asi8
        return torch.from_numpy(values.copy())

    def from_ticks(self, ticks: Tensor) -> pd.Index:
        """Times of their ticks."""
        if self.kind == "number":
            return pd.Index(ticks.numpy(), name=self.name)
        return from_ticks(ticks.numpy(), self.kind, self.resolution, self.zone).rename(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which :meth:`from_dict` makes the same timeline."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Timeline:
        """The timeline that was described."""
        return cls(**content | {"step": Step(**content["step"])})

    def _origin(self) -> pd.Timestamp:
        return from_ticks(np.array([self.origin]), self.kind, self.resolution, self.zone)[0]

    def _continued(self, last: pd.Index, count: int, where: str) -> pd.Index:
        try:
            return self.step.after(last, count).rename(self.name)
        except (pd.errors.OutOfBoundsDatetime, OverflowError) as error:
            raise InputError(
                f"{where}: {count} steps after {last[0]} lead beyond what timestamps can hold. "
                "Ask for fewer."
            ) from error
