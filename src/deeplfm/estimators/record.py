"""The training rows of a forecaster by time, and other frames read by the same columns and time axis."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray
from pandas.api.types import infer_dtype, is_integer_dtype

from deeplfm.errors import ConfigError, InputError
from deeplfm.estimators.columns import Name, Roles, as_frame, check_complete, listing
from deeplfm.estimators.known_inputs import KnownInputs
from deeplfm.estimators.layouts import layout_of
from deeplfm.estimators.stamps import date_order_of, kind_of, read_stamps
from deeplfm.estimators.steps import ROUNDING
from deeplfm.estimators.timeline import Timeline

FEWEST_KNOWN = 3
_WIDE, _MOST_MISSING = 1.5, 10  # usual steps that are a gap; steps without a row for each with one
_UNEVEN = 0.1  # of the median step: half of the steps differ by more
_DRAWN, _PER_STEP = 2000, 4  # most even times of a figure where steps are uneven, and for each step


@dataclass(frozen=True)
class Record:
    """Rows of targets and covariates by time."""

    timeline: Timeline
    targets: list[Name]
    covariates: list[Name]
    rows: pd.DataFrame
    known: KnownInputs = field(default_factory=KnownInputs)
    missing_values: tuple[float, ...] = ()

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        roles: Roles,
        duplicates: str = "refuse",
        zone: str | None = None,
        missing_values: Any = None,
        calendar: Any = None,
        holidays: str | None = None,
    ) -> Record:
        """The record of a user's frame; see ``DeepLFMForecaster.fit`` for the arguments."""
        times, where = roles.times(frame)
        stamps = read_stamps(times, where, zone=zone).rename(roles.time)
        if zone is not None and kind_of(stamps) != "timestamp":
            raise InputError(
                f"zone: {zone!r} given, but {where} holds {kind_of(stamps)}s. Leave zone out."
            )
        known = KnownInputs.of(frame, roles.covariates, stamps, calendar, holidays)
        missing = check_missing_values(missing_values)
        values = roles.values(frame, stamps, known, missing)
        rows = in_order(values, frame, duplicates, known.levels)
        check_observed(rows[roles.targets])
        timeline = replace(
            Timeline.of(rows.index, roles.time),
            date_order=date_order_of(times, where),
            columns=roles.time_columns,
            **_own_index(times, stamps),
        )
        return cls(timeline, roles.targets, roles.covariates, rows, known, missing)

    @property
    def observed(self) -> pd.DataFrame:
        """The targets by time."""
        return self.rows[self.targets]

    def read(self, frame: pd.DataFrame, with_targets: bool = True) -> pd.DataFrame:
        """Targets and covariates of another frame by time, in the order of its rows."""
        stamps = self.times_of(frame)
        return self._roles.values(frame, stamps, self.known, self.missing_values, with_targets)

    def times_of(self, frame: pd.DataFrame) -> pd.Index:
        """Times of the rows of another frame."""
        return self.timeline.read(*self._roles.times(as_frame(frame, "frame")))

    @property
    def _roles(self) -> Roles:
        return Roles(self.timeline.name, self.targets, self.covariates, self.timeline.columns)

    def unseen(self, values: pd.DataFrame) -> pd.DataFrame:
        """Rows from :meth:`read` that have values missing from the record, and only these values."""
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
        """Rows of a frame in order at some times; numbers may differ by rounding."""
        if self.timeline.kind != "number":
            return frame.reindex(index)
        room = ROUNDING * self.timeline.step.size
        return frame.reindex(index, method="nearest", tolerance=room)

    def extended(self, news: pd.DataFrame) -> Record:
        """The record with rows, and values in gaps, that it did not have."""
        rows = self.rows.combine_first(news)[self.rows.columns].rename_axis(self.timeline.name)
        return replace(self, rows=rows, timeline=self.timeline.refined(rows.index))

    def ahead(
        self, horizon: int | None, until: Any, times: Any, covariates: pd.DataFrame | None
    ) -> pd.Index:
        """The times of a forecast; see ``DeepLFMForecaster.forecast`` for the arguments."""
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

    def drawn(self, ahead: pd.Index | None = None, n_rows: int | None = None) -> pd.Index:
        """Times at which a figure draws a prediction: rows, missing steps between them, and a forecast.

        Where steps are uneven, even times between them show what a line from row to row would hide.
        """
        index = self.rows.index[-min(n_rows or len(self.rows), len(self.rows)) :]
        ahead = index[:0] if ahead is None else ahead
        if self.covariates or self._is_even(index):
            return self._drawn(index).union(ahead)
        return self._drawn(index.union(ahead))

    def _is_even(self, index: pd.Index) -> bool:
        """Whether most steps are about equal."""
        steps = np.diff(self.timeline.numbers(index))
        return len(steps) < 2 or float(np.median(np.abs(steps / np.median(steps) - 1))) < _UNEVEN

    def _drawn(self, index: pd.Index) -> pd.Index:
        if len(index) < 2 or self.covariates:
            return index
        steps = np.diff(self.timeline.numbers(index))
        if not self._is_even(index):
            n_even = int(min(_DRAWN, _PER_STEP * steps.sum() / np.median(steps)))
            return index.union(_evenly(index, n_even))
        usual = float(np.median(steps))
        wide = np.flatnonzero(steps > _WIDE * usual)
        n_missing = steps[wide].sum() / usual
        if not len(wide) or n_missing > _MOST_MISSING * len(index):
            return index
        between = [self.timeline.until(index[i : i + 1], index[i + 1]) for i in wide]
        return index.append(between).unique().sort_values()

    def inputs(self, values: pd.DataFrame) -> Float64[ndarray, "N P"]:
        """Inputs of a model: the time as a number, and the covariates."""
        others = self.known.columns(values, self.covariates)
        return np.column_stack([self.timeline.numbers(values.index), others])

    def inputs_at(
        self, index: pd.Index, covariates: pd.DataFrame | None
    ) -> Float64[ndarray, "N P"]:
        """Inputs of a model at some times, with covariates of the record or of a user's frame."""
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


