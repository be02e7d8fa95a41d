"""Gradient-boosted trees, the usual first choice for a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict
from torch import Tensor

from deeplfm.baselines.base import Baseline, scattered
from deeplfm.errors import ConfigError
from deeplfm.predictive.mixture import Predictive

Array = NDArray[np.float64]

_SIZES = ({"max_leaf_nodes": 15}, {"max_leaf_nodes": 31}, {"max_leaf_nodes": 127})
# squared errors are mostly noise: slow trees with large leaves
_SPREAD = {"loss": "gamma", "max_leaf_nodes": 15, "min_samples_leaf": 50, "learning_rate": 0.05}
_WIDTHS = np.geomspace(0.2, 5.0, 9)  # of the components of e
_LEAST_VARIANCE = 1e-8
_ROWS_FOR_MORE = 100  # below this, no early stopping and no trees for σ
_EM_STEPS = 200


@dataclass(eq=False, repr=False)
class BoostedTrees(Baseline):
    r"""y = f(x) + σ(x) e, with trees for f and for log σ², and e a mixture of Gaussians about zero.

    Cross-validation errors choose the size of the trees and fit σ(x) (gamma loss on squared errors)
    and the density of e, whose components share their mean and differ in width.
    """

    counts: ClassVar[tuple[str, ...]] = ("max_iter",)

    max_iter: int = 500
    learning_rate: float = 0.05
    n_folds: int = 5
    random_state: int = 0

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.n_folds < 2:
            raise ConfigError(
                f"n_folds: {self.n_folds!r} found. Give a whole number of at least 2."
            )

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        self.outputs_ = []
        for column in y.numpy().T:
            known = ~np.isnan(column)
            self.outputs_.append(self._fit_output(x.numpy()[known], column[known]))

    def _fit_output(self, x: Array, y: Array) -> tuple[Any, Any, Array]:
        """Trees for f and for σ², and weights of the components of e."""
        if len(y) < 2 * self.n_folds:  # too few rows: errors have the variance of the targets
            trees = self._trees(len(y)).fit(x, y)
            return trees, DummyRegressor().fit(x, np.ones(len(y))), _shares(np.ones(1))
        folds = KFold(self.n_folds, shuffle=True, random_state=self.random_state)
        tried = [self._trees(len(y), **size) for size in _SIZES]
        errors = [y - cross_val_predict(trees, x, y, cv=folds) for trees in tried]
        best = int(np.argmin([np.square(error).mean() for error in errors]))
        squares = np.square(errors[best]) + _LEAST_VARIANCE
        spread: Any = DummyRegressor()  # the same for all rows
        if len(y) >= _ROWS_FOR_MORE:
            spread = self._trees(len(y), **_SPREAD)
        variance = cross_val_predict(spread, x, squares, cv=folds)
        return tried[best].fit(x, y), spread.fit(x, squares), _shares(squares / variance)

    def _trees(self, n_rows: int, **changes: Any) -> HistGradientBoostingRegressor:
        settings = {
            "max_iter": self.max_iter,
            "learning_rate": self.learning_rate,
            "early_stopping": n_rows >= _ROWS_FOR_MORE,
            "random_state": self.random_state,
            **changes,
        }
        return HistGradientBoostingRegressor(**settings)

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        rows = x.numpy()
        mean = np.stack([trees.predict(rows) for trees, _, _ in self.outputs_], 1)
        variance = np.stack([spread.predict(rows) for _, spread, _ in self.outputs_], 1)
        weight = np.stack([share for _, _, share in self.outputs_], 1)
        noise = np.square(_WIDTHS)[:, None, None] * variance
        return scattered(*(torch.as_tensor(item) for item in (mean, noise, weight)))


def _shares(squares: Array) -> Array:
    """Weights of Gaussians of fixed widths that make squared errors most likely, by EM."""
    log_density = -0.5 * squares[:, None] / np.square(_WIDTHS) - np.log(_WIDTHS)
    density = np.exp(log_density - log_density.max(1, keepdims=True))
    share = np.full(len(_WIDTHS), 1 / len(_WIDTHS))
    for _ in range(_EM_STEPS):
        part = density * share
        share = (part / part.sum(1, keepdims=True)).mean(0)
    return share
