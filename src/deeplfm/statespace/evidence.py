r"""Log evidence of outputs, and its gradient by Fisher's identity.

    ∂ log p(y | θ) = E[∂ log p(y, s, W | θ)],    the expectation over the posterior of s and W.

The density of the complete data (y, s, W) is a product over rows, over steps of each process and over
weights. So the exact gradient for all parameters follows from posterior means, variances and
covariances of neighbours in time, at the cost of about one more solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deeplfm.statespace.chain import (
    Array,
    DampedLevel,
    Processes,
    distinct_steps,
    transitions,
    typical_of,
)
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.forces import N_STATES, Force
from deeplfm.statespace.parameters import JointLayout, Layout, design_of, inputs_of, processes_of
from deeplfm.statespace.solved import SHARED, Known, Solved, sums_at

_APART = 1e-4  # of the logarithm of a rate, for the derivative of the density of a force


class Evidence:
    """Log evidence of outputs, and of the forces that they share, and its gradient.

    Args:
        config: what the model of each output is made of.
        known: rows of each output with a known target, in order of time.
        frequency: of each force; 0 for a low-pass force.
    """

    def __init__(
        self,
        config: Sequence[StateSpaceConfig],
        known: Sequence[Known],
        frequency: Sequence[float] = (),
    ) -> None:
        self.layout = JointLayout(tuple(config), tuple(frequency))
        self._known = tuple(known)
        self._designs = [design_of(*pair) for pair in zip(config, self._x_of_each, strict=True)]
        self.x = self._x_of_each[0] if len(known) == 1 else np.concatenate(self._x_of_each)
        ends = np.cumsum([0, *(len(item.y) for item in known)])
        self._rows = [slice(a, b) for a, b in pairwise(ends)]

    @property
    def _x_of_each(self) -> list[Array]:
        return [item.x for item in self._known]

    def _solved(self, parameters: Array) -> Solved:
        layout = self.layout
        own, forces = layout.own(parameters), layout.forces(parameters)
        shared = forces if layout.frequency else None
        return Solved.of(layout.config, self._known, own, self.x, shared, self._designs)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Value and gradient by the parameters, which are in the order of the layout."""
        solved = self._solved(parameters)
        step, states = np.diff(solved.chain.time), _States.of(solved)
        by_variance, by_rate = _by_process(step, solved.chain.processes, states)
        outputs = [
            self._by_own(d, solved, values, by_variance[solved.own[d]], by_rate[solved.own[d]])
            for d, values in enumerate(self.layout.own(parameters))
        ]
        n_forces = len(self.layout.frequency)
        n_own = solved.chain.n_states - N_STATES * n_forces
        loadings = [
            self._by_loadings(d, solved, parameters, states.mean, n_own).ravel()
            for d in range(len(outputs) if n_forces else 0)
        ]
        rates = by_rate[n_own::N_STATES]
        return solved.log_evidence, np.concatenate([*outputs, rates, *loadings])

    def shared(self, parameters: Array) -> list[Array]:
        """Expected effect of the forces on each output at its own rows."""
        solved = self._solved(parameters)
        return [solved.moments(d, SHARED, some)[0] for d, some in enumerate(self._rows)]

    def _by_own(
        self,
        output: int,
        solved: Solved,
        parameters: Array,
        by_variance: Array,
        by_rate: Array,
    ) -> Array:
        """By the logarithms of the parameters of one output, given those by its processes."""
        config = self.layout.config[output]
        layout, some = Layout(config), solved.weights_of(output)
        second = np.diag(solved.covariance)[some] + solved.mean[some] ** 2
        columns = 0.5 * (second / layout.column_variance(parameters) - 1.0)  # by log variance
        by = dict.fromkeys(layout.names, 0.0)
        by["noise"] = self._by_noise(output, solved)
        place = 1
        if config.has_slope:
            by["slope"], place = 2 * float(columns[place]), place + 1
        at = 0
        for name, has in (("level", config.has_level), ("reversion", config.has_reversion)):
            if has:
                by[name] = 2 * float(by_variance[at])
                if name == "reversion":
                    by["rate"] = float(by_rate[at])
                at += 1
        if config.has_damped_level:
            by["velocity"], by["damping"] = 2 * float(by_variance[-2]), float(by_rate[-2])
        evolving = processes_of(config)
        for number, season in enumerate(config.seasons):
            n_harmonics = len(season.orders)
            size = columns[place : place + 2 * n_harmonics].reshape(2, n_harmonics).sum(0)
            place += 2 * n_harmonics
            if season.n_evolving:
                processes = evolving[season.name]
                changes = by_variance[processes].reshape(-1, 2).sum(1)
                size[: season.n_evolving] += changes
                by["evolution"] += 2 * float(changes.sum())
                by["forgetting"] += float(by_rate[processes].sum())
            by[f"season {season.name}"] = 2 * float(size.sum())
            by["power"] += float(size @ _by_power(layout, number, parameters))
        for name, count in inputs_of(config).items():
            by[name], place = 2 * float(columns[place : place + count].sum()), place + count
        return np.array([by[name] for name in layout.names])

    def _by_noise(self, output: int, solved: Solved) -> float:
        """By the log standard deviation of the noise."""
        known, noise = self._known[output], solved.noise[output]
        mean, variance = solved.moments(output, None, self._rows[output])
        precision = known.precision(noise)
        square = (known.y - mean) ** 2 + variance
        share = precision * noise**2 / known.weight  # of the noise, in the variance of a row
        return float(share @ (precision * square - 1))

    def _by_loadings(
        self, output: int, solved: Solved, parameters: Array, mean: Array, n_own: int
    ) -> Array:
        """By the loadings of one output, ``Q 2``."""
        known, rows = self._known[output], self._rows[output]
        places, chain = solved.places[rows], solved.chain
        columns, level, observed = solved.factors(output, None, rows)
        total = (observed[:, None] @ chain.covariance[places])[:, 0, n_own:]  # with Hs
        through = columns @ solved.covariance
        total -= np.einsum("nk,nsk->ns", through, solved.states[rows][:, n_own:, 1:])  # with ΦW
        left = known.y - columns @ solved.mean - level
        product = left[:, None] * mean[places][:, n_own:] - total
        product *= known.precision(solved.noise[output])[:, None]
        carriers = self.layout.forces(parameters).carriers(chain.time[places])  # N Q 2 2
        return np.einsum("nqij,nqj->qi", carriers, product.reshape(len(places), -1, N_STATES))


