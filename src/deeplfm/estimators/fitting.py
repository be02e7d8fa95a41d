"""The ways to fit a regressor: as a whole, by the evidence, or by a comparison on held-out rows."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from math import isinf
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names

from deeplfm.errors import ConfigError, UnsuitableError
from deeplfm.estimators.arrays import Arrays, check_vector
from deeplfm.estimators.by_evidence import (
    fit_by_evidence,
    is_exact,
    is_positive,
    is_solved,
    with_errors,
)
from deeplfm.estimators.by_others import fits_into_memory, with_others
from deeplfm.estimators.candidates import Model
from deeplfm.estimators.logarithms import Trial, best_trial, check_positive, may_be_logarithms
from deeplfm.estimators.saving import identity_in_brief, run_identity
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.settings import DeepLFMSettings
from deeplfm.estimators.targets import Labels, warn_of_outliers
from deeplfm.kernels import compiled_kernels
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.backends import on_backend
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.fitting import fit_candidate
from deeplfm.selection.record import Selection
from deeplfm.selection.select import compare
from deeplfm.terms import Dlfm, NamedModel, Sum
from deeplfm.training import Rows, RowSource, StoredRows
from deeplfm.training.checkpoint import checkpointed, part, unit
from deeplfm.training.distributed import check_same, together, world
from deeplfm.training.interruption import (
    graceful_interrupts,
    stop_requested,
    within,
)
from deeplfm.training.progress import work

if TYPE_CHECKING:
    from deeplfm.estimators.regressor import DeepLFMRegressor

_MANY_VALUES = 5000  # of targets, whose fit may take more than seconds


class Fitting(DeepLFMSettings):
    """Fits of declared models to the user's rows."""

    model_: ModelAverage
    scaling_: Scaling
    fit_result_: Selection
    labels_: Labels
    is_series_: bool
    dtype_: torch.dtype
    n_features_in_: int

    def fit(self, X: Any, y: Any, sample_weight: Any = None, measurement_error: Any = None) -> Self:
        """Fit to inputs and targets; NaN in y marks a missing target.

        Args:
            X: times (a vector in increasing order, or one column) or a table of inputs. Memory-mapped
                arrays stay on disk: memory does not grow with their rows.
            y: one or several targets for each row.
            sample_weight: how many rows each one stands for, in training and in scores.
            measurement_error: standard deviation of the measurement error of each row, or of each target
                of each row, in its units. Its variance adds to the noise. Sums of trend, season, level,
                reversion and covariates take it, and ``model="auto"`` then tries no others.
        """
        with together(self.device) as processes:
            _check_feature_names(self, X, reset=True)
            arrays = Arrays.of(X, y, sample_weight, measurement_error=measurement_error).merged()
            check_vector(X, self.is_series)
            self.n_features_in_ = arrays.x.shape[1]
            self.is_series_ = self.n_features_in_ == 1 if self.is_series is None else self.is_series
            self.labels_ = Labels.of(y, arrays.y.shape[1])
            models = self._models(self.is_series_, len(arrays))
            if arrays.error is not None:
                models = with_errors(models, self.log_targets)
            self.dtype_ = self._dtype(models)
            if self.is_series_:
                arrays = arrays.by_time().trimmed()
                if not all(
                    isinstance(model, NamedModel) or is_solved(model) for model in models.values()
                ):
                    arrays = arrays.most_recent(in_batches=self.batch_size is not None)
                if not arrays.are_large:
                    warn_of_outliers(arrays.read(slice(None))[1], self.labels_.texts)
            if world().size > 1:
                check_same(identity_in_brief(cast("DeepLFMRegressor", self), arrays))
            with (
                checkpointed(
                    self.checkpoint, lambda: run_identity(cast("DeepLFMRegressor", self), arrays)
                ),
                compiled_kernels(self.compile),
                on_backend(self.backend),
                graceful_interrupts(),
                within(self.time_limit),
            ):
                self.scaling_, self.model_, self.fit_result_ = self._fit(arrays, models)
            self.writes_ = processes.writes
            if self.fit_result_.interrupted:
                warnings.warn(
                    f"fit: interrupted. Kept the best so far ({', '.join(self.fit_result_.names)}); fit "
                    "again to train all candidates.",
                    stacklevel=2,
                )
            elif self.fit_result_.untried:
                warnings.warn(
                    f"fit: time_limit={self.time_limit} left no time to try "
                    f"{', '.join(self.fit_result_.untried)}. Give more seconds, or choose one model.",
                    stacklevel=2,
                )
        return self

    def _rows(self, arrays: Arrays, scaling: Scaling) -> RowSource:
        """The user's rows in the model's units: now, or as they are read."""
        where: dict[str, Any] = {"dtype": self.dtype_, "device": self.device}

        def read(index: torch.Tensor) -> Rows:
            some = index.cpu().numpy()
            x, y, weight = arrays.read(some)
            error = arrays.read_error(some)
            variance = None if error is None else (error / scaling.y_scale) ** 2
            parts = (scaling.inputs(x), scaling.outputs(y), weight, variance)
            return Rows(
                *(
                    None if item is None else torch.as_tensor(item, **where)  # type: ignore[arg-type]
                    for item in parts
                )
            )

        rows = StoredRows(read, len(arrays))
        return rows if arrays.are_large else rows.everything()

    def _fit(
        self, arrays: Arrays, models: dict[str, Model]
    ) -> tuple[Scaling, ModelAverage, Selection]:
        only = next(iter(models.values())) if len(models) == 1 else None
        if isinstance(only, NamedModel) and not only.is_calibrated:  # trained on all rows, as it is
            scaling = self._scaling(arrays, self._logarithms(arrays, by_itself=False))
            (candidate,) = self._candidates(models, float(scaling.x_scale[0]))
            with unit(candidate.name):
                model, history = fit_candidate(
                    candidate,
                    self._rows(arrays, scaling),
                    self.is_series_,
                    self.random_state,
                    self.progress,
                )
            return scaling, ModelAverage.of(model), Selection.of_one(candidate.name, history)

        solved = {n: m for n, m in models.items() if isinstance(m, Sum) and is_solved(m)}
        solved = dict(sorted(solved.items(), key=lambda item: is_exact(item[1])))  # clocks first
        if isinstance(only, Dlfm):
            solved = {name: only.of_cycles for name in models}
        has_exact = any(is_exact(model) for model in solved.values())
        if len(solved) == len(models) and (has_exact or arrays.x.shape[1] == 1):
            try:
                return self._fit_exactly(arrays, solved)
            except UnsuitableError:
                if not isinstance(only, Dlfm):
                    raise

        def trial(is_log: NDArray[np.bool_]) -> Trial:
            """A single candidate is compared with none: the held-out rows calibrate it."""
            scaling = self._scaling(arrays, is_log)
            rows, settings = self._rows(arrays, scaling), (self.is_series_, self.random_state)
            candidates = self._candidates(models, float(scaling.x_scale[0]))
            label = "selection, logarithms" if is_log.any() else "selection"
            n_jobs = self._n_jobs(rows)
            with part(scaling.digest):
                found = compare(candidates, rows, *settings, self.progress, n_jobs, label)
            return Trial(scaling, rows, found)

        is_log = self._logarithms(arrays, by_itself=True)
        best = best_trial(trial, is_log) if self.log_targets is None else trial(is_log)
        with part(best.scaling.digest):
            average, selection = best.comparison.refit(best.rows)
        held_out = best.comparison.split.held_out
        selection.log_jacobian = held_out.mean_by_count(best.log_jacobian).tolist()
        return best.scaling, average, selection

    def _fit_exactly(
        self, arrays: Arrays, models: dict[str, Sum]
    ) -> tuple[Scaling, ModelAverage, Selection]:
        """Sums that are solved as Markov processes: an average that forecasts, and others for gaps."""
        in_gaps = {name: model for name, model in models.items() if isinf(model.margin)}
        models = {name: model for name, model in models.items() if name not in in_gaps}
        if not models:
            raise ConfigError(
                f"model: {', '.join(in_gaps)} fills gaps and makes no forecasts. Give it as one of "
                "several candidates, in a dict."
            )
        scaling, average, selection = self._fit_forecasts(arrays, models)
        rows = self._rows(arrays, scaling)
        is_alone = arrays.y.shape[1] == 1
        if in_gaps and not is_alone and not stop_requested() and fits_into_memory(rows):
            candidates = self._candidates(dict(in_gaps), float(scaling.x_scale[0]))
            with part(scaling.digest):
                average = with_others(average, selection, candidates, rows, self.random_state)
        return scaling, average, selection

    def _fit_forecasts(
        self, arrays: Arrays, models: dict[str, Sum]
    ) -> tuple[Scaling, ModelAverage, Selection]:
        """The average that forecasts, by the evidence; the cheapest sum is the last."""
        cheapest = next(reversed(models.values())).alone

        def prepare(
            is_log: NDArray[np.bool_], is_alone: bool
        ) -> tuple[Scaling, Rows, list[Candidate]]:
            scaling = self._scaling(arrays, is_log)
            rows = self._rows(arrays, scaling).everything()
            sums: dict[str, Model] = dict(models)
            if is_alone:
                sums = {next(reversed(models)): cheapest}
            return scaling, rows, self._candidates(sums, float(scaling.x_scale[0]))

        n_outputs = arrays.y.shape[1]
        may_be_log = np.zeros(n_outputs, bool)
        if self.log_targets is None and arrays.error is None:
            is_cheap = is_exact(cheapest)  # a second fit of clocks needs a reason
            may_be_log = (
                is_positive(arrays) if is_cheap else may_be_logarithms(arrays, is_series=True)
            )
        n_fits = len(models) + bool(may_be_log.any())
        size = f"{len(arrays)} rows" + f" of {n_outputs} outputs" * (n_outputs > 1)
        is_long = len(arrays) * n_outputs >= _MANY_VALUES
        with work(n_fits * n_outputs, size, self.progress) if is_long else nullcontext():
            found = fit_by_evidence(
                prepare,
                may_be_log,
                self._logarithms(arrays, by_itself=False),
                self.random_state,
                is_by_last=cheapest == next(reversed(models.values())),
            )
        if world().size > 1 and world().writes:
            warnings.warn(
                "fit: sums in state-space form are solved as a whole, here by each of the "
                f"{world().size} processes alike. Start one process: it is as fast.",
                stacklevel=4,
            )
        return found

    def _scaling(self, arrays: Arrays, is_log: NDArray[np.bool_]) -> Scaling:
        return Scaling.of_chunks(
            arrays.chunks(only_own=True), self.is_series_, is_log, is_shared=True
        )

    def _logarithms(self, arrays: Arrays, by_itself: bool) -> NDArray[np.bool_]:
        """Targets to model by their logarithm: as the user chose, or those for which it is tried."""
        if self.log_targets is None and by_itself:
            return may_be_logarithms(arrays, self.is_series_)
        is_log = np.full(arrays.y.shape[1], bool(self.log_targets))
        for _, y, _ in arrays.chunks(only_own=True) if self.log_targets else ():
            check_positive(y, is_log, self.labels_.texts)
        return is_log
