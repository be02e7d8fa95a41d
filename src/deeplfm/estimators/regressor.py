"""The estimator for arrays, with the API of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from deeplfm.errors import ConfigError
from deeplfm.estimators.arrays import Arrays, check_inputs, check_targets, check_vector
from deeplfm.estimators.by_evidence import (
    FEWEST_TO_CHALLENGE,
    challenge,
    fit_by_evidence,
    is_exact,
    is_positive,
    refuse_errors,
    with_errors,
)
from deeplfm.estimators.candidates import Model
from deeplfm.estimators.inspected_regressor import Inspected
from deeplfm.estimators.logarithms import Trial, best_trial, check_positive, may_be_logarithms
from deeplfm.estimators.saving import describe, identity_in_brief, rebuild, run_identity
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.settings import DeepLFMSettings, with_parameters
from deeplfm.estimators.targets import Labels, check_new_values, warn_of_outliers
from deeplfm.io.archive import Contents, Saved
from deeplfm.kernels import compiled_kernels
from deeplfm.predictive.mixture import Predictive
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.backends import on_backend
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.fitting import fit_candidate
from deeplfm.selection.select import Selection, compare
from deeplfm.statespace import StateSpaceLFM
from deeplfm.terms import NamedModel, Sum
from deeplfm.terms.candidates import CHALLENGERS
from deeplfm.training import Rows, RowSource, StoredRows
from deeplfm.training.checkpoint import checkpointed, part, unit
from deeplfm.training.distributed import check_same, together, world
from deeplfm.training.interruption import (
    graceful_interrupts,
    stop_reason,
    stop_requested,
    time_left,
    within,
)
from deeplfm.training.work import work

_MANY_VALUES = 5000  # of targets, whose fit may take more than seconds
_PREDICTION_ROWS = 4096  # held at a time with all their mixture components


@with_parameters
class DeepLFMRegressor(Inspected, Saved, RegressorMixin, MultiOutputMixin, DeepLFMSettings):
    """Deep latent force model for a series (one input: time) or a table (several inputs).

    Predictions have the form of the inputs: arrays for arrays; for a frame of rows, where the targets
    had names, a frame with its index and their names.

    Attributes:
        model_: the fitted models and their weights.
        fit_result_: scores, weights and times of all candidates.
        selection_: the same as one table.
        history_: loss of every training step.
        n_features_in_: number of input columns.

    >>> import numpy as np
    >>> t = np.linspace(0, 6, 90)
    >>> model = DeepLFMRegressor("sinusoids + broadband", n_steps=5).fit(t, np.sin(3 * t))
    >>> mean, std = model.predict(t[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    """

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
                    isinstance(model, NamedModel) or is_exact(model) for model in models.values()
                ):
                    arrays = arrays.most_recent(in_batches=self.batch_size is not None)
                if not arrays.are_large:
                    warn_of_outliers(arrays.read(slice(None))[1], self.labels_.texts)
            if world().size > 1:
                check_same(identity_in_brief(self, arrays))
            with (
                checkpointed(self.checkpoint, lambda: run_identity(self, arrays)),
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

    @property
    def selection_(self) -> pd.DataFrame:
        """Candidates of the fit: score on the held-out rows, weights, seconds, why one was left out.

        One row for each candidate, the best first. The columns ``{target}_mnll`` (mean negative log
        likelihood of the held-out rows, for the target in its own units), ``{target}_weight`` and,
        where a series has gaps, ``{target}_weight_in_gaps`` are there for each target.
        """
        check_is_fitted(self)
        return self.fit_result_.table(self.labels_.texts)

    def update(
        self, X: Any, y: Any, sample_weight: Any = None, measurement_error: Any = None
    ) -> Self:
        """Take in new observations without training: exact output weights are updated in closed form.

        The model is then the one whose output weights were solved on all rows, old and new; scales,
        frequencies, noise and calibration stay as they are, and so do members of the average whose
        output weights are not exact.

        Args:
            X: new rows; giving rows that the model has seen counts them twice.
            y: their targets; NaN marks a missing one.
            sample_weight: how many rows each one stands for.
            measurement_error: as in :meth:`fit`.
        """
        check_is_fitted(self)
        members = [
            member
            for member in self.model_.members
            if member.has_exact_output or isinstance(member, StateSpaceLFM)
        ]
        if not members:
            raise ConfigError(
                f"update: model={self.model!s} has no exact output layer, which alone takes in new rows "
                "without training. Use a sum of terms or the ensemble, or fit again on all rows."
            )
        self._inputs(X)
        arrays = Arrays.of(X, y, sample_weight, 0, measurement_error)
        if arrays.error is not None and not all(isinstance(m, StateSpaceLFM) for m in members):
            refuse_errors(str(self.model))
        self.labels_.check(y, arrays.y.shape[1])
        check_positive(arrays.y, self.scaling_.is_log, self.labels_.texts)
        check_new_values(arrays.chunks(), self.scaling_, self.labels_.texts)
        with compiled_kernels(self.compile):
            for chunk in self._rows(arrays, self.scaling_).chunks():
                self.model_.extend(chunk.x, chunk.y)
                for member in members:
                    if isinstance(member, StateSpaceLFM):
                        member.condition_on(chunk.x, chunk.y, chunk.weight, chunk.error)
                    else:
                        member.condition_on(chunk.x, chunk.y, chunk.weight)
        return self

    def posterior(self, X: Any) -> Predictive:
        """Predictive distribution of each row, in the units of y."""
        return self._posterior(self._inputs(X))

    def predict(self, X: Any, return_std: bool = False, latent: bool = False) -> Any:
        """Expected values; with ``return_std`` also the standard deviation of an observation.

        Args:
            X: rows.
            return_std: return the standard deviation too.
            latent: leave the observation noise out of it.
        """
        if return_std:
            mean, std = self._ask(X, lambda posterior: (posterior.mean, posterior.std(latent)))
            return mean, std
        (mean,) = self._ask(X, lambda posterior: (posterior.mean,))
        return mean

    def predict_interval(
        self, X: Any, coverage: float = 0.95, latent: bool = False
    ) -> tuple[Any, Any]:
        """Lower and upper end of the central interval that holds an observation."""
        low, high = self._ask(X, lambda posterior: posterior.interval(coverage, latent))
        return low, high

    def predict_quantiles(self, X: Any, levels: Sequence[float], latent: bool = False) -> Any:
        """Quantiles of an observation, or of the function; the last dimension is the level."""
        wanted = list(levels)
        (values,) = self._ask(
            X, lambda posterior: (posterior.quantile(wanted, latent).movedim(0, -1),), wanted
        )
        return values

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: int = 0, latent: bool = False
    ) -> Any:
        """Whole functions, each one draw over all rows; the last dimension is the draw.

        Args:
            X: rows.
            n_samples: number of draws.
            random_state: the same integer gives the same draws.
            latent: without observation noise.
        """
        draws = self.posterior(X).sample(n_samples, random_state, latent)
        return self.labels_.shaped(draws.movedim(0, -1).numpy(), X, range(n_samples))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² over the known targets, averaged over the outputs."""
        mean = np.asarray(self.predict(X)).reshape(-1, self.labels_.n_outputs)
        target = check_targets(y, len(mean)).astype(np.float64)
        self.labels_.check(y, target.shape[1])
        weight = np.ones(len(mean)) if sample_weight is None else np.asarray(sample_weight)
        known = ~np.isnan(target)
        scores = [
            r2_score(target[rows, d], mean[rows, d], sample_weight=weight[rows])
            for d, rows in enumerate(known.T)
        ]
        return float(np.mean(scores))

    def _described(self) -> Contents:
        check_is_fitted(self)
        return describe(self)

    @classmethod
    def _restored(
        cls, description: dict[str, Any], tensors: dict[str, torch.Tensor], path: str | Path
    ) -> Self:
        return rebuild(cls, description, tensors, path)

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: several targets are supported."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _rows(self, arrays: Arrays, scaling: Scaling) -> RowSource:
        """The user's rows in the model's units: now, or as they are read."""

        def read(index: torch.Tensor) -> Rows:
            some = index.cpu().numpy()
            x, y, weight = arrays.read(some)
            error = arrays.read_error(some)
            return Rows(
                self._tensor(scaling.inputs(x), is_scaled=True),
                self._tensor(scaling.outputs(y), is_scaled=True),
                None if weight is None else self._tensor(weight, is_scaled=True),
                None
                if error is None
                else self._tensor((error / scaling.y_scale) ** 2, is_scaled=True),
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

        exact = {name: model for name, model in models.items() if is_exact(model)}
        if exact and all(name in exact or name in CHALLENGERS for name in models):
            return self._fit_exactly(arrays, exact, models)

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
        self, arrays: Arrays, exact: dict[str, Sum], models: dict[str, Model]
    ) -> tuple[Scaling, ModelAverage, Selection]:
        """Sums in state-space form by their evidence, unless held-out rows ask for another model."""

        def prepare(
            is_log: NDArray[np.bool_], is_alone: bool
        ) -> tuple[Scaling, Rows, list[Candidate]]:
            scaling = self._scaling(arrays, is_log)
            rows = self._rows(arrays, scaling).everything()
            sums: dict[str, Model] = {
                name: model.alone if is_alone else model for name, model in exact.items()
            }
            return scaling, rows, self._candidates(sums, float(scaling.x_scale[0]))

        is_challenged = len(models) > len(exact) and len(arrays) >= FEWEST_TO_CHALLENGE
        n_outputs, is_scored = arrays.y.shape[1], self.effort != "fast" and not is_challenged
        may_be_log = np.zeros(n_outputs, bool)
        if self.log_targets is None and arrays.error is None:
            may_be_log = is_positive(arrays)
        n_fits = len(exact) * (1 + is_scored) + bool(may_be_log.any())
        size = f"{len(arrays)} rows x {n_outputs} outputs"
        is_long = len(arrays) * n_outputs >= _MANY_VALUES
        with (
            work(n_fits * n_outputs, size, self.progress) if is_long else nullcontext(),
            within(time_left() / 2 if is_challenged else None),
        ):
            scaling, average, selection = fit_by_evidence(
                prepare,
                may_be_log,
                self._logarithms(arrays, by_itself=False),
                self.random_state,
                is_scored,
                shares_forces=any(model != model.alone for model in exact.values()),
            )
        if is_challenged and stop_requested():
            selection.add_untried([name for name in models if name not in exact])
        if not is_challenged or stop_requested():
            if world().size > 1 and world().writes:
                warnings.warn(
                    "fit: sums in state-space form are solved as a whole, here by each of the "
                    f"{world().size} processes alike. Start one process: it is as fast.",
                    stacklevel=4,
                )
            return scaling, average, selection
        rows = self._rows(arrays, scaling)
        candidates = self._candidates(models, float(scaling.x_scale[0]))
        settings = (self.random_state, self.progress, self._n_jobs(rows))
        comparison = challenge(candidates, set(exact), rows, *settings)
        jacobian = scaling.log_jacobian(comparison.split.held_out.y)
        if any(name not in exact for name in comparison.names):
            average, selection = comparison.refit(rows)
        else:
            selection = comparison.left_as_it_was(average, selection.members)
            selection.interrupted = stop_reason() == "interrupt"
        selection.log_jacobian = comparison.split.held_out.mean_by_count(jacobian).tolist()
        return scaling, average, selection

    def _scaling(self, arrays: Arrays, is_log: NDArray[np.bool_]) -> Scaling:
        return Scaling.of_chunks(arrays.own_chunks(), self.is_series_, is_log, is_shared=True)

    def _logarithms(self, arrays: Arrays, by_itself: bool) -> NDArray[np.bool_]:
        """Targets to model by their logarithm: as the user chose, or those for which it is tried."""
        if self.log_targets is None and by_itself:
            return may_be_logarithms(arrays, self.is_series_)
        is_log = np.full(arrays.y.shape[1], bool(self.log_targets))
        for _, y, _ in arrays.own_chunks() if self.log_targets else ():
            check_positive(y, is_log, self.labels_.texts)
        return is_log

    def _inputs(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        _check_feature_names(self, X, reset=False)
        return check_inputs(X, self.n_features_in_, type(self).__name__)

    def _tensor(self, values: NDArray[Any], is_scaled: bool = False) -> torch.Tensor:
        values = values if is_scaled else self.scaling_.inputs(values)
        return torch.as_tensor(values, dtype=self.dtype_, device=self.device)

    @torch.no_grad()
    def _posterior(self, x: NDArray[Any]) -> Predictive:
        with compiled_kernels(self.compile):
            return self.scaling_.predictive(self.model_.posterior(self._tensor(x)))

    def _ask(
        self,
        X: Any,
        question: Callable[[Predictive], tuple[torch.Tensor, ...]],
        along: Sequence[Any] = (),
    ) -> list[Any]:
        """Properties of the predictions of all rows, in the form of the inputs."""
        found = self._in_chunks(self._inputs(X), lambda posterior, _: question(posterior))
        return [self.labels_.shaped(part.numpy(), X, along) for part in found]

    def _in_chunks(
        self,
        x: NDArray[Any],
        question: Callable[[Predictive, slice], tuple[torch.Tensor, ...]],
    ) -> list[torch.Tensor]:
        """Properties of the predictions of checked rows, computed from some rows at a time."""
        chunks = [slice(i, i + _PREDICTION_ROWS) for i in range(0, len(x), _PREDICTION_ROWS)]
        found = zip(*(question(self._posterior(x[rows]), rows) for rows in chunks), strict=True)
        return [torch.cat(part) for part in found]
