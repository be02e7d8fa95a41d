r"""Log evidence of several outputs that share forces, and its gradient by Fisher's identity.

As in :mod:`deeplfm.statespace.evidence`. It is written for outputs without seasons: the level of each
output, and what is shared, are fitted to what the seasons leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deeplfm.statespace.chain import transitions
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.forces import N_STATES, Forces, distinct_steps, force_transitions
from deeplfm.statespace.joint import SHARED, JointSolved
from deeplfm.statespace.parameters import Array, Layout
from deeplfm.statespace.solved import Known, sums_at

LOADING = 0.5  # prior standard deviation of a loading, in units of the targets
_RATE = (0.15, 1.2)  # of a low-pass force, per step: median, standard deviation of the logarithm
_NARROW = (0.1, 1.2)  # of a narrow-band force, per cycle
_APART = 1e-4  # of the logarithm of a rate, for the derivative of the density of a force


class JointLayout(NamedTuple):
    """Places of the parameters of all outputs and of the shared forces in one vector.

    Logarithms of the parameters of each output, then of the rates of the forces, then the loadings.
    """

    config: tuple[StateSpaceConfig, ...]
    frequency: tuple[float, ...]

    @property
    def counts(self) -> list[int]:
        """Number of parameters of each output."""
        return [len(Layout(item).names) for item in self.config]

    @property
    def size(self) -> int:
        """Number of all parameters."""
        return sum(self.counts) + len(self.frequency) * (1 + N_STATES * len(self.config))

    def own(self, parameters: Array) -> list[Array]:
        """Parameters of each output."""
        ends = np.cumsum([0, *self.counts])
        return [parameters[a:b] for a, b in pairwise(ends)]

    def forces(self, parameters: Array) -> Forces:
        """Forces, and loadings of the outputs."""
        first, n_forces = sum(self.counts), len(self.frequency)
        shape = (len(self.config), n_forces, N_STATES)
        loadings = parameters[first + n_forces :].reshape(shape)
        rate = np.exp(parameters[first : first + n_forces])
        return Forces(rate, np.array(self.frequency), loadings)

    def prior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each parameter a priori."""
        own = [Layout(item).prior for item in self.config]
        step = self.config[0].step
        rates = [
            (_NARROW[0] * item / (2 * np.pi), _NARROW[1]) if item else (_RATE[0] / step, _RATE[1])
            for item in self.frequency
        ]
        n_loadings = len(self.config) * len(self.frequency) * N_STATES
        mean = [*(item[0] for item in own), np.log([item[0] for item in rates])]
        spread = [*(item[1] for item in own), np.array([item[1] for item in rates])]
        return (
            np.concatenate([*mean, np.zeros(n_loadings)]),
            np.concatenate([*spread, np.full(n_loadings, LOADING)]),
        )


