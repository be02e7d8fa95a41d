"""The rows that a forecaster knows, and other frames read by the same clock and names."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.estimators.observations import as_frame, check_complete, check_enough, in_order
from deeplfm.estimators.roles import Name, Roles
from deeplfm.estimators.stamps import date_order_of, kind_of, read_stamps
from deeplfm.estimators.timeline import Timeline

_WIDE, _MOST_MISSING = 1.5, 10  # usual steps that are a gap; steps without a row for each with one


@dataclass(frozen=True)
class Record:
    """Rows of targets and covariates by time.

    Attributes:
        timeline: kind, zone and step of time.
        targets: names of the columns to be predicted.
        covariates: names of the columns that are known at all times.
        rows: targets and covariates as floats, by time, in order.
    """

    timeline: Timeline
    targets: list[Name]
    covariates: list[Name]
    rows: pd.DataFrame

    @classmethod
    def of(cls, frame: pd.DataFrame, roles: Roles, duplicates: str, zone: str | None) -> Record:
        """The record of a user's frame, or an error that says why there is none.

        Args:
            frame: rows in any order.
            roles: what its columns are.
            duplicates: "refuse" rows of the same time, or take their "mean".
            zone: of timestamps; ``None`` takes their own.
        """
        times, where = roles.times(frame)
        stamps = read_stamps(times, where, zone=zone).rename(roles.time)
        if zone is not None and kind_of(stamps) != "timestamp":
            raise InputError(
                f"zone: {zone!r} given, but {where} holds {kind_of(stamps)}s. Leave zone out."
            )
        rows = in_order(roles.values(frame, stamps), frame, duplicates)
        check_enough(rows, roles.targets)
        _warn_of_constants(rows[roles.targets])
        timeline = Timeline.of(rows.index, roles.time)
        timeline = replace(timeline, date_order=date_order_of(times, where))
        return cls(timeline, roles.targets, roles.covariates, rows)

    @property
    def observed(self) -> pd.DataFrame:
        """The targets by time."""
        return self.rows[self.targets]

    def read(self, frame: pd.DataFrame, with_targets: bool = True) -> pd.DataFrame:
        """Targets and covariates of another frame by time, in the order of its rows."""
        roles = Roles(self.timeline.name, self.targets, self.covariates)
        return roles.values(frame, self.timeline.read(*roles.times(frame)), with_targets)

    def unseen(self, values: pd.DataFrame) -> pd.DataFrame:
        """Rows that :meth:`read` gave with values that are not in the record, and only these values."""
        known = values[self.targets].notna()
        seen = known & self.known_at(values.index)
        n_seen, n_known = int(seen.to_numpy().sum()), int(known.to_numpy().sum())
        if n_seen == n_known:
            raise InputError(
                f"later: none of its {n_known} known values is new to the model. Give rows after "
                f"{self.rows.index[-1]}, or values of gaps in the training rows."
            )
        if n_seen:
            warnings.warn(
                f"later: {n_seen} of {n_known} values were known in training, and are left out.",
                stacklevel=3,
            )
        result = values.copy()
        result[self.targets] = values[self.targets].mask(seen)
        return result[(known & ~seen).any(axis=1)]

    def known_at(self, index: pd.Index) -> pd.DataFrame:
        """Which targets the record has at some times."""
        return self._at(self.observed, index).notna()

    def _at(self, frame: pd.DataFrame, index: pd.Index) -> pd.DataFrame:
        """Rows of a frame in order at some times, as far as numbers can be told apart."""
        if self.timeline.kind != "number":
            return frame.reindex(index)
        room = 1e-6 * self.timeline.step.size
        return frame.reindex(index, method="nearest", tolerance=room)

    def extended(self, news: pd.DataFrame) -> Record:
        """The record with rows, and values in gaps, that it did not have."""
        rows = self.rows.combine_first(news)[self.rows.columns].rename_axis(self.timeline.name)
        return replace(self, rows=rows, timeline=self.timeline.refined(rows.index))

    def ahead(
        self, horizon: int | None, until: Any, times: Any, covariates: pd.DataFrame | None
    ) -> pd.Index:
        """The times that a forecast is asked for; see ``DeepLFMForecaster.forecast``."""
        options = {"horizon": horizon, "until": until, "times": times}
        given = [name for name, value in options.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"forecast: {' and '.join(given)} found. Give only one of them.")
        if times is not None:
            return self.timeline.read(times)
        last = self.rows.index[-1:]
        if until is not None:
            return self.timeline.until(last, until)
        if horizon is None:
            known = self._known(covariates).index
            if known[-1] > last[0]:
                return known[known > last[0]]
            horizon = max(1, round(len(self.rows) / 10))
        return self.timeline.after(last, horizon)

    def drawn(self) -> pd.Index:
        """Times of the rows, and of the steps between them that no row has: a line needs both."""
        index = self.rows.index
        steps = np.diff(self.timeline.numbers(index))
        usual = float(np.median(steps))
        wide = np.flatnonzero(steps > _WIDE * usual)
        n_missing = steps[wide].sum() / usual
        if self.covariates or not len(wide) or n_missing > _MOST_MISSING * len(index):
            return index
        between = [self.timeline.until(index[i : i + 1], index[i + 1]) for i in wide]
        return index.append(between).unique().sort_values()

    def inputs(self, values: pd.DataFrame) -> Float64[ndarray, "N P"]:
        """What a model sees of rows by time: the time as a number, and the covariates."""
        covariates = values[self.covariates].to_numpy(dtype=np.float64)
        return np.column_stack([self.timeline.numbers(values.index), covariates])

    def inputs_at(
        self, index: pd.Index, covariates: pd.DataFrame | None
    ) -> Float64[ndarray, "N P"]:
        """What a model sees at some times, with covariates of the record or of a user's frame."""
        known = self._known(covariates)
        found = self._at(known, index)
        for name in self.covariates:
            check_complete(found[name], name, " with covariates=")
        return self.inputs(found)

    def _known(self, covariates: pd.DataFrame | None) -> pd.DataFrame:
        """Covariates of the record, and those that a user gave, by time in order."""
        known = self.rows[self.covariates]
        if covariates is None:
            return known
        if not self.covariates:
            raise InputError(
                "covariates: given, but the model was fitted without any. Leave them out."
            )
        given = as_frame(covariates, "covariates")
        more = in_order(self.read(given, with_targets=False), given, "refuse")
        both = pd.concat([more, known])
        return both[~both.index.duplicated()].sort_index()


def _warn_of_constants(observed: pd.DataFrame) -> None:
    for name, column in observed.items():
        known = column.dropna()
        if known.min() == known.max():
            warnings.warn(
                f"column {name!r}: all known values are {known.iloc[0]:g}, and so will be its forecast, "
                "whose intervals mean nothing. Leave it out if it should vary.",
                stacklevel=4,
            )
