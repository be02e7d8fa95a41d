"""Predictions of a fitted regressor, in the form of the inputs and in the user's units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from deeplfm.estimators.arrays import check_inputs, check_targets
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.targets import Labels
from deeplfm.kernels import compiled_kernels
from deeplfm.predictive.mixture import Predictive
from deeplfm.selection.average import ModelAverage

_PREDICTION_ROWS = 4096  # held at a time with all their mixture components


class Predicting:
    """Predictions of a fitted regressor."""

    model_: ModelAverage
    scaling_: Scaling
    labels_: Labels
    n_features_in_: int
    dtype_: torch.dtype
    device: str
    compile: bool

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

    def _inputs(self, X: Any) -> NDArray[Any]:
        """Rows of the user's, checked."""
        check_is_fitted(self)
        _check_feature_names(self, X, reset=False)
        return check_inputs(X, self.n_features_in_, type(self).__name__)

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        """Rows as the models see them."""
        values = self.scaling_.inputs(values)
        return torch.as_tensor(values, dtype=self.dtype_, device=self.device)

    @torch.no_grad()
    def _posterior(self, x: NDArray[Any]) -> Predictive:
        """Prediction of checked rows."""
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
