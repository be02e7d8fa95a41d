r"""One output, solved for given parameters: y = ΦW + Hs + ε, everything Gaussian and in closed form.

Columns Φ have weights W with independent normal priors, and s are the Markov processes of a
:class:`~deeplfm.statespace.chain.Chain`. With C = Cov(Hs + ε), the posterior of W needs ΦᵀC⁻¹Φ and ΦᵀC⁻¹y
only, which take a time that is linear in the number of rows; the processes given W are those of the
residuals y − ΦW.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from deeplfm.statespace.chain import Chain
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.parameters import Array, Layout, columns_of, design_of, processes_of

_TICK = 1e-9  # of a step: times that are closer are the same
_AT_ONCE = 16  # columns that are smoothed


def distinct_times(config: StateSpaceConfig, times: Array) -> tuple[Array, NDArray[np.intp]]:
    """Times since the beginning, in order and apart, and the place of each given time among them."""
    tick = _TICK * config.step
    ticks, place = np.unique(np.rint((times - config.begin) / tick), return_inverse=True)
    return ticks * tick, place


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
        """Of each row, in units of the noise precision."""
        if not self.error.any():
            return self.weight
        return np.asarray(self.weight / (1 + self.error / noise**2))


@dataclass(frozen=True)
class Solved:
    """Posterior of weights and processes of one output, at the rows to predict.

    Attributes:
        config: what the model is made of.
        mean: expected weights.
        covariance: of the weights.
        design: columns of the rows to predict.
        states: expected processes there, ``N s 1+K``: given the targets, and given each column in their
            place.
        chain: the processes at the times of all rows; None where there are none.
        places: of the rows to predict among these times.
        noise: standard deviation of the noise.
        log_evidence: log density of the targets.
    """

    config: StateSpaceConfig
    mean: Array
    covariance: Array
    design: Array
    states: Array
    chain: Chain | None
    places: NDArray[np.intp]
    noise: float
    log_evidence: float

    @classmethod
    def of(
        cls,
        config: StateSpaceConfig,
        known: Known,
        parameters: Array,
        x: Array,
        seen: Array | None = None,
    ) -> Solved:
        """Solve at the times of the known rows, whose columns are ``seen``, and of those to predict."""
        layout, noise = Layout(config), float(np.exp(parameters[0]))
        seen = design_of(config, known.x) if seen is None else seen
        asked = seen if x is known.x else design_of(config, x)
        both = np.column_stack([known.y, seen])
        precision = known.precision(noise)
        weighted = both if (precision == 1).all() else precision[:, None] * both
        processes = layout.processes(parameters)
        chain, log_determinant, smooth = None, 0.0, np.zeros_like(both)
        states, there = np.zeros((len(x), 0, both.shape[1])), np.arange(len(x))
        if processes.size:
            time, place = distinct_times(config, np.concatenate([known.x[:, 0], x[:, 0]]))
            here, there = place[: len(known.y)], place[len(known.y) :]
            chain = Chain(time, processes.scaled(noise**-2), sums_at(here, len(time), precision))
            states = np.empty((len(x), chain.n_processes, both.shape[1]))
            for first in range(0, both.shape[1], _AT_ONCE):  # memory is bounded in long series
                some = slice(first, first + _AT_ONCE)
                found = chain.states(sums_at(here, len(time), weighted[:, some]))
                smooth[:, some] = np.einsum("ns,nsc->nc", chain.observation, found)[here]
                states[:, :, some] = found[there]
            log_determinant = chain.log_determinant
        total = weighted.T @ (both - smooth) / noise**2
        scale = np.sqrt(layout.column_variance(parameters))
        gram, moment, square = total[1:, 1:], total[1:, 0], float(total[0, 0])
        whitened = scale[:, None] * (gram + gram.T) / 2 * scale
        whitened[np.diag_indices_from(whitened)] += 1.0
        factor = np.linalg.cholesky(whitened)
        inverse = cho_solve((factor, True), np.eye(len(scale)), check_finite=False)
        covariance = scale[:, None] * inverse * scale
        mean = covariance @ moment
        log_evidence = -0.5 * (
            len(known.y) * np.log(2 * np.pi * noise**2)
            - np.log(precision).sum()
            + log_determinant
            + 2 * np.log(np.diag(factor)).sum()
            + square
            - float(moment @ mean)
        )
        return cls(
            config, mean, covariance, asked, states, chain, there, noise, float(log_evidence)
        )

    def _parts(self, component: str | None) -> tuple[Array, Array, list[int] | None]:
        """Factors of the weights, the part that the targets add, and the processes that count."""
        if self.chain is None:
            observed, which = np.zeros((len(self.design), 0)), None
        else:
            observed, which = self.chain.observation[self.places], None
        design = self.design
        if component is not None:
            columns = columns_of(self.config)[component]
            which = processes_of(self.config).get(component, [])
            design = np.where(np.isin(np.arange(design.shape[1]), columns), design, 0.0)
            observed = np.where(np.isin(np.arange(observed.shape[1]), which), observed, 0.0)
        level = np.einsum("ns,nsc->nc", observed, self.states)
        return design - level[:, 1:], level[:, 0], which

    def moments(self, component: str | None = None) -> tuple[Array, Array]:
        """Mean and variance of the function, or of one component."""
        columns, level, which = self._parts(component)
        mean = columns @ self.mean + level
        variance = np.einsum("nk,kl,nl->n", columns, self.covariance, columns, optimize=True)
        if self.chain is not None and which != []:
            variance = variance + self.noise**2 * self.chain.variance(self.places, which)
        return mean, variance

    def draw(self, n_draws: int, generator: np.random.Generator) -> Array:
        """Functions at the rows to predict, ``S N``."""
        columns, level, _ = self._parts(None)
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        weights = self.mean + generator.standard_normal((n_draws, len(root))) @ root.T
        drawn: Array = weights @ columns.T + level
        if self.chain is not None:
            size = self.chain.n_times * self.chain.n_processes
            noise = generator.standard_normal((size, n_draws))
            drawn = drawn + self.noise * self.chain.draw(noise)[self.places].T
        return drawn
