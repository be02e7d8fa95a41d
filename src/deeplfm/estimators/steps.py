"""The step of a series: found in its times, and taken beyond the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Calendar = Literal["days", "weekdays", "months", "month ends"]

_MOST_DECIMALS = 9
ROUNDING = 1e-6  # of a step: nearer numbers are the same time
_LEAST_MONTH, _WEEKDAY_SPAN = 28, 14  # days of a month; of a record that shows weekends are missing
_DAY = pd.Timedelta(days=1)
_LEAST_DAYS: dict[Calendar, int] = {"days": 1, "weekdays": 1, "months": 28, "month ends": 28}


@dataclass(frozen=True)
class Step:
    """The typical step of a series; missing rows do not change it.

    Timestamps with a constant time of day are continued by the calendar of their own zone, so that a
    day is a day when the clocks change; all others by the median step.

    Attributes:
        size: in the numbers of the series, in ticks of its resolution, or in units of the calendar.
        calendar: what ``size`` counts; ``None`` for numbers and ticks.
        decimals: to which all numbers of the series are written; ``None`` where they have none.
    """

    size: float
    calendar: Calendar | None = None
    decimals: int | None = None

    @classmethod
    def of(cls, index: pd.Index) -> Step:
        """The step of at least two times in order."""
        if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
            ticks = cls(max(1, int(np.median(np.diff(index.asi8)))))
            is_stamps = isinstance(index, pd.DatetimeIndex)
            return (_calendar_step(index.tz_localize(None)) if is_stamps else None) or ticks
        numbers = index.to_numpy()
        if numbers.dtype.kind == "i":
            size = float(np.median(np.diff(numbers)))
            return cls(int(size) if size.is_integer() else size)
        return _decimal_step(numbers)

    def after(self, last: pd.Index, count: int) -> pd.Index:
        """``count`` times after the last, which is an index of one."""
        multiples = np.arange(1, count + 1)
        if isinstance(last, pd.DatetimeIndex) and self.calendar is not None:
            return localised(self._on_calendar(last.tz_localize(None)[0], multiples), last)
        if isinstance(last, pd.DatetimeIndex | pd.TimedeltaIndex):
            steps = pd.TimedeltaIndex((multiples * int(self.size)).view(f"m8[{last.unit}]"))
            return last.repeat(count) + steps
        numbers = last.to_numpy()[0] + multiples * self.size
        return pd.Index(numbers if self.decimals is None else np.round(numbers, self.decimals))

    def count_until(self, last: pd.Index, end: pd.Index) -> int:
        """A number of steps that reaches from the last time to an end, or beyond it."""
        least = self.after(last, 1)[0] - last[0]
        if self.calendar is not None:  # clocks may change by hours meanwhile
            least = 0.9 * self.size * _LEAST_DAYS[self.calendar] * _DAY
        return int((end[0] - last[0]) / least) + 2

    def _on_calendar(self, last: pd.Timestamp, multiples: NDArray[np.int64]) -> pd.DatetimeIndex:
        counts = multiples * int(self.size)
        if self.calendar == "days":
            return pd.DatetimeIndex(last + counts * _DAY)
        if self.calendar == "weekdays":
            date = np.busday_offset(np.datetime64(last.date()), counts)
            return pd.DatetimeIndex(date) + (last - last.normalize())
        if self.calendar == "months":
            return pd.DatetimeIndex([last + pd.DateOffset(months=int(count)) for count in counts])
        return pd.DatetimeIndex([last + pd.offsets.MonthEnd(int(count)) for count in counts])


def _calendar_step(local: pd.DatetimeIndex) -> Step | None:
    """The step in months or days of times with a constant time of day."""
    dates = local.normalize()
    if (local - dates).nunique() > 1:
        return None
    days = np.diff(dates.to_numpy()) // np.timedelta64(1, "D")
    months = np.diff(12 * np.asarray(local.year) + np.asarray(local.month))
    if days.min() >= _LEAST_MONTH and local.is_month_end.all():
        return Step(int(np.median(months)), "month ends")
    if days.min() >= _LEAST_MONTH and np.unique(local.day).size == 1:
        return Step(int(np.median(months)), "months")
    size = int(np.median(days))
    if size == 1 and dates[-1] - dates[0] >= _WEEKDAY_SPAN * _DAY and (local.day_of_week < 5).all():
        return Step(1, "weekdays")
    return Step(size, "days")


def _decimal_step(numbers: NDArray[np.float64]) -> Step:
    """The typical step, and to how many decimals it and all numbers were written."""
    gaps = np.diff(numbers)
    size = float(np.median(gaps))
    if np.allclose(gaps, size, rtol=ROUNDING, atol=0):
        size = float((numbers[-1] - numbers[0]) / len(gaps))
    rounding = 2 * np.spacing(np.abs(numbers).max())
    for decimals in range(_MOST_DECIMALS + 1):
        written = round(size, decimals)
        is_written = np.abs(np.round(numbers, decimals) - numbers).max() <= rounding
        if written > 0 and abs(written - size) <= rounding and is_written:
            return Step(written, decimals=decimals)
    return Step(size)


def localised(local: pd.DatetimeIndex, like: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Local times in a zone: the second of an hour that comes twice, the end of one that is skipped."""
    local = local.as_unit(like.unit)
    if like.tz is None:
        return local
    twice = np.zeros(len(local), dtype=bool)
    return local.tz_localize(like.tz, ambiguous=twice, nonexistent="shift_forward")
