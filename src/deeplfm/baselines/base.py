"""The interface that all comparators share: scaling, and predictions in the user's units."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_feature_names, check_is_fitted
from torch import Tensor

from deeplfm.errors import ConfigError, InputError
from deeplfm.estimators import DeepLFMRegressor
from deeplfm.estimators.arrays import check_inputs, check_targets
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.settings import is_whole
from deeplfm.estimators.targets import Labels
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for


class Baseline(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """A model to compare with.

    A comparator implements :meth:`_fit` and :meth:`_predict` in standardised units. With ``is_series``
    its input is one column of times, sorted and mapped to [0, 1]. NaN marks a missing target.
    """

    is_series: ClassVar[bool] = False
    is_random: ClassVar[bool] = True  # whether another seed gives another fit
    most_rows: ClassVar[int | None] = None  # that it takes
    counts: ClassVar[tuple[str, ...]] = ()  # parameters that are whole numbers of at least 1
    random_state: int

    def fit(self, X: Any, Y: Any) -> Self:
        """Fit to inputs and one or several targets for each row; NaN marks a missing target."""
        _check_feature_names(self, X, reset=True)
        self._check_settings()
        inputs = check_inputs(X)
        outputs = check_targets(Y, len(inputs))
        self._check_size(inputs)
        if self.is_series:
            order = np.argsort(inputs[:, 0], kind="stable")
            inputs, outputs = inputs[order], outputs[order]
        self.n_features_in_ = inputs.shape[1]
        self.labels_ = Labels.of(Y, outputs.shape[1])
        self.scaling_ = Scaling.of(inputs, outputs, self.is_series)
        x, y = self.scaling_.inputs(inputs), self.scaling_.outputs(outputs)
        self._fit(torch.as_tensor(x), torch.as_tensor(y))
        return self

    def posterior(self, X: Any) -> Predictive:
        """Predictive distribution of each row, in the units of the targets."""
        check_is_fitted(self)
        _check_feature_names(self, X, reset=False)
        inputs = check_inputs(X, self.n_features_in_, type(self).__name__)
        x = torch.as_tensor(self.scaling_.inputs(inputs))
        with torch.no_grad():
            return self.scaling_.predictive(self._predict(x))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected values; with ``return_std`` also the standard deviation of an observation."""
        posterior = self.posterior(X)
        mean = self._shaped(posterior.mean, X)
        return (mean, self._shaped(posterior.std(), X)) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper end of the central interval that holds an observation."""
        low, high = self.posterior(X).interval(coverage)
        return self._shaped(low, X), self._shaped(high, X)

    score = DeepLFMRegressor.score  # R² over the known targets

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        """Learn from standardised rows; NaN marks a missing target."""
        raise NotImplementedError

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Distribution of standardised targets."""
        raise NotImplementedError

    def _shaped(self, values: Tensor, like: Any) -> Any:
        return self.labels_.shaped(values.numpy(), like)

    def _check_settings(self) -> None:
        for name in (*self.counts, "random_state"):
            value, least = getattr(self, name), int(name != "random_state")
            if not is_whole(value) or value < least:
                raise ConfigError(
                    f"{name}: {value!r} found. Give a whole number of at least {least}."
                )

    def _check_size(self, inputs: NDArray[Any]) -> None:
        n_rows, n_columns = inputs.shape
        if self.is_series and n_columns > 1:
            raise InputError(
                f"X: {n_columns} columns found, but {type(self).__name__} models a series. Give its "
                "times alone."
            )
        if self.most_rows is not None and n_rows > self.most_rows:
            raise InputError(
                f"{type(self).__name__}.fit: {n_rows} rows, but its cost is their cube and "
                f"{self.most_rows} the most it takes. Thin the rows out, or fit a DeepLFMRegressor."
            )


def of_functions(paths: Float[Tensor, "C N D"], noise_variance: Float[Tensor, "N D"]) -> Predictive:
    """Equally likely functions, such as draws of a posterior, and noise around each."""
    n_paths, _, n_outputs = paths.shape

    def draw(n_draws: int, seed: int) -> Tensor:
        pick = torch.randint(n_paths, (n_draws,), generator=generator_for(seed, "draw"))
        return paths[pick]

    weight = torch.full((n_paths, n_outputs), 1 / n_paths, dtype=paths.dtype)
    return Predictive(paths, torch.zeros_like(paths), noise_variance, weight, draw)


def scattered(
    mean: Float[Tensor, "N D"],
    noise_variance: Float[Tensor, "C N D"],
    weight: Float[Tensor, "C D"],
) -> Predictive:
    """One curve, and observations scattered about it: each a Gaussian, or a mixture of several widths.

    The curve itself is taken as certain, as by a model that learns its errors from held-out rows.
    """
    curves = mean.expand_as(noise_variance)
    return Predictive(curves, torch.zeros_like(curves), noise_variance, weight)


def paths(
    mean: Float[Tensor, " N"],
    covariance: Float[Tensor, "N N"],
    n_draws: int,
    generator: torch.Generator,
) -> Float[Tensor, "S N"]:
    """Whole functions of a Gaussian process, given its joint distribution at some rows.

    By eigenvectors, as the covariance of near rows is singular to rounding.
    """
    value, vector = torch.linalg.eigh(covariance)
    normal = torch.randn(n_draws, len(mean), generator=generator, dtype=mean.dtype)
    return mean + (normal * value.clamp_min(0.0).sqrt()) @ vector.T
