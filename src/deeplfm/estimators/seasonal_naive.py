"""The forecast of a series that has no model: its last season, repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import t as student_t
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.estimators.columns import Name, Roles
from deeplfm.estimators.predictions import interval_columns
from deeplfm.estimators.record import Record
from deeplfm.estimators.stamps import LARGEST, read_stamps
from deeplfm.estimators.timeline import Timeline
from deeplfm.io.archive import Contents


@dataclass(frozen=True)
class SeasonalNaive:
    r"""Repeats the last season: ŷ(t) = y(t − k m), with the least k for which this value is known.

    A season of m steps is the longest of the calendar that the rows hold twice, else one step. The
    spread of y(t) − y(t − m) over all known pairs is s; the variance of the forecast is k s², as that of
    a seasonal random walk, and its distribution Student's t with as many degrees of freedom as pairs.
    """

    timeline: Timeline
    rows: pd.DataFrame

    @classmethod
    def of(cls, frame: pd.DataFrame, time: Any, targets: list[Name]) -> SeasonalNaive:
        """The rows of a series as far as they can be read; the rest is missing."""
        roles = Roles.choose(frame, time, targets, None)
        stamps = read_stamps(*roles.times(frame)).rename(roles.time)
        values = frame[roles.targets].apply(
            lambda column: pd.to_numeric(column.astype(object), errors="coerce")
        )
        rows = values.astype(np.float64).where(values.abs() <= LARGEST).set_axis(stamps, axis=0)
        rows = rows.groupby(level=0).mean().dropna(how="all")
        if len(rows) < 2:
            raise InputError(f"series: {len(rows)} rows have a known value. At least 2 are needed.")
        timeline = replace(Timeline.of(rows.index, roles.time), columns=roles.time_columns)
        return cls(timeline, rows.rename_axis(roles.time))

    def forecast(
        self,
        horizon: int | None = None,
        until: Any = None,
        times: Any = None,
        coverage: float = 0.95,
        level: Any = None,
        quantiles: Any = None,
        conformal: Any = None,
    ) -> pd.DataFrame:
        """The table that :meth:`DeepLFMForecaster.forecast` has; ``conformal`` changes no interval."""
        targets = list(self.rows.columns)
        index = Record(self.timeline, targets, [], self.rows).ahead(horizon, until, times, None)
        chosen = interval_columns(coverage, level, quantiles)
        found: dict[str, Any] = {}
        for name in targets:
            mean, std, n_pairs = self._predicted(self.rows[name].dropna(), index)
            found |= {name: mean, f"{name}_std": std}
            for suffix, at in chosen.items():
                found[f"{name}{suffix}"] = mean + std * student_t.ppf(at, max(1, n_pairs))
        return pd.DataFrame(found, index=self.timeline.shown(index))

    def _predicted(
        self, known: pd.Series, index: pd.Index
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Mean and standard deviation at some times, and the number of pairs behind the latter."""
        if known.empty:
            nothing = np.full(len(index), np.nan)
            return nothing, nothing, 0
        numbers = self.timeline.numbers(self.rows.index)
        is_number = self.timeline.kind == "number"
        step = self.timeline.step.size if is_number else self.timeline.length(1)
        begin = numbers[0]
        places = np.rint((self.timeline.numbers(known.index) - begin) / step).astype(int)
        ahead = np.rint((self.timeline.numbers(index) - begin) / step).astype(int)
        season = self._season(step, len(known))
        at = dict(zip(places.tolist(), known.to_numpy(), strict=True))
        pairs = [value - at[p - season] for p, value in at.items() if p - season in at]
        size = float(np.sqrt(np.mean(np.square(pairs)))) if pairs else np.nan
        mean, cycles = np.empty(len(index)), np.empty(len(index))
        for i, place in enumerate(ahead):
            k = 1
            while place - k * season not in at and place - k * season >= places[0]:
                k += 1
            mean[i] = at.get(place - k * season, known.mean())
            cycles[i] = k
        return mean, size * np.sqrt(cycles), len(pairs)

    def _season(self, step: float, n_rows: int) -> int:
        lengths = [round(period / step) for period in self.timeline.seasons()]
        return max((m for m in lengths if 2 * m <= n_rows), default=1)

    def described(self) -> Contents:
        """Plain data and tensors from which :meth:`restored` makes the same."""
        values = torch.from_numpy(self.rows.to_numpy(dtype=np.float64, copy=True))
        tensors = {"values": values, "times": self.timeline.ticks(self.rows.index)}
        return {"timeline": self.timeline.to_dict(), "targets": list(self.rows.columns)}, tensors

    @classmethod
    def restored(cls, description: dict[str, Any], tensors: dict[str, Tensor]) -> SeasonalNaive:
        """The forecast rule that was described."""
        timeline = Timeline.from_dict(description["timeline"])
        index = timeline.from_ticks(tensors["times"])
        rows = pd.DataFrame(tensors["values"].numpy(), index=index, columns=description["targets"])
        return cls(timeline, rows)