class JointEvidence:
    """Log evidence of all outputs and its gradient by the parameters.

    Args:
        config: what the model of each output is made of; no seasons.
        known: rows of each output with a known target.
        frequency: of each force; 0 for a low-pass force.
    """

    def __init__(
        self,
        config: Sequence[StateSpaceConfig],
        known: Sequence[Known],
        frequency: Sequence[float],
    ) -> None:
        self.layout = JointLayout(tuple(config), tuple(frequency))
        self._known = tuple(known)
        ends = np.cumsum([0, *(len(item.y) for item in known)])
        self._rows = [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def x(self) -> Array:
        """Known rows of all outputs."""
        return np.concatenate([item.x for item in self._known])

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Value and gradient."""
        layout = self.layout
        own, forces = layout.own(parameters), layout.forces(parameters)
        solved = JointSolved.of(layout.config, self._known, own, forces, self.x)
        mean, covariance, lagged = _moments(solved)
        step = np.diff(solved.chain.time)
        functions = [self._function(d, solved) for d in range(len(own))]
        parts = [
            self._by_own(d, solved, values, functions[d], mean, covariance, lagged, step)
            for d, values in enumerate(own)
        ]
        rates = np.array(
            [
                _by_force_rate(step, forces, q, solved.chain.states_of(q), mean, covariance, lagged)
                for q in range(len(forces.rate))
            ]
        )
        loadings = [
            self._by_loadings(d, solved, values, functions[d][0], mean, covariance).ravel()
            for d, values in enumerate(own)
        ]
        return solved.log_evidence, np.concatenate([*parts, rates, *loadings])

    def shared(self, parameters: Array) -> list[Array]:
        """Expected effect of the forces on each output at its own rows."""
        layout = self.layout
        own, forces = layout.own(parameters), layout.forces(parameters)
        solved = JointSolved.of(layout.config, self._known, own, forces, self.x)
        return [solved.moments(d, SHARED)[0][some] for d, some in enumerate(self._rows)]

    def _by_own(
        self,
        output: int,
        solved: JointSolved,
        parameters: Array,
        function: tuple[Array, Array],
        mean: Array,
        covariance: Array,
        lagged: Array,
        step: Array,
    ) -> Array:
        """By the logarithms of the parameters of one output."""
        config, known = self.layout.config[output], self._known[output]
        layout, by = Layout(config), {}
        square = (known.y - function[0]) ** 2 + function[1]
        by["noise"] = float(known.weight @ square) * np.exp(-2 * parameters[0]) - len(known.y)
        some = solved.weights_of(output)
        second = np.diag(solved.covariance)[some] + solved.mean[some] ** 2
        column = second / layout.column_variance(parameters) - 1.0
        if config.has_slope:
            by["slope"] = float(column[1])
        if config.n_inputs > 1:
            by["covariate"] = float(column[1 - config.n_inputs :].sum())
        names = [("level", config.has_level), ("reversion", config.has_reversion)]
        processes = layout.processes(parameters)
        start, kept, gained = transitions(step, processes)
        for i, name in enumerate(name for name, has in names if has):
            s = solved.chain.own[output][i]
            own = covariance[:, s, s] + mean[:, s] ** 2
            cross = lagged[:, s, s] + mean[:-1, s] * mean[1:, s]
            k, g = kept[:, i], gained[:, i]
            excess = (own[1:] - 2 * k * cross + k**2 * own[:-1]) / g - 1.0
            by[name] = float(excess.sum() + own[0] / start[i] - 1.0)
            if name == "reversion":
                reach = step * processes.rate[i]
                through = reach * k**2 * processes.variance[i] / g * excess
                by["rate"] = float((through - reach * k * (cross - k * own[:-1]) / g).sum())
        return np.array([by[name] for name in layout.names])

    def _function(self, output: int, solved: JointSolved) -> tuple[Array, Array]:
        """Mean and variance of the function of an output at its own rows."""
        some = self._rows[output]
        places = solved.places[some]
        columns = np.zeros((len(places), len(solved.mean)))
        columns[:, solved.weights_of(output)] = solved.designs[output][some]
        observed = solved.chain.observation[places, output]
        level = np.einsum("ns,nsc->nc", observed, solved.states[some])
        columns -= level[:, 1:]
        variance = np.einsum("nk,kl,nl->n", columns, solved.covariance, columns, optimize=True)
        spread = (observed[:, None] @ solved.chain.covariance[places])[:, 0]
        variance += np.einsum("ns,ns->n", spread, observed)
        return columns @ solved.mean + level[:, 0], variance

    def _by_loadings(
        self,
        output: int,
        solved: JointSolved,
        parameters: Array,
        function: Array,
        mean: Array,
        covariance: Array,
    ) -> Array:
        """By the loadings of one output, ``Q 2``."""
        known, some = self._known[output], self._rows[output]
        places = solved.places[some]
        chain, n_forces = solved.chain, len(solved.chain.forces.rate)
        shared = slice(chain.first_force, chain.n_states)
        carriers = chain.forces.carriers(chain.time[places])  # N Q 2 2
        observed = chain.observation[places, output]
        total = (observed[:, None] @ covariance[places])[:, 0, shared]  # with Hs
        own = solved.designs[output][some] @ solved.covariance[solved.weights_of(output)]
        total -= np.einsum("nk,nsk->ns", own, solved.states[some][:, shared, 1:])  # with ΦW
        product = (known.y - function)[:, None] * mean[places][:, shared] - total
        product *= (known.weight * np.exp(-2 * parameters[0]))[:, None]
        shaped = product.reshape(len(places), n_forces, N_STATES)
        return np.einsum("nqij,nqj->qi", carriers, shaped)


def _moments(solved: JointSolved) -> tuple[Array, Array, Array]:
    """Mean and covariance of all processes at each time, and covariance with the next time."""
    first = np.unique(solved.places, return_index=True)[1]
    states = solved.states[first]
    columns = states[:, :, 1:]
    turned = columns @ solved.covariance
    mean = states[:, :, 0] - columns @ solved.mean
    covariance = solved.chain.covariance + turned @ columns.transpose(0, 2, 1)
    lagged = solved.chain.lagged + turned[:-1] @ columns[1:].transpose(0, 2, 1)
    return mean, covariance, lagged


def _by_force_rate(
    step: Array,
    forces: Forces,
    force: int,
    some: slice,
    mean: Array,
    covariance: Array,
    lagged: Array,
) -> float:
    """By the log rate of one force: the expected log density of its states has few terms."""
    m = mean[:, some]
    here = covariance[:, some, some] + m[:, :, None] * m[:, None, :]
    later = lagged[:, some, some] + m[:-1, :, None] * m[1:, None, :]  # E[u_t u_{t+1}ᵀ]

    distinct, place = distinct_steps(step)
    sums = [sums_at(place, len(distinct), item) for item in (here[:-1], later, here[1:])]
    counts = np.bincount(place, minlength=len(distinct))

    def density(log_rate: float) -> float:
        rate = float(np.exp(log_rate))
        _, kept, gained = force_transitions(distinct, rate, float(forces.frequency[force]))
        before, between, after = sums
        off = kept @ between
        square = after - off - off.transpose(0, 2, 1) + kept @ before @ kept.transpose(0, 2, 1)
        trace = np.einsum("nij,nji->", np.linalg.inv(gained), square)
        return -0.5 * float(trace + counts @ np.linalg.slogdet(gained)[1])

    at = float(np.log(forces.rate[force]))
    return (density(at + _APART) - density(at - _APART)) / (2 * _APART)
