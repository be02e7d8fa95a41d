"""The estimator for arrays, with the API of scikit-learn."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from deeplfm.errors import ConfigError
from deeplfm.estimators.arrays import Arrays, check_vector
from deeplfm.estimators.by_evidence import (
    is_exact,
    refuse_errors,
    with_errors,
)
from deeplfm.estimators.fitting import Fitting
from deeplfm.estimators.inspected_regressor import Inspected
from deeplfm.estimators.logarithms import check_positive
from deeplfm.estimators.saving import describe, identity_in_brief, rebuild, run_identity
from deeplfm.estimators.settings import with_parameters
from deeplfm.estimators.targets import Labels, check_new_values, warn_of_outliers
from deeplfm.io.archive import Contents, Saved
from deeplfm.kernels import compiled_kernels
from deeplfm.selection.backends import on_backend
from deeplfm.statespace import StateSpaceLFM
from deeplfm.terms import NamedModel
from deeplfm.training.checkpoint import checkpointed
from deeplfm.training.distributed import check_same, together, world
from deeplfm.training.interruption import (
    graceful_interrupts,
    within,
)


@with_parameters
class DeepLFMRegressor(Inspected, Fitting, Saved, RegressorMixin, MultiOutputMixin):
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
        likelihood of the held-out rows), ``{target}_weight`` and, where a series has gaps,
        ``{target}_weight_in_gaps`` are there for each target.
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