def _own_index(times: Any, stamps: pd.Index) -> dict[str, Any]:
    """Frequency, periods and layout of the times that a user gave."""
    if not isinstance(stamps, pd.DatetimeIndex):
        return {}
    is_period = isinstance(times.dtype, pd.PeriodDtype)
    frequency = times.dtype.freq if is_period else getattr(times, "freq", None)
    if frequency is not None and (is_period or frequency.n > 0):
        name = pd.PeriodIndex([], freq=frequency).freqstr if is_period else frequency.freqstr
        return {"frequency": name, "is_period": is_period}
    return {"layout": layout_of(times, stamps)}


def check_missing_values(values: Any) -> tuple[float, ...]:
    """Numbers that mark a missing value, as a user gave one or several."""
    given = [] if values is None else [values] if np.ndim(values) == 0 else list(values)
    try:
        return tuple(float(value) for value in given)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"missing_values: {values!r} found. Give numbers, such as [-200, -999]."
        ) from error


def in_order(
    values: pd.DataFrame, frame: pd.DataFrame, duplicates: str, categories: Collection[Name] = ()
) -> pd.DataFrame:
    """Rows in the order of their times, which are unique."""
    if duplicates not in ("refuse", "mean"):
        raise ConfigError(f"duplicates: {duplicates!r} found. Choose 'refuse' or 'mean'.")
    is_twice = values.index.duplicated(keep=False)
    if not is_twice.any():
        return values.sort_index(kind="stable")
    if duplicates == "mean":
        how = {name: "first" if name in categories else "mean" for name in values.columns}
        return values.groupby(level=0).agg(how)
    name = _series_label(values.index, frame)
    if name is not None:
        raise InputError(
            f"column {name!r}: the frame holds several series, one for each value of this column, "
            f"in rows of the same time. Name it to fit each series: series={name!r}. If they are outputs "
            f"of one model, give each its own column: frame.pivot(index=time, columns={name!r}, "
            "values=target). If it holds clocks, join it to the dates."
        )
    stamp = values.index[is_twice][0]
    rows = np.flatnonzero(values.index == stamp)
    raise InputError(
        f"time {stamp}: found in {len(rows)} rows ({listing(rows.tolist())}); {is_twice.sum()} of "
        f"{len(values)} rows share their time with another. Remove all but one, or average them "
        "with duplicates='mean'."
    )


def check_observed(observed: pd.DataFrame) -> None:
    """Refuse targets with too few known values, and warn of constants."""
    for name, column in observed.items():
        known = column.dropna()
        if len(known) < FEWEST_KNOWN:
            raise InputError(
                f"column {name!r}: {len(known)} of {len(column)} values are known; at least "
                f"{FEWEST_KNOWN} are needed. Leave the column out, or give more data."
            )
        if known.min() == known.max():
            warnings.warn(
                f"column {name!r}: all known values are {known.iloc[0]:g}, and so is its forecast, whose "
                "intervals have no meaning. Leave it out if it should vary.",
                stacklevel=4,
            )


def _series_label(stamps: pd.Index, frame: pd.DataFrame) -> Name | None:
    """The column whose labels distinguish rows of the same time, as in a long table of several series."""
    most_at_once = stamps.value_counts().max()
    for name in frame.columns:
        column = frame[name]
        n_labels = column.nunique()
        is_number = is_integer_dtype(column.dtype) and n_labels == most_at_once
        is_label = isinstance(column.dtype, pd.CategoricalDtype) or infer_dtype(column) == "string"
        if not (is_label or is_number) or n_labels == len(column):
            continue
        pairs = pd.DataFrame({"time": stamps, "label": column.to_numpy()})
        if not pairs.duplicated().any():
            return name
    return None


def _evenly(index: pd.Index, n: int) -> pd.Index:
    """Even times between the first and the last one, which are counted too."""
    shares, span = np.linspace(0, 1, max(n, 2))[1:-1], index[-1] - index[0]
    if not isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
        return pd.Index(index[0] + span * shares, name=index.name)
    even = index[0] + pd.to_timedelta(np.asarray(span * shares))
    return even.as_unit(index.unit).rename(index.name)
