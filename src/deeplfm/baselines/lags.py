"""Recursive forecasts of a series: ridge regression on lags, and the last period repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Ridge
from torch import Tensor

from deeplfm.baselines.base import Baseline, scattered
from deeplfm.errors import InputError
from deeplfm.predictive.mixture import Predictive

Array = NDArray[np.float64]
Rule = Callable[[Array], Array]  # the last rows, oldest first: B L D → the next row: B D

_FEWEST_ROWS = 8
_TAIL = 0.25  # of the rows, held out
_UNEVEN = 0.01  # of a step
_STRAY = 0.1  # of a step, however long the way
_MOST_ROWS = 10  # of the whole grid, for each row that was given
_LEAST_VARIANCE = 1e-8
_REACH = 3.0  # a forecast stays within this many times the largest value: a recursion may explode


class Recursion(Baseline):
    """A series with regular steps, forecast by a rule for the next row, given the last ones.

    Rows that were left out are put in as missing values, which the rule fills as it goes. The variance
    of an error depends on the number of steps since the output was last known; it is learned from
    forecasts of the last quarter of the rows, from all their origins, by a rule that had not seen them.
    """

    is_series: ClassVar[bool] = True
    is_random: ClassVar[bool] = False
    memory_: int  # rows that the rule needs

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        row, self.step_ = _regular_rows(x[:, 0].numpy())
        self.values_ = np.full((row[-1] + 1, y.shape[1]), np.nan)
        self.values_[row] = y.numpy()
        self.limit_ = _REACH * np.nanmax(np.abs(self.values_), 0)
        self._choose(self.values_)
        n_inner = inner_rows(self.values_)
        errors = self.forecast_errors(self._learn(self.values_[:n_inner]), n_inner)
        self.variance_ = np.stack([_by_horizon(error) for error in errors.transpose(2, 0, 1)], 1)
        self.rule_ = self._learn(self.values_)

    def _choose(self, values: Float[np.ndarray, "N D"]) -> None:
        """Choose the settings of :meth:`_learn` from the data."""
        raise NotImplementedError

    def _learn(self, values: Float[np.ndarray, "N D"]) -> Rule:
        """The rule for the next row, fitted to some rows."""
        raise NotImplementedError

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        place = x[:, 0].numpy() / self.step_
        index = np.rint(place).astype(np.int64)
        stray = np.abs(place - index) > _STRAY
        if stray.any() or (index < 0).any():
            row = int(np.flatnonzero(stray | (index < 0))[0])
            raise InputError(
                f"X: row {row} is {place[row]:.4g} steps after the first training row, but "
                f"{type(self).__name__} predicts whole steps after it only. Give times on the "
                "training rows' grid."
            )
        mean, _, age = self._recurse(self.rule_, self.values_, int(index.max()) + 1)
        longest = len(self.variance_)
        variance = np.take_along_axis(self.variance_, np.minimum(age, longest) - 1, 0)
        variance = variance * np.maximum(age / longest, 1.0)  # beyond: as a random walk
        variance[: self.memory_] = np.maximum(variance[: self.memory_], 1.0)  # nothing came before
        weight = torch.ones(1, mean.shape[1], dtype=torch.float64)
        noise = torch.as_tensor(variance[index])
        return scattered(torch.as_tensor(mean[index]), noise[None], weight)

    def forecast_errors(self, rule: Rule, n_inner: int) -> Float[np.ndarray, "B H D"]:
        """Errors of forecasts from every row after the first ones; NaN where the truth is not known."""
        values = self.values_
        n_ahead = len(values) - n_inner
        _, filled, _ = self._recurse(rule, values, len(values))
        padded = np.vstack([np.zeros((self.memory_, values.shape[1])), filled])
        truth = np.vstack([values, np.full((n_ahead, values.shape[1]), np.nan)])
        origin = np.arange(n_inner, len(values))
        recent = padded[origin[:, None] + np.arange(self.memory_)]  # B L D
        errors = np.empty((len(origin), n_ahead, values.shape[1]))
        for ahead in range(n_ahead):
            row = self._clipped(rule(recent))
            errors[:, ahead] = row - truth[origin + ahead]
            recent = np.concatenate([recent[:, 1:], row[:, None]], 1)
        return errors

    def _recurse(
        self, rule: Rule, values: Array, n_rows: int
    ) -> tuple[Array, Array, NDArray[np.int64]]:
        """Step by step: predictions, values with their gaps filled, steps since the last known."""
        n_outputs = values.shape[1]
        known = np.full((n_rows, n_outputs), np.nan)
        known[: len(values)] = values[:n_rows]
        mean = np.empty((n_rows, n_outputs))
        filled = np.zeros((self.memory_ + n_rows, n_outputs))  # the mean, before the first row
        age = np.ones((n_rows + 1, n_outputs), dtype=np.int64)
        for t in range(n_rows):
            mean[t] = self._clipped(rule(filled[None, t : t + self.memory_])[0])
            is_gap = np.isnan(known[t])
            filled[t + self.memory_] = np.where(is_gap, mean[t], known[t])
            age[t + 1] = np.where(is_gap, age[t] + 1, 1)
        return mean, filled[self.memory_ :], age[:-1]

    def _clipped(self, rows: Array) -> Array:
        return np.clip(rows, -self.limit_, self.limit_)


def inner_rows(values: Float[np.ndarray, "N D"]) -> int:
    """Rows before the held-out tail."""
    return len(values) - max(1, round(_TAIL * len(values)))


def _regular_rows(time: Float[np.ndarray, " N"]) -> tuple[NDArray[np.int64], float]:
    """Where rows are on a regular grid that begins with the first, and its step."""
    if len(time) < _FEWEST_ROWS:
        raise InputError(
            f"X: {len(time)} rows, but a rule for the next row is learned from {_FEWEST_ROWS} or more. "
            "Give a longer series."
        )
    width = np.diff(time)
    typical = float(np.median(width))
    n_steps = width / (typical or np.inf)
    whole = np.maximum(np.rint(n_steps), 1)
    uneven = np.abs(n_steps - whole) > np.minimum(_UNEVEN * whole, _STRAY)
    if uneven.any():
        row = int(np.flatnonzero(uneven)[0])
        raise InputError(
            f"X: {int(uneven.sum())} of {len(time) - 1} steps are not whole multiples of the typical "
            f"one (first: after row {row}), and lags need regular steps. Give every time once, or "
            "interpolate to a grid."
        )
    if whole.sum() > _MOST_ROWS * len(time):
        raise InputError(
            f"X: {len(time)} rows on a grid of {whole.sum() + 1:.0f}, which is more than "
            f"{_MOST_ROWS} times as many. Leave out what lies beyond the longest gap."
        )
    place = np.concatenate([[0], whole.cumsum()]).astype(np.int64)
    return place, float((time[-1] - time[0]) / place[-1])


def _by_horizon(errors: Float[np.ndarray, "B H"]) -> Float[np.ndarray, " H"]:
    """Mean squared error for each number of steps ahead, which does not fall with it."""
    known = ~np.isnan(errors)
    count = known.sum(0)
    if not count.any():
        return np.ones(errors.shape[1])  # never known in the tail: the variance of the targets
    square = np.nansum(np.square(errors), 0) / np.maximum(count, 1)
    horizon = np.arange(errors.shape[1])
    rising = IsotonicRegression(out_of_bounds="clip")
    rising.fit(horizon[count > 0], square[count > 0], sample_weight=count[count > 0])
    return np.maximum(rising.predict(horizon), _LEAST_VARIANCE)


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
