r"""Several outputs that share forces, solved for given parameters.

    y_d = Φ_d W_d + H_d s_d + Σ_q a_dqᵀ u_q + ε_d,

where the columns Φ_d, the processes s_d and the noise are an output's own, as in
:class:`~deeplfm.statespace.solved.Solved`, and the forces u_q are common to all outputs. Everything is
Gaussian: what is known of one output changes the posterior of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_solve

from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.forces import Forces
from deeplfm.statespace.joint_chain import JointChain
from deeplfm.statespace.parameters import Array, Layout, columns_of, design_of, processes_of
from deeplfm.statespace.solved import Known, distinct_times, sums_at

SHARED = "shared forces"  # name of the component
_AT_ONCE = 32  # columns that are solved together


@dataclass(frozen=True)
class JointSolved:
    """Posterior of weights, processes and forces of all outputs.

    Attributes:
        config: what the model of each output is made of.
        mean: expected weights of all outputs, one output after the other, ``K``.
        covariance: of the weights.
        designs: columns of the rows to predict, for each output.
        states: expected processes there, ``N s 1+K``: given the targets, and given each column.
        chain: the processes at the times of all rows.
        places: of the rows to predict among these times.
        log_evidence: log density of all targets.
    """

    config: tuple[StateSpaceConfig, ...]
    mean: Array
    covariance: Array
    designs: list[Array]
    states: Array
    chain: JointChain
    places: NDArray[np.intp]
    log_evidence: float

    @classmethod
    def of(
        cls,
        config: Sequence[StateSpaceConfig],
        known: Sequence[Known],
        parameters: Sequence[Array],
        forces: Forces,
        x: Array,
    ) -> JointSolved:
        """Solve at the times of the known rows of all outputs, and of those to predict."""
        layouts = [Layout(item) for item in config]
        time, place = distinct_times(
            config[0], np.concatenate([*(item.x[:, 0] for item in known), x[:, 0]])
        )
        ends = np.cumsum([0, *(len(item.y) for item in known)])
        rows = [place[a:b] for a, b in pairwise(ends)]
        noise = [float(np.exp(item[0])) for item in parameters]
        precision = np.stack(
            [
                sums_at(some, len(time), item.weight) / size**2
                for some, item, size in zip(rows, known, noise, strict=True)
            ],
            axis=1,
        )
        chain = JointChain(
            time,
            [layout.processes(item) for layout, item in zip(layouts, parameters, strict=True)],
            forces,
            precision,
        )
        seen = [design_of(part, item.x) for part, item in zip(config, known, strict=True)]
        weight = [item.weight[:, None] / size**2 for item, size in zip(known, noise, strict=True)]
        columns = _columns(
            [sums_at(*pair) for pair in _weighted(rows, len(time), weight, [k.y for k in known])],
            [sums_at(*pair) for pair in _weighted(rows, len(time), weight, seen)],
        )  # N D 1+K
        states, seen_by = _solve(chain, columns)
        gram = block_diag(*(f.T @ (w * f) for f, w in zip(seen, weight, strict=True)))
        moment = np.concatenate(
            [f.T @ (w[:, 0] * item.y) for f, w, item in zip(seen, weight, known, strict=True)]
        )
        square = sum(
            float(w[:, 0] @ item.y**2) for w, item in zip(weight, known, strict=True)
        ) - float(seen_by[0, 0])
        gram, moment = gram - seen_by[1:, 1:], moment - seen_by[1:, 0]
        scale = np.sqrt(
            np.concatenate(
                [layout.column_variance(p) for layout, p in zip(layouts, parameters, strict=True)]
            )
        )
        whitened = scale[:, None] * (gram + gram.T) / 2 * scale
        whitened[np.diag_indices_from(whitened)] += 1.0
        factor = np.linalg.cholesky(whitened)
        inverse = cho_solve((factor, True), np.eye(len(scale)), check_finite=False)
        covariance = scale[:, None] * inverse * scale
        mean = covariance @ moment
        n_log_noise = sum(
            len(item.y) * np.log(2 * np.pi * size**2) - np.log(item.weight).sum()
            for item, size in zip(known, noise, strict=True)
        )
        log_evidence = -0.5 * (
            n_log_noise
            + chain.log_determinant
            + 2 * np.log(np.diag(factor)).sum()
            + square
            - float(moment @ mean)
        )
        there = place[ends[-1] :]
        asked = [design_of(item, x) for item in config]
        return cls(
            tuple(config), mean, covariance, asked, states[there], chain, there, float(log_evidence)
        )

    def weights_of(self, output: int) -> slice:
        """Places of the weights of an output."""
        ends = np.cumsum([0, *(item.shape[1] for item in self.designs)])
        return slice(int(ends[output]), int(ends[output + 1]))

    def moments(self, output: int, component: str | None = None) -> tuple[Array, Array]:
        """Mean and variance of the function of an output, or of one of its components."""
        columns, level, observed = self._parts(output, component)
        mean = columns @ self.mean + level
        variance = np.einsum("nk,kl,nl->n", columns, self.covariance, columns, optimize=True)
        spread = (observed[:, None] @ self.chain.covariance[self.places])[:, 0]
        return mean, variance + np.einsum("ns,ns->n", spread, observed)

    def draw(self, n_draws: int, generator: np.random.Generator) -> Array:
        """Functions of all outputs at the rows to predict, ``S N D``."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        weights = self.mean + generator.standard_normal((n_draws, len(root))) @ root.T
        size = self.chain.n_times * self.chain.n_states
        states = self.chain.draw(generator.standard_normal((size, n_draws)))[self.places]
        drawn = np.zeros((n_draws, len(self.places), len(self.config)))
        for d in range(len(self.config)):
            columns, level, observed = self._parts(d)
            drawn[..., d] = weights @ columns.T + level
            drawn[..., d] += np.einsum("ns,nsc->cn", observed, states)
        return drawn

    def _parts(self, output: int, component: str | None = None) -> tuple[Array, Array, Array]:
        """Factors of the weights, what the targets add, and the effect of each process."""
        design = np.zeros((len(self.places), len(self.mean)))
        design[:, self.weights_of(output)] = self.designs[output]
        observed = self.chain.observation[self.places, output]
        if component is not None:
            config, first = self.config[output], self.weights_of(output).start
            columns = [first + place for place in columns_of(config).get(component, [])]
            own = self.chain.own[output]
            which = [own[place] for place in processes_of(config).get(component, [])]
            if component == SHARED:
                which = list(range(self.chain.first_force, self.chain.n_states))
            design = np.where(np.isin(np.arange(design.shape[1]), columns), design, 0.0)
            observed = np.where(np.isin(np.arange(observed.shape[1]), which), observed, 0.0)
        level = np.einsum("ns,nsc->nc", observed, self.states)
        return design - level[:, 1:], level[:, 0], observed


