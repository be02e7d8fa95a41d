r"""Outputs, solved for given parameters: everything is Gaussian and in closed form.

    y_d = Φ_d W_d + H_d s_d + Σ_q a_dqᵀ u_q + ε_d.

Columns Φ_d have weights W_d with independent normal priors, and s_d are the Markov processes of an
output. Forces u_q, if there are any, are common to all outputs: what is known of one output changes the
posterior of all. With C = Cov(Hs + Au + ε), the posterior of W needs ΦᵀC⁻¹Φ and ΦᵀC⁻¹y only, which take
a time that is linear in the number of rows (:class:`~deeplfm.statespace.chain.Chain`); the processes
given W are those of the residuals y − ΦW.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from deeplfm.statespace.chain import Array, Chain, Processes
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.forces import Forces
from deeplfm.statespace.parameters import Layout, columns_of, design_of, processes_of

SHARED = "shared forces"  # name of the component
_ALL = slice(None)
_TICK = 1e-9  # of a step, the resolution of times
# Of a typical or a mean step: times that are nearer are one. A level with a velocity gains a variance
# of δ³ in a step δ, whose inverse must not exceed others by more than float64 holds.
_NEAR = 1e-3
_AT_ONCE = 16  # columns that are smoothed


def distinct_times(
    config: StateSpaceConfig, times: Array, n_rows: int
) -> tuple[Array, NDArray[np.intp]]:
    """Times since the beginning, in order and apart, and the place of each given time among them."""
    tick, near = _TICK * config.step, _NEAR * max(config.step, config.span / n_rows)
    ticks, place = np.unique(np.rint((times - config.begin) / tick), return_inverse=True)
    found = ticks * tick
    is_apart = np.append(True, np.diff(found) >= near)
    if is_apart.all():
        return found, place
    start = found[is_apart][np.cumsum(is_apart) - 1]  # of a run of times that are near
    apart, merged = np.unique(start + near * ((found - start) // near), return_inverse=True)
    return apart, merged[place]


def sums_at(place: NDArray[np.intp], n_places: int, values: Array) -> Array:
    """Sums of the values of each place."""
    total = np.zeros((n_places, *values.shape[1:]))
    if len(place) > 1 and bool((np.diff(place) > 0).all()):
        total[place] = values
    else:
        np.add.at(total, place, values)
    return total


class Known(NamedTuple):
    """Rows of one output with a known target.

    Attributes:
        x: inputs.
        y: targets.
        weight: how many rows each stands for.
        error: variance of the measurement error, which adds to the noise.
    """

    x: Array
    y: Array
    weight: Array
    error: Array

    def precision(self, noise: float) -> Array:
        """Of each row."""
        return np.asarray(self.weight / (noise**2 + self.error))


@dataclass(frozen=True)
class Solved:
    """Posterior of weights, processes and forces of some outputs, at the rows to predict.

    Attributes:
        config: what the model of each output is made of.
        mean: expected weights of all outputs, one output after the other, ``K``.
        covariance: of the weights.
        designs: columns of the rows to predict, for each output.
        states: expected processes there, ``N s 1+K``: given the targets, and given each column in their
            place.
        chain: the processes at the times of all rows.
        own: places of the processes of each output among all.
        places: of the rows to predict among the times.
        noise: standard deviation of the noise of each output.
        log_evidence: log density of all targets; −∞ where rounding hides it.
    """

    config: tuple[StateSpaceConfig, ...]
    mean: Array
    covariance: Array
    designs: list[Array]
    states: Array
    chain: Chain
    own: list[list[int]]
    places: NDArray[np.intp]
    noise: Array
    log_evidence: float

    @classmethod
    def of(
        cls,
        config: Sequence[StateSpaceConfig],
        known: Sequence[Known],
        parameters: Sequence[Array],
        x: Array,
        forces: Forces | None = None,
        seen: Sequence[Array] | None = None,
    ) -> Solved:
        """Solve at the times of the known rows, whose columns are ``seen``, and of those to predict.

        Args:
            config: what the model of each output is made of.
            known: rows of each output.
            parameters: of each output.
            x: rows to predict.
            forces: that the outputs share.
            seen: columns of the known rows of each output, where they have been found before.
        """
        layouts = [Layout(item) for item in config]
        noise = np.exp([item[0] for item in parameters])
        if seen is None:
            seen = [design_of(*pair) for pair in zip(config, (k.x for k in known), strict=True)]
        asked = [
            columns if x is item.x else design_of(part, x)
            for part, item, columns in zip(config, known, seen, strict=True)
        ]
        times = [item.x[:, 0] for item in known]
        time, place = distinct_times(
            config[0], np.concatenate([*times, x[:, 0]]), max(1, *map(len, times))
        )
        ends = np.cumsum([0, *map(len, times)])
        rows = [place[a:b] for a, b in pairwise(ends)]
        there = place[ends[-1] :]
        precision = [item.precision(size) for item, size in zip(known, noise, strict=True)]
        parts = [layout.processes(p) for layout, p in zip(layouts, parameters, strict=True)]
        processes, observation, own = _joined(parts, forces, time)
        at_times = [sums_at(here, len(time), w) for here, w in zip(rows, precision, strict=True)]
        chain = Chain(time, processes, np.stack(at_times, axis=1), observation)
        both, weighted = _right_sides(known, precision, seen)
        sums = [
            sums_at(*pair) for pair in zip(rows, [len(time)] * len(rows), weighted, strict=True)
        ]
        states, smooth = _smooth(chain, np.stack(sums, axis=1), there)
        total = sum(
            w.T @ (b - smooth[here, d])
            for d, (here, w, b) in enumerate(zip(rows, weighted, both, strict=True))
        )
        variances = [
            layout.column_variance(p) for layout, p in zip(layouts, parameters, strict=True)
        ]
        scale = np.sqrt(np.concatenate(variances))
        gram, moment, square = total[1:, 1:], total[1:, 0], float(total[0, 0])
        whitened = scale[:, None] * (gram + gram.T) / 2 * scale
        whitened[np.diag_indices_from(whitened)] += 1.0
        inverse, log_determinant = _inverse(whitened)
        covariance = scale[:, None] * inverse * scale
        mean = covariance @ moment
        log_evidence = -0.5 * (
            sum(len(w) * np.log(2 * np.pi) - np.log(w).sum() for w in precision)
            + chain.log_determinant
            + log_determinant
            + square
            - float(moment @ mean)
        )
        return cls(
            tuple(config),
            mean,
            covariance,
            asked,
            states,
            chain,
            own,
            there,
            noise,
            float(log_evidence),
        )

    def weights_of(self, output: int) -> slice:
        """Places of the weights of an output."""
        ends = np.cumsum([0, *(item.shape[1] for item in self.designs)])
        return slice(int(ends[output]), int(ends[output + 1]))

    def factors(
        self, output: int, component: str | None = None, rows: slice = _ALL
    ) -> tuple[Array, Array, Array]:
        """Factors of the weights, what the targets add, and the effect of each process."""
        design = np.zeros((len(self.places[rows]), len(self.mean)))
        design[:, self.weights_of(output)] = self.designs[output][rows]
        observed = self.chain.observation[self.places[rows], output]
        if component is not None:
            config, first = self.config[output], self.weights_of(output).start
            columns = [first + place for place in columns_of(config).get(component, [])]
            which = [self.own[output][i] for i in processes_of(config).get(component, [])]
            if component == SHARED:
                which = list(range(sum(map(len, self.own)), self.chain.n_states))
            design = np.where(np.isin(np.arange(design.shape[1]), columns), design, 0.0)
            observed = np.where(np.isin(np.arange(observed.shape[1]), which), observed, 0.0)
        level = np.einsum("ns,nsc->nc", observed, self.states[rows])
        return design - level[:, 1:], level[:, 0], observed

    def moments(
        self, output: int = 0, component: str | None = None, rows: slice = _ALL
    ) -> tuple[Array, Array]:
        """Mean and variance of the function of an output, or of one of its components."""
        columns, level, observed = self.factors(output, component, rows)
        mean = columns @ self.mean + level
        variance = ((columns @ self.covariance) * columns).sum(1)
        if observed.any():
            own = (observed[:, None] @ self.chain.covariance[self.places[rows]])[:, 0]
            variance = variance + np.einsum("ns,ns->n", own, observed)
        return mean, variance

    def draw(self, n_draws: int, generator: np.random.Generator) -> Array:
        """Functions of all outputs at the rows to predict, ``S N D``."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        weights = self.mean + generator.standard_normal((n_draws, len(root))) @ root.T
        size = self.chain.n_times * self.chain.n_states
        states = self.chain.draw(generator.standard_normal((size, n_draws)))[self.places]
        drawn = np.zeros((n_draws, len(self.places), len(self.config)))
        for d in range(len(self.config)):
            columns, level, observed = self.factors(d)
            drawn[..., d] = weights @ columns.T + level
            drawn[..., d] += np.einsum("ns,nsc->cn", observed, states)
        return drawn


