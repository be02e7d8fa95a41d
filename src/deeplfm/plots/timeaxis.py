"""Times on an axis: numbers, timestamps in their zone, durations in a suitable unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.plots.style import DARK, NORMAL, SMALL, escaped

_UNITS = {  # nanoseconds of each unit
    "days": 86_400e9,
    "h": 3_600e9,
    "min": 60e9,
    "s": 1e9,
    "ms": 1e6,
    "µs": 1e3,
    "ns": 1.0,
}
_LEAST_UNITS = 3  # that the whole axis must span, or a smaller unit is taken


class TimeAxis:
    """Where times lie on a horizontal axis, and how it is labelled.

    Args:
        times: all that will be shown: arrays, indices or lists of numbers, timestamps or durations.
    """

    def __init__(self, *times: Any) -> None:
        indices = [_index(time) for time in times]
        kinds = {_kind(index) for index in indices}
        if len(kinds) != 1:
            raise InputError(
                f"time: {' and '.join(sorted(kinds)) or 'nothing'} found for one axis. "
                "Give the times of predictions and data as one kind."
            )
        self.kind = kinds.pop()
        self.zone = indices[0].tz if self.kind == "timestamps" else None
        self.unit = _unit(indices) if self.kind == "durations" else None

    def positions(self, time: Any) -> Float64[ndarray, " N"]:
        """Times as numbers on the axis: themselves, days since an epoch, or units of duration."""
        index = _index(time)
        if self.kind == "timestamps":
            if index.tz is not None:
                index = index.tz_convert("UTC").tz_localize(None)
            return np.asarray(date2num(index.to_numpy()), dtype=np.float64)
        if self.unit is not None:
            return _nanoseconds(index) / _UNITS[self.unit]
        return index.to_numpy(dtype=np.float64)

    def dress(self, ax: Axes, label: str | None = None) -> Axes:
        """Put ticks that suit the kind of time on an axis, and its label with zone or unit."""
        if self.kind == "timestamps":
            locator = AutoDateLocator(tz=self.zone, minticks=3, maxticks=7)
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=self.zone))
            ax.xaxis.get_offset_text().set(fontsize=SMALL, color=DARK)
        if label:
            detail = self.unit or (str(self.zone) if self.zone else "")
            text = f"{label} ({detail})" if detail else label
            ax.set_xlabel(escaped(text), fontsize=NORMAL)
        return ax


def _index(time: Any) -> Any:
    return pd.Index([time] if pd.api.types.is_scalar(time) else time)


def _kind(index: Any) -> str:
    if isinstance(index, pd.DatetimeIndex):
        return "timestamps"
    if isinstance(index, pd.TimedeltaIndex):
        return "durations"
    if pd.api.types.is_numeric_dtype(index.dtype):
        return "numbers"
    raise InputError(
        f"time: type {index.dtype} cannot be put on an axis. Give numbers, timestamps or durations."
    )


def _unit(indices: list[Any]) -> str:
    ends = np.concatenate([_nanoseconds(index) for index in indices])
    span = float(np.nanmax(ends) - np.nanmin(ends))
    return next((unit for unit, size in _UNITS.items() if span >= _LEAST_UNITS * size), "ns")


def _nanoseconds(index: Any) -> Float64[ndarray, " N"]:
    return np.asarray(index / pd.Timedelta(1, "ns"), dtype=np.float64)
