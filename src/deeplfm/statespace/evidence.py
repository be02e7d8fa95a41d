r"""Gradient of the log evidence by Fisher's identity.

    ∂ log p(y | θ) = E[∂ log p(y, s, W | θ)],    the expectation over the posterior of s and W.

The density of the complete data (y, s, W) is a product over rows, over steps of each process and over
weights. So the exact gradient for all parameters follows from posterior means, variances and
covariances of neighbours in time, at the cost of about one more solution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deeplfm.statespace.chain import damped_start, transitions
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.damped_level import DampedLevel
from deeplfm.statespace.parameters import Array, Layout, Processes, design_of, processes_of
from deeplfm.statespace.solved import Known, Solved, distinct_times


class Evidence:
    """Log evidence of one output and its gradient by the logarithms of the parameters.

    Args:
        config: what the model is made of.
        known: rows with a known target, in order of time.
    """

    def __init__(self, config: StateSpaceConfig, known: Known) -> None:
        self.layout, self._config, self._known = Layout(config), config, known
        self._time, place = distinct_times(config, known.x[:, 0])
        self._design = design_of(config, known.x)
        self._first = np.unique(place, return_index=True)[1]

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Value and gradient."""
        solved = Solved.of(self._config, self._known, parameters, self._known.x, self._design)
        columns = self._by_column_variance(solved, parameters)
        by = dict.fromkeys(self.layout.names, 0.0)
        by["noise"] = self._by_noise(solved)
        place = 1
        if self._config.has_slope:
            by["slope"], place = 2 * float(columns[place]), place + 1
        by_variance, by_rate = self._by_process(solved, parameters)
        at = 0
        for name, has in (
            ("level", self._config.has_level),
            ("reversion", self._config.has_reversion),
        ):
            if has:
                by[name] = 2 * float(by_variance[at])
                if name == "reversion":
                    by["rate"] = float(by_rate[at])
                at += 1
        if self._config.has_damped_level:
            by["velocity"], by["damping"] = 2 * float(by_variance[-1]), float(by_rate[-1])
        evolving = processes_of(self._config)
        for number, season in enumerate(self._config.seasons):
            n_harmonics = len(season.orders)
            size = columns[place : place + 2 * n_harmonics].reshape(2, n_harmonics).sum(0)
            place += 2 * n_harmonics
            if season.n_evolving:
                some = evolving[season.name]
                changes = by_variance[some].reshape(-1, 2).sum(1)
                size[: season.n_evolving] += changes
                by["evolution"] += 2 * float(changes.sum())
                by["forgetting"] += float(by_rate[some].sum())
            by[f"season {season.name}"] = 2 * float(size.sum())
            by["power"] += float(size @ self._by_power(number, parameters))
        if self._config.n_inputs > 1:
            by["covariate"] = 2 * float(columns[place:].sum())
        return solved.log_evidence, np.array([by[name] for name in self.layout.names])

    def _by_power(self, season_number: int, parameters: Array) -> Array:
        """Derivatives of the log shares of harmonics by the logarithm of the power."""
        power = self.layout.values(parameters)["power"]
        logs = np.log(np.array(self._config.seasons[season_number].orders, dtype=np.float64))
        return -2 * power * (logs - self.layout.shares(season_number, power) @ logs)

    def _by_column_variance(self, solved: Solved, parameters: Array) -> Array:
        """By the log prior variance of each weight."""
        second = np.diag(solved.covariance) + solved.mean**2
        return 0.5 * (second / self.layout.column_variance(parameters) - 1.0)

    def _by_noise(self, solved: Solved) -> float:
        """By the log standard deviation of the noise."""
        mean, variance = solved.moments()
        precision = self._known.precision(solved.noise)
        square = (self._known.y - mean) ** 2 + variance
        share = precision / self._known.weight  # of the noise, in the variance of a row
        return float(share @ (precision * square / solved.noise**2 - 1))

    def _by_process(self, solved: Solved, parameters: Array) -> tuple[Array, Array]:
        """By the log variance and the log rate of each process, a damped level last."""
        chain = solved.chain
        if chain is None:
            return np.zeros(0), np.zeros(0)
        processes = self.layout.processes(parameters)
        step = np.diff(self._time)
        given = solved.states[self._first]  # N s 1+K
        states = _States(
            given[:, :, 0] - given[:, :, 1:] @ solved.mean,
            given[:, :, 1:],
            solved.covariance,
            solved.noise**2 * chain.covariance,
            solved.noise**2 * chain.lagged,
        )
        by_variance, by_rate = _by_single(step, processes, states)
        if processes.damped is None:
            return by_variance, by_rate
        by_velocity, by_damping = _by_damped(step, processes.damped, states.last(2))
        return np.append(by_variance, by_velocity), np.append(by_rate, by_damping)