def _weighted(
    rows: list[NDArray[np.intp]], n_times: int, weight: list[Array], values: list[Array]
) -> list[tuple[NDArray[np.intp], int, Array]]:
    """Arguments of sums over the rows of each time, for each output."""
    return [
        (place, n_times, w * item.reshape(len(place), -1))
        for place, w, item in zip(rows, weight, values, strict=True)
    ]


def _columns(targets: list[Array], columns: list[Array]) -> Array:
    """Precision × targets of all outputs, then × each column, which one output has, ``N D 1+K``."""
    counts = [item.shape[1] for item in columns]
    found = np.zeros((len(targets[0]), len(targets), 1 + sum(counts)))
    place = 1
    for d, (target, own) in enumerate(zip(targets, columns, strict=True)):
        found[:, d, :1], found[:, d, place : place + counts[d]] = target, own
        place += counts[d]
    return found


def _solve(chain: JointChain, columns: Array) -> tuple[Array, Array]:
    """Expected processes given each column, and products of columns through them, ``1+K 1+K``."""
    n_columns = columns.shape[2]
    states = np.empty((chain.n_times, chain.n_states, n_columns))
    turned = chain.observation.transpose(0, 2, 1)
    for first in range(0, n_columns, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        states[:, :, some] = chain.states(turned @ columns[:, :, some])
    through = (chain.observation @ states).reshape(-1, n_columns)
    return states, columns.reshape(-1, n_columns).T @ through
