"""The estimator for arrays, with the API of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from deeplfm.errors import ConfigError
from deeplfm.estimators.arrays import Arrays
from deeplfm.estimators.by_evidence import (
    refuse_errors,
)
from deeplfm.estimators.fitting import Fitting
from deeplfm.estimators.inspected_regressor import Inspected
from deeplfm.estimators.logarithms import check_positive
from deeplfm.estimators.saving import describe, rebuild
from deeplfm.estimators.settings import with_parameters
from deeplfm.estimators.targets import check_new_values
from deeplfm.io.archive import Contents, Saved
from deeplfm.kernels import compiled_kernels
from deeplfm.statespace import ClocksLFM, StateSpaceLFM


@with_parameters
class DeepLFMRegressor(Inspected, RegressorMixin, MultiOutputMixin, Fitting, Saved):
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

    @property
    def selection_(self) -> pd.DataFrame:
        """Candidates of the fit: score, weights, seconds, and why one was left out.

        One row for each candidate, the best first. The columns ``{target}_mnll`` (mean negative log
        likelihood of the held-out rows, for the target in its own units; of the default, of forecasts
        from earlier origins by the parameters of all rows), ``{target}_weight`` and,
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
            if member.has_exact_output or isinstance(member, StateSpaceLFM | ClocksLFM)
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