class _States(NamedTuple):
    """Posterior of the processes: s = mean + columns × (deviation of the weights) + rest.

    Attributes:
        mean: ``N s``.
        columns: ``N s K``.
        weights: covariance of the weights, ``K K``.
        own: covariance of the rest at each time, ``N s s``.
        lagged: covariance of the rest with that at the next time, ``N-1 s s``.
    """

    mean: Array
    columns: Array
    weights: Array
    own: Array
    lagged: Array

    def last(self, n: int) -> _States:
        """The last processes alone."""
        some = slice(-n, None)
        return _States(
            self.mean[:, some],
            self.columns[:, some],
            self.weights,
            self.own[:, some, some],
            self.lagged[:, some, some],
        )


def _by_single(step: Array, processes: Processes, states: _States) -> tuple[Array, Array]:
    """By the log variance and the log rate of each process of one value."""
    start, kept, gained = transitions(step, processes)
    n_single = len(start)
    mean, columns = states.mean[:, :n_single], states.columns[:, :n_single]
    own = np.diagonal(states.own, axis1=1, axis2=2)[:, :n_single]
    lagged = np.diagonal(states.lagged, axis1=1, axis2=2)[:, :n_single]
    changed = columns[1:] - kept[:, :, None] * columns[:-1]  # of the weights, in an innovation
    through = changed @ states.weights
    innovation = mean[1:] - kept * mean[:-1]
    square = innovation**2 + own[1:] - 2 * kept * lagged + kept**2 * own[:-1]
    square += np.einsum("nsk,nsk->ns", through, changed)
    excess = 0.5 * (square / gained - 1.0)
    first = columns[0] @ states.weights
    second = mean[0] ** 2 + own[0] + np.einsum("sk,sk->s", first, columns[0])
    by_variance = excess.sum(0) + 0.5 * (second / start - 1.0)
    product = innovation * mean[:-1] + lagged - kept * own[:-1]
    product += np.einsum("nsk,nsk->ns", through, columns[:-1])
    return by_variance, _by_rate(step, processes, kept, gained, excess, product)


def _by_damped(step: Array, damped: DampedLevel, states: _States) -> tuple[float, float]:
    """By the log variance and the log rate of the velocity of a damped level."""
    jump, gained = damped.transition(step), damped.innovation(step)
    by_jump, by_gained = damped.by_log_rate(step)
    transposed = (0, 2, 1)
    innovation = states.mean[1:] - np.einsum("nij,nj->ni", jump, states.mean[:-1])
    changed = states.columns[1:] - jump @ states.columns[:-1]
    through = changed @ states.weights
    behind = states.own[:-1] @ jump.transpose(transposed) - states.lagged
    square = (
        states.own[1:]
        + jump @ behind
        - states.lagged.transpose(transposed) @ jump.transpose(transposed)
    )
    square = square + innovation[:, :, None] * innovation[:, None]
    square += through @ changed.transpose(transposed)
    product = innovation[:, :, None] * states.mean[:-1, None] - behind.transpose(transposed)
    product += through @ states.columns[:-1].transpose(transposed)
    precision = np.linalg.inv(gained)
    excess = precision @ square - np.eye(2)
    start = damped_start(step, damped)
    second = states.mean[0] ** 2 + np.diag(states.own[0])
    second += np.einsum("sk,kl,sl->s", states.columns[0], states.weights, states.columns[0])
    by_variance = 0.5 * float(np.trace(excess.sum(0)) + (second / start - 1.0).sum())
    by_rate = 0.5 * np.einsum("nij,nji->", precision @ by_gained, excess)
    by_rate += np.einsum("nij,njk,nik->", precision, product, by_jump)
    return by_variance, float(by_rate)


def _by_rate(
    step: Array, processes: Processes, kept: Array, gained: Array, excess: Array, product: Array
) -> Array:
    """By the log rate: through what is kept, and through what is gained."""
    reach = np.outer(step, processes.rate)
    by_gained = 2 * reach * kept**2 * processes.variance / gained
    return np.asarray((by_gained * excess - reach * kept * product / gained).sum(0))