def _joined(
    parts: Sequence[Processes], forces: Forces | None, time: Array
) -> tuple[Processes, Array, list[list[int]]]:
    """Processes of all outputs and forces; their effects, ``N D s``; the places of each output's own."""
    if len(parts) == 1 and forces is None:
        return parts[0], parts[0].observation(time)[:, None], [list(range(parts[0].size))]
    rate, variance, frequency = (np.concatenate([part[i] for part in parts]) for i in range(3))
    pairs = [pair for part in parts for pair in part.pairs]
    pairs += forces.pairs if forces else ()
    is_sine = np.concatenate([part.is_sine for part in parts])
    joined = Processes(rate, variance, frequency, is_sine, tuple(pairs))
    own: list[list[int]] = []
    single, pair = 0, len(joined.rate)
    observation = np.zeros((len(time), len(parts), joined.size))
    for d, part in enumerate(parts):
        n_singles, n_values = len(part.rate), 2 * len(part.pairs)
        own.append([*range(single, single + n_singles), *range(pair, pair + n_values)])
        single, pair = single + n_singles, pair + n_values
        observation[:, d, own[d]] = part.observation(time)
    if forces:
        shared = np.einsum("dqi,nqij->ndqj", forces.loadings, forces.carriers(time))
        observation[:, :, pair:] = shared.reshape(len(time), len(parts), -1)
    return joined, observation, own


