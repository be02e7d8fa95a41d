"""The estimator for frames of series: forecasts, filled gaps and scores in the user's own times."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.estimators.candidates import in_time_units
from deeplfm.estimators.columns import SUFFIXES, Name, Roles, as_frame, fill_gaps
from deeplfm.estimators.evaluation import backtest, score_table
from deeplfm.estimators.inspected import InspectedForecaster
from deeplfm.estimators.record import Record, in_order
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.saving import describe_forecaster, rebuild_forecaster
from deeplfm.estimators.settings import DeepLFMSettings, with_parameters
from deeplfm.estimators.timeline import Timeline
from deeplfm.io.archive import Contents, Saved
from deeplfm.predictive.mixture import Predictive


@with_parameters
class DeepLFMForecaster(InspectedForecaster, Saved, DeepLFMSettings):
    """Deep latent force model of a frame of series: forecasts and filled gaps with intervals.

    Times are numbers, timestamps or durations, regular or not, in any order; gaps are NaN. All
    results are in the user's units, names, kind of time and time zone.

    Attributes:
        regressor_: the fitted :class:`~deeplfm.DeepLFMRegressor`, whose first input is
            ``timeline_.numbers(times)``.
        timeline_: kind, zone and step of time.
        targets_: names of the predicted columns.
        covariates_: names of the columns that are known at all times.
        training_: what was learned from: targets and covariates as floats, by time, in order.

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

    regressor_: DeepLFMRegressor
    timeline_: Timeline
    targets_: list[Name]
    covariates_: list[Name]
    training_: pd.DataFrame
    _frame: pd.DataFrame | None = None  # as the user gave it to fit

    def fit(
        self,
        frame: pd.DataFrame,
        time: Name | None = None,
        targets: Name | list[Name] | None = None,
        covariates: Name | list[Name] | None = None,
        *,
        duplicates: str = "refuse",
        zone: str | None = None,
    ) -> Self:
        """Learn the series in a frame.

        Args:
            frame: a row for each time, in any order; NaN marks what is missing.
            time: name of the column of times; by default the index.
            targets: names of the columns to predict; by default all columns of numbers that are left.
            covariates: names of columns that are known at all times, also those to be forecast.
            duplicates: "refuse" rows of the same time, or take their "mean".
            zone: time zone in which timestamps are meant, such as "Europe/Berlin": for those that have
                none, or offsets that change with the clocks.
        """
        settings = self._settings()
        given = as_frame(frame, "frame")
        roles = Roles.choose(given, time, targets, covariates)
        record = Record.of(given, roles, duplicates, zone)
        settings["model"] = in_time_units(
            self.model, record.timeline.length, record.timeline.seasons(), self.effort
        )
        self.regressor_ = DeepLFMRegressor(**settings).fit(
            record.inputs(record.rows), record.observed.reset_index(drop=True)
        )
        self._set_record(record)
        self._frame = given.copy()
        return self

    @property
    def selection_(self) -> pd.DataFrame:
        """Candidates of the fit, as :attr:`DeepLFMRegressor.selection_` shows them."""
        check_is_fitted(self)
        return self.regressor_.selection_

    def forecast(
        self,
        horizon: int | None = None,
        until: Any = None,
        times: Any = None,
        covariates: pd.DataFrame | None = None,
        coverage: float = 0.95,
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

        Returns:
            For each target the columns ``{target}``, ``{target}_std``, ``{target}_low`` and
            ``{target}_high``, indexed by time.
        """
        record = self._record
        index = record.ahead(horizon, until, times, covariates)
        return self._predictions(record.inputs_at(index, covariates), index, coverage)

    def posterior(self, times: Any, covariates: pd.DataFrame | None = None) -> Predictive:
        """Predictive distribution of the targets at any times; ``covariates`` as in forecasts."""
        record = self._record
        return self.regressor_.posterior(record.inputs_at(record.timeline.read(times), covariates))

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
        predicted = self._predictions(record.inputs(rows), rows.index, coverage)
        return fill_gaps(given, gaps, predicted, self.targets_, intervals)

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
        return score_table(self.regressor_, record.inputs(values), values[self.targets_])

    def known_at(self, times: Any) -> pd.DataFrame:
        """Which targets were known in training at some times, by time."""
        record = self._record
        return record.known_at(record.timeline.read(times))

    def backtest(self, folds: int = 5, horizon: int | None = None) -> pd.DataFrame:
        """Scores of forecasts from several origins in the past, one row for each fold and target.

        Each fold fits a model of the same settings to all rows before its origin and scores the next
        ``horizon`` rows; the last fold ends with the last row.

        Args:
            folds: number of origins.
            horizon: number of rows; by default a tenth of all, or less where more than five folds
                would leave less than half of the rows to the first fold.
        """
        record = self._record
        x = record.inputs(record.rows)
        settings = self._settings() | {"model": self.regressor_.model, "checkpoint": None}
        return backtest(settings, x, record.observed, folds, horizon)

    def update(self, later: pd.DataFrame, *, duplicates: str = "refuse") -> Self:
        """Take in new observations without training: exact output weights are updated in closed form.

        Args:
            later: a frame with the same columns. Values that were known before are left out, with a
                warning; those in gaps are taken in.
            duplicates: "refuse" rows of the same time, or take their "mean".
        """
        record, given = self._record, as_frame(later, "later")
        news = record.unseen(in_order(record.read(given), given, duplicates))
        self.regressor_.update(record.inputs(news), news[self.targets_].reset_index(drop=True))
        self._set_record(record.extended(news))
        self._frame = None
        return self

    def _predictions(
        self, x: Float64[ndarray, "N P"], index: pd.Index, coverage: float
    ) -> pd.DataFrame:
        """Mean, standard deviation and central interval of an observation of each target."""
        columns = [
            f"{name}{end}" if end else name for name in self.targets_ for end in ("", *SUFFIXES)
        ]
        if len(index) == 0:
            return pd.DataFrame(index=index, columns=columns, dtype=float)
        parts = self.regressor_._in_chunks(
            x,
            lambda posterior, _: (posterior.mean, posterior.std(), *posterior.interval(coverage)),
        )
        values = torch.stack(parts, dim=-1).flatten(1)  # N 4D
        return pd.DataFrame(values.numpy(), index=index, columns=columns)

    def _described(self) -> Contents:
        check_is_fitted(self)
        return describe_forecaster(self)

    @classmethod
    def _restored(
        cls, description: dict[str, Any], tensors: dict[str, Tensor], path: str | Path
    ) -> Self:
        return rebuild_forecaster(cls, DeepLFMRegressor, description, tensors, path)

    def _settings(self) -> dict[str, Any]:
        """Parameters of the regressor."""
        if self.is_series is False:
            raise ConfigError(
                "is_series: False found, but a forecaster learns series. Use DeepLFMRegressor for tables."
            )
        return self.get_params() | {"is_series": True}

    def _given(self, frame: pd.DataFrame | None) -> pd.DataFrame:
        """A frame of the user's, or the one that was fitted."""
        if frame is not None:
            return as_frame(frame, "frame")
        return self.training_ if self._frame is None else self._frame

    @property
    def _record(self) -> Record:
        check_is_fitted(self)
        return Record(self.timeline_, self.targets_, self.covariates_, self.training_)

    def _set_record(self, record: Record) -> None:
        self.timeline_, self.training_ = record.timeline, record.rows
        self.targets_, self.covariates_ = record.targets, record.covariates
