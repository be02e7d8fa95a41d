"""Two simple forecasts of a series: ridge regression on lags, and the last period repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from deeplfm.baselines.recursion import Array, Recursion, Rule, inner_rows
from deeplfm.errors import InputError

_PENALTIES = tuple(10.0 ** np.arange(-3, 3.5, 0.5))
_SHARE = 3  # lags are at most one in so many rows


@dataclass(eq=False, repr=False)
class RidgeOnLags(Recursion):
    """Linear in the last values, of the output itself or of all of them, with an L2 penalty.

    Lags and penalty of each output are chosen by forecasts of the held-out last quarter of the rows,
    from every origin in it.
    """

    counts: ClassVar[tuple[str, ...]] = ("n_lags",)

    n_lags: int = 200
    random_state: int = 0

    def _choose(self, values: Float[np.ndarray, "N D"]) -> None:
        n_outputs = values.shape[1]
        self.memory_ = min(self.n_lags, max(1, len(values) // _SHARE))
        self.choice_ = [(False, _PENALTIES[-1])] * n_outputs
        n_inner = inner_rows(values)
        best = np.full(n_outputs, np.inf)
        for uses_all in (False, True)[: min(n_outputs, 2)]:
            problems = self._problems(values[:n_inner], uses_all)
            if any(len(target) == 0 for _, _, target in problems):
                continue
            for penalty in _PENALTIES:
                rule = _rule([_ridge(*problem, penalty) for problem in problems])
                errors = self.forecast_errors(rule, n_inner)
                known = (~np.isnan(errors)).sum((0, 1))
                score = np.nansum(np.square(errors), (0, 1)) / np.maximum(known, 1)
                for d in np.flatnonzero(score < best):
                    best[d], self.choice_[d] = score[d], (uses_all, penalty)

    def _learn(self, values: Float[np.ndarray, "N D"]) -> Rule:
        weights = []
        for d, (uses_all, penalty) in enumerate(self.choice_):
            problem = self._problems(values, uses_all)[d]
            if len(problem[2]) == 0:
                raise InputError(
                    f"y: column {d} has no {self.memory_ + 1} known values in a row, which "
                    f"{self.memory_} lags need. Set n_lags lower, or fill the gaps."
                )
            weights.append(_ridge(*problem, penalty))
        return _rule(weights)

    def _problems(
        self, values: Array, uses_all: bool
    ) -> list[tuple[NDArray[np.int64], Array, Array]]:
        """For each output the columns of its lags, their values and the targets, where all are known."""
        n_outputs, memory = values.shape[1], self.memory_
        n_windows = max(0, len(values) - memory)
        window = values[np.arange(n_windows)[:, None] + np.arange(memory)].reshape(n_windows, -1)
        problems = []
        for d in range(n_outputs):
            columns = np.arange(memory * n_outputs)
            columns = columns if uses_all else columns[d::n_outputs]
            lags, target = window[:, columns], values[memory:, d]
            known = ~(np.isnan(lags).any(1) | np.isnan(target))
            problems.append((columns, lags[known], target[known]))
        return problems


@dataclass(eq=False, repr=False)
class LastPeriod(Recursion):
    """The last period of each output, repeated.

    The period is the lag, of at most half the rows, with the smallest mean squared difference, beyond
    the short lags of a smooth series; without one the last value is repeated.
    """

    random_state: int = 0

    def _choose(self, values: Float[np.ndarray, "N D"]) -> None:
        self.period_ = np.array([_period(column) for column in values.T])
        self.memory_ = int(self.period_.max())

    def _learn(self, values: Float[np.ndarray, "N D"]) -> Rule:
        place = self.memory_ - self.period_
        return lambda recent: np.stack([recent[:, row, d] for d, row in enumerate(place)], -1)


def _ridge(
    columns: NDArray[np.int64], lags: Array, target: Array, penalty: float
) -> tuple[NDArray[np.int64], Array]:
    """Columns and their weights."""
    return columns, Ridge(penalty, fit_intercept=False, solver="cholesky").fit(lags, target).coef_


def _rule(weights: list[tuple[NDArray[np.int64], Array]]) -> Rule:
    def next_row(recent: Array) -> Array:
        flat = recent.reshape(len(recent), -1)
        return np.stack([flat[:, columns] @ weight for columns, weight in weights], -1)

    return next_row


def _period(values: Float[np.ndarray, " N"]) -> int:
    longest = len(values) // 2
    unlike = np.full(longest + 1, np.inf)
    for lag in range(1, longest + 1):
        square = np.square(values[lag:] - values[:-lag])
        if not np.isnan(square).all():
            unlike[lag] = np.nanmean(square)
    # values that have nothing to do with each other differ by twice the variance
    chance = 2 * np.nanvar(values)
    apart = np.flatnonzero((unlike > chance) & np.isfinite(unlike))
    if len(apart) == 0:
        return 1
    period = int(apart[0] + np.argmin(unlike[apart[0] :]))
    return period if unlike[period] < chance else 1