def _by_power(layout: Layout, season_number: int, parameters: Array) -> Array:
    """Derivatives of the log shares of harmonics by the logarithm of the power."""
    power = layout.values(parameters)["power"]
    logs = np.log(np.array(layout.config.seasons[season_number].orders, dtype=np.float64))
    return -2 * power * (logs - layout.shares(season_number, power) @ logs)


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

    @classmethod
    def of(cls, solved: Solved) -> _States:
        """At all times of some outputs that were solved at their known rows."""
        first = np.unique(solved.places, return_index=True)[1]
        given, chain = solved.states[first], solved.chain  # N s 1+K
        mean = given[:, :, 0] - given[:, :, 1:] @ solved.mean
        return cls(mean, given[:, :, 1:], solved.covariance, chain.covariance, chain.lagged)

    def pair(self, first: int) -> _States:
        """The two processes of a pair alone."""
        some = slice(first, first + 2)
        return _States(
            self.mean[:, some],
            self.columns[:, some],
            self.weights,
            self.own[:, some, some],
            self.lagged[:, some, some],
        )


def _by_process(step: Array, processes: Processes, states: _States) -> tuple[Array, Array]:
    """By the log variance and the log rate of each process; the second value of a pair has none."""
    found = np.zeros((2, processes.size))
    found[:, : len(processes.rate)] = _by_single(step, processes, states)
    for first, pair in zip(processes.places_of_pairs, processes.pairs, strict=True):
        if isinstance(pair, DampedLevel):
            found[:, first] = _by_damped(step, pair, states.pair(first))
        elif isinstance(pair, Force):
            found[1, first] = _by_force_rate(step, pair, states.pair(first))
    return found[0], found[1]


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
    reach = np.outer(step, processes.rate)
    by_gained = 2 * reach * kept**2 * processes.variance / gained
    return by_variance, (by_gained * excess - reach * kept * product / gained).sum(0)


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
    start = np.diag(damped.start(typical_of(step)))
    second = states.mean[0] ** 2 + np.diag(states.own[0])
    second += np.einsum("sk,kl,sl->s", states.columns[0], states.weights, states.columns[0])
    by_variance = 0.5 * float(np.trace(excess.sum(0)) + (second / start - 1.0).sum())
    by_rate = 0.5 * np.einsum("nij,nji->", precision @ by_gained, excess)
    by_rate += np.einsum("nij,njk,nik->", precision, product, by_jump)
    return by_variance, float(by_rate)


def _by_force_rate(step: Array, force: Force, states: _States) -> float:
    """By the log rate of one force: the expected log density of its states has few terms."""
    mean, columns = states.mean, states.columns
    turned = columns @ states.weights
    here = states.own + turned @ columns.transpose(0, 2, 1) + mean[:, :, None] * mean[:, None]
    later = states.lagged + turned[:-1] @ columns[1:].transpose(0, 2, 1)
    later += mean[:-1, :, None] * mean[1:, None]  # E[u_t u_{t+1}ᵀ]
    distinct, place = distinct_steps(step)
    sums = [sums_at(place, len(distinct), item) for item in (here[:-1], later, here[1:])]
    counts = np.bincount(place, minlength=len(distinct))

    def density(log_rate: float) -> float:
        changed = Force(float(np.exp(log_rate)), force.frequency)
        kept, gained = changed.transition(distinct), changed.innovation(distinct)
        before, between, after = sums
        off = kept @ between
        square = after - off - off.transpose(0, 2, 1) + kept @ before @ kept.transpose(0, 2, 1)
        trace = np.einsum("nij,nji->", np.linalg.inv(gained), square)
        return -0.5 * float(trace + counts @ np.linalg.slogdet(gained)[1])

    at = float(np.log(force.rate))
    return (density(at + _APART) - density(at - _APART)) / (2 * _APART)
