"""The estimator for frames of series: forecasts, filled gaps and scores in the user's own times."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.estimators.arrays import time_text
from deeplfm.estimators.candidates import in_time_units
from deeplfm.estimators.columns import Name, Roles, as_frame
from deeplfm.estimators.inspected import InspectedForecaster
from deeplfm.estimators.measurement_error import (
    by_target,
    error_columns,
    errors_of,
    without_errors,
)
from deeplfm.estimators.over_series import over_series
from deeplfm.estimators.record import Record, in_order
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.saving import describe_forecaster, rebuild_forecaster
from deeplfm.estimators.scaling import bounds_of
from deeplfm.estimators.settings import with_parameters
from deeplfm.estimators.timeline import Timeline
from deeplfm.io.archive import Contents, Saved
from deeplfm.io.storage import PARTS


@with_parameters
class DeepLFMForecaster(InspectedForecaster, Saved):
    """Deep latent force model of a frame of series: forecasts and filled gaps with intervals.

    Times are numbers, timestamps or durations, regular or not, in any order; gaps are NaN. All
    results are in the user's units, names, kind of time and time zone.

    Attributes:
        regressor_: the fitted :class:`~deeplfm.DeepLFMRegressor`, whose first input is
            ``timeline_.numbers(times)``.
        timeline_: kind, zone and step of time.
        targets_: names of the predicted columns.
        covariates_: names of the columns that are known at all times.
        inputs_: categories and calendar among the inputs.
        missing_values_: numbers that mark a missing target.
        measurement_error_: column of the measurement errors of each target that has one.
        training_: what was learned from: targets and covariates as floats, by time, in order. Periods
            are timestamps here, and categories the numbers of their levels.

    >>> import numpy as np
    >>> days = pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin", name="day")
    >>> frame = pd.DataFrame({"load": 50 + 9 * np.sin(np.arange(60) * 2 * np.pi / 7)}, index=days)
    >>> frame.iloc[20:23] = np.nan
    >>> model = DeepLFMForecaster(model="sinusoids + broadband", n_steps=5, random_state=0).fit(frame)
    >>> week = model.forecast(horizon=7)
    >>> list(week.columns), str(week.index[0])
    (['load', 'load_std', 'load_low', 'load_high'], '2024-03-01 00:00:00+01:00')
    >>> int(model.impute()["load"].isna().sum())
    0
    """

    def fit(
        self,
        frame: pd.DataFrame,
        time: Name | list[Name] | None = None,
        targets: Name | list[Name] | None = None,
        covariates: Name | list[Name] | None = None,
        *,
        duplicates: str = "refuse",
        zone: str | None = None,
        missing_values: float | list[float] | None = None,
        calendar: str | list[str] | None = None,
        holidays: str | None = None,
        floor: float | None = None,
        cap: float | None = None,
        series: str | None = None,
        pooled: bool = False,
        static: Any = None,
        measurement_error: Name | list[Name] | dict[Name, Name] | None = None,
    ) -> Self:
        """Learn the series in a frame.

        A frame in long form has a column that names the series of each row. Each series then has a
        forecaster of its own, ``model[name]``; methods return tables in long form, and ``series_`` shows
        what became of each.

        Args:
            frame: a row for each time, in any order; NaN marks what is missing. Of pandas, polars or
                Arrow.
            time: name of the column of times, or names of the columns of a year and its quarter, month,
                day or hour. By default the index; if that only counts the rows, the column ``ds``, the
                only column of timestamps, columns of a year and its parts, or a column ``time`` or
                ``year`` that does not repeat.
            targets: names of the columns to predict; by default all columns of numbers that are left.
            covariates: names of columns that are known at all times, also those to be forecast: numbers,
                truth values, or texts, of which each is a category.
            duplicates: "refuse" rows of the same time, or take their "mean".
            zone: time zone in which timestamps are meant, such as "Europe/Berlin": for those that have
                none, or offsets that change with the clocks.
            missing_values: numbers that mark a missing target, such as -999, beside NaN.
            calendar: parts of the calendar that affect the targets: "hour", "weekday", "weekend",
                "month" or "quarter".
            holidays: country whose public holidays affect the targets, such as "DE", or "DE-BY" for a
                part of it. Needs the package ``holidays``.
            floor: least value that a target can have; forecasts and intervals end there.
            cap: largest value that a target can have.
            series: name of the column that names the series of a frame in long form. By default
                ``unique_id`` or ``item_id``, if there is one.
            pooled: learn from all series of a panel how wide forecasts by sums in state-space form need
                to be, and the prior of the parameters of new series (``prior_``). It is for many short
                series of one frequency, whose own rows do not determine it.
            static: features of the series of a panel, with one row for each: the column of its name, and
                columns of numbers or labels. The prior of new series then depends on theirs. Needs
                ``pooled=True``.
            measurement_error: name of the column of standard deviations of the measurement errors, in the
                units of the targets: one for all targets, one for each, or a dict by target. Their
                variance adds to the noise of the row; intervals hold a value without such an error.
        """
        options = {
            "duplicates": duplicates,
            "zone": zone,
            "missing_values": missing_values,
            "calendar": calendar,
            "holidays": holidays,
            "floor": floor,
            "cap": cap,
        }
        roles_of_columns = (time, targets, covariates)
        if static is not None and not pooled:
            raise ConfigError(
                "static: pooled=False found, and features count for what series share. Add pooled=True."
            )
        of_panel = (options, pooled, static, measurement_error)
        if self._fit_panel(frame, series, roles_of_columns, *of_panel):
            return self
        settings = self._settings()
        given = as_frame(frame, "frame")
        with_errors = [] if measurement_error is None else error_columns(given, measurement_error)
        rest = given if measurement_error is None else without_errors(given, with_errors)
        roles = Roles.choose(rest, time, targets, covariates)
        record = Record.of(given, roles, duplicates, zone, missing_values, calendar, holidays)
        has_bounds = floor is not None or cap is not None
        bounds = bounds_of(record.observed, floor, cap) if has_bounds else None
        settings["model"] = in_own_units(self.model, record.timeline, self.effort)
        self.measurement_error_ = by_target(with_errors, record.targets) if with_errors else {}
        error = self._errors(record, given, record.rows)
        token = time_text.set(record.timeline.text_of)
        try:
            self.regressor_ = DeepLFMRegressor(**settings).fit(
                record.inputs(record.rows),
                record.observed.reset_index(drop=True),
                measurement_error=error,
            )
        finally:
            time_text.reset(token)
        self.regressor_.scaling_ = self.regressor_.scaling_.bounded(bounds)
        self._set_record(record)
        self._frame = given.copy()
        return self

    @property
    def selection_(self) -> pd.DataFrame:
        """Candidates of the fit, as :attr:`DeepLFMRegressor.selection_` shows them."""
        check_is_fitted(self)
        return self.regressor_.selection_

    @over_series
    def update(self, later: pd.DataFrame, *, duplicates: str = "refuse") -> Self:
        """Take in new observations without training: exact output weights are updated in closed form.

        Args:
            later: a frame with the same columns. Values that were known before are left out, with a
                warning; those in gaps are taken in. Columns of measurement errors may be left out.
            duplicates: "refuse" rows of the same time, or take their "mean".
        """
        record, given = self._record, as_frame(later, "later")
        values = in_order(record.read(given), given, duplicates, self.inputs_.levels)
        news = record.unseen(values)
        self.regressor_.update(
            record.inputs(news),
            news[self.targets_].reset_index(drop=True),
            measurement_error=self._errors(record, given, news),
        )
        self._set_record(record.extended(news))
        self._frame = None
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder, with its training rows, each series by itself."""
        if self.panel_ is None:
            super().save(path)
        else:
            self._save_panel(path)

    @property
    def is_written_here(self) -> bool:
        """Whether this process is to write it."""
        return self.regressor_.is_written_here

    def _errors(
        self, record: Record, given: pd.DataFrame, rows: pd.DataFrame
    ) -> NDArray[np.float64] | None:
        """Measurement errors of some rows, of which a user gave the frame."""
        if not self.measurement_error_:
            return None
        stamps = record.times_of(given)
        return errors_of(given, stamps, rows.index, record.targets, self.measurement_error_)

    def _described(self) -> Contents:
        check_is_fitted(self)
        return describe_forecaster(self)

    @classmethod
    def _restored(
        cls, description: dict[str, Any], tensors: dict[str, Tensor], path: str | Path
    ) -> Self:
        if PARTS in description:
            return cls._restore_panel(description, path)
        return rebuild_forecaster(cls, DeepLFMRegressor, description, tensors, path)

    def _set_record(self, record: Record) -> None:
        self.timeline_, self.training_ = record.timeline, record.rows
        self.targets_, self.covariates_ = record.targets, record.covariates
        self.inputs_, self.missing_values_ = record.known, record.missing_values


def in_own_units(model: Any, timeline: Timeline, effort: str) -> Any:
    """The argument ``model`` with periods in units of the model's time, by the user's own name."""
    converted = in_time_units(model, timeline.length, timeline.seasons(), effort)
    if isinstance(converted, dict) or str(converted) == str(model):
        return converted
    return {str(model): converted}
