"""Forecasts, filled gaps and scores of a fitted forecaster, in the user's own times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray
from sklearn.utils.validation import check_is_fitted

from deeplfm.errors import ConfigError
from deeplfm.estimators import evaluation
from deeplfm.estimators.columns import Name, as_frame
from deeplfm.estimators.known_inputs import KnownInputs
from deeplfm.estimators.over_series import OverSeries, over_series
from deeplfm.estimators.predictions import fill_gaps, interval_columns, prediction_table
from deeplfm.estimators.record import Record
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.scaling import Array
from deeplfm.estimators.timeline import Timeline
from deeplfm.predictive.mixture import Predictive


class Forecasting(OverSeries):
    """Forecasts, filled gaps and scores of a fitted forecaster."""

    regressor_: DeepLFMRegressor
    timeline_: Timeline
    targets_: list[Name]
    covariates_: list[Name]
    inputs_: KnownInputs
    missing_values_: tuple[float, ...]
    measurement_error_: dict[Name, Name]
    training_: pd.DataFrame
    _frame: pd.DataFrame | None = None  # as the user gave it to fit

    @over_series
    def forecast(
        self,
        horizon: int | None = None,
        until: Any = None,
        times: Any = None,
        covariates: pd.DataFrame | None = None,
        coverage: float = 0.95,
        *,
        level: float | list[float] | None = None,
        quantiles: float | list[float] | None = None,
        conformal: int | None = None,
        fallback: bool = False,
    ) -> pd.DataFrame:
        """Expected values of the targets and intervals that hold an observation, by time.

        Give one of ``horizon``, ``until`` and ``times``. Without any, the times of the covariates after
        the training rows are forecast, or where there are none, a tenth of the number of these rows.

        Args:
            horizon: number of steps after the last training row, by its calendar or median step.
            until: last time to forecast; it is included where a step meets it.
            times: any times, past or future.
            covariates: a frame of the covariates at all forecast times, if the model was fitted with
                some; times of training rows need none.
            coverage: probability of the interval.
            level: several intervals in place of one, in per cent, such as [80, 95].
            quantiles: quantiles in place of intervals, such as [0.1, 0.5, 0.9], or beside ``level``.
            conformal: number of origins in the past whose later values set the widths of intervals and
                the distances of quantiles from the median (split conformal prediction). Each origin
                costs a fit and is followed by as many rows as are forecast. Values after one origin
                depend on each other, so that the share inside is approximate.
            fallback: repeat the last season of those series of a panel that could not be fitted, with
                the intervals of a seasonal random walk.

        Returns:
            For each target the columns ``{target}``, ``{target}_std``, ``{target}_low`` and
            ``{target}_high``, indexed by time. With ``level``, intervals are ``{target}_low_80`` and
            ``{target}_high_80``; with ``quantiles``, there are columns ``{target}_q0.1``.
        """
        record = self._record
        columns = interval_columns(coverage, level, quantiles)
        index = record.ahead(horizon, until, times, covariates)
        x = record.inputs_at(index, covariates)
        instead = None
        if conformal is not None:
            instead = evaluation.conformal(*self._past(), conformal, len(index), self._bounds)
        return prediction_table(
            self.regressor_, x, self.timeline_.shown(index), self.targets_, columns, instead
        )

    @over_series
    def predict(self, X: Any = None, covariates: pd.DataFrame | None = None) -> pd.DataFrame:
        """Expected values of the targets alone, by time: the point forecast of :meth:`forecast`.

        Args:
            X: a number of steps after the last row, times, or a frame that has the column of times, such
                as Prophet's ``future``; it may hold the covariates too. By default as in
                :meth:`forecast`.
            covariates: a frame of the covariates at all these times.
        """
        horizon, times = None, X
        if isinstance(X, int | np.integer):
            horizon, times = int(X), None
        elif isinstance(X, pd.DataFrame):
            times = self._record.times_of(X)
            covariates = X if self.covariates_ and covariates is None else covariates
        return self.forecast(horizon, times=times, covariates=covariates)[self.targets_]

    def posterior(self, times: Any, covariates: pd.DataFrame | None = None) -> Predictive:
        """Predictive distribution of the targets at any times; ``covariates`` as in forecasts."""
        record = self._record
        return self.regressor_.posterior(record.inputs_at(record.timeline.read(times), covariates))

    @over_series
    def impute(
        self,
        frame: pd.DataFrame | None = None,
        *,
        intervals: bool = False,
        coverage: float = 0.95,
    ) -> pd.DataFrame:
        """The user's frame with the gaps of the targets filled, and everything else as it was.

        Args:
            frame: another frame with the same columns; by default the one that was fitted, or, after
                :meth:`load` or :meth:`update`, all of ``training_``.
            intervals: add the columns ``{target}_std``, ``{target}_low`` and ``{target}_high``, which
                have values where a gap was filled.
            coverage: probability of the interval.
        """
        record, given = self._record, self._given(frame)
        values = record.read(given)
        gaps = values[self.targets_].isna().to_numpy()
        rows = values[gaps.any(axis=1)]
        columns = interval_columns(coverage, None, None)
        x = record.inputs(rows)
        predicted = prediction_table(self.regressor_, x, rows.index, self.targets_, columns)
        return fill_gaps(given, gaps, predicted, self.targets_, intervals)

    @over_series
    def evaluate(self, later: pd.DataFrame) -> pd.DataFrame:
        """Scores on values that the model has not seen, for each target.

        Args:
            later: a frame with the same columns. Values that were known in training are left out, with
                a warning; those in its gaps are scored as well.

        Returns:
            Indexed by target: rows, nmse, mnll, crps, rmse, mae, coverage95.
        """
        record = self._record
        values = record.unseen(record.read(as_frame(later, "later")))
        return evaluation.score_table(self.regressor_, record.inputs(values), values[self.targets_])

    def known_at(self, times: Any) -> pd.DataFrame:
        """Which targets were known in training at some times, by time."""
        record = self._record
        return record.known_at(record.timeline.read(times))

    @over_series
    def backtest(self, folds: int = 5, horizon: int | None = None) -> pd.DataFrame:
        """Scores of forecasts from several origins in the past, one row for each fold and target.

        Each fold fits a model of the same settings to all rows before its origin and scores the next
        ``horizon`` rows; the last fold ends with the last row.

        Args:
            folds: number of origins.
            horizon: number of rows; by default a tenth of all, or less where more than five folds
                would leave less than half of the rows to the first fold.
        """
        return evaluation.backtest(*self._past(), folds, horizon, self._bounds)

    def _past(self) -> tuple[dict[str, Any], Float64[ndarray, "N P"], pd.DataFrame]:
        """Settings, inputs and known values, for fits at earlier origins."""
        if self.measurement_error_:
            raise ConfigError(
                "backtest: the model was fitted with measurement_error, which the training rows do not "
                "hold. Fit to the rows before an origin, and evaluate(later), for each origin."
            )
        record = self._record
        settings = self._settings() | {"model": self.regressor_.model, "checkpoint": None}
        return settings, record.inputs(record.rows), record.observed

    @property
    def _bounds(self) -> Array | None:
        return self.regressor_.scaling_.bounds

    def _given(self, frame: pd.DataFrame | None) -> pd.DataFrame:
        """A frame of the user's, or the one that was fitted."""
        if frame is not None:
            return as_frame(frame, "frame")
        return self.training_ if self._frame is None else self._frame

    @property
    def _record(self) -> Record:
        check_is_fitted(self)
        if self.panel_ is not None:
            raise ConfigError(
                f"series: this forecaster has {len(self.panel_)} of them. Ask one: model[name], with a "
                "name of series_.index."
            )
        return Record(
            self.timeline_,
            self.targets_,
            self.covariates_,
            self.training_,
            self.inputs_,
            self.missing_values_,
        )