def _right_sides(
    known: Sequence[Known], precision: Sequence[Array], columns: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Targets and all columns of each output, ``N 1+K``: those of other outputs are 0; with weights."""
    both, place = [], 1
    n_columns = 1 + sum(item.shape[1] for item in columns)
    for item, own in zip(known, columns, strict=True):
        table = np.zeros((len(own), n_columns))
        table[:, 0], table[:, place : place + own.shape[1]] = item.y, own
        place += own.shape[1]
        both.append(table)
    return both, [w[:, None] * item for w, item in zip(precision, both, strict=True)]


def _inverse(precision: Array) -> tuple[Array, float]:
    """Inverse and log determinant of I + a Gram matrix.

    With next to no noise the rounding of the Gram matrix is more than I: its eigenvalues are then raised
    to 1, and the determinant is not known.
    """
    try:
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(precision)
        return (vectors / np.maximum(values, 1.0)) @ vectors.T, np.inf
    inverse = cho_solve((factor, True), np.eye(len(factor)), check_finite=False)
    return inverse, 2 * float(np.log(np.diag(factor)).sum())


def _smooth(chain: Chain, sums: Array, there: NDArray[np.intp]) -> tuple[Array, Array]:
    """Expected processes at some times given each column, and expected observations at all times."""
    n_columns = sums.shape[2]
    smooth = np.empty_like(sums)
    states = np.empty((len(there), chain.n_states, n_columns))
    for first in range(0, n_columns, _AT_ONCE):  # memory is bounded in long series
        some = slice(first, first + _AT_ONCE)
        found = chain.states(sums[:, :, some])
        smooth[:, :, some] = chain.observation @ found
        states[:, :, some] = found[there]
    return states, smooth
