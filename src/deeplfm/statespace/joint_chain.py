"""Markov processes of several outputs and of the forces that they share, given noisy observations.

As in :class:`~deeplfm.statespace.chain.Chain`, the precision matrix of all values is banded. Its
bandwidth is the number of processes of all outputs together, so that time grows with the number of rows
and with the cube of that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dtbtrs

from deeplfm.statespace.chain import transitions
from deeplfm.statespace.forces import N_STATES, Forces, distinct_steps, force_transitions
from deeplfm.statespace.parameters import Array, Processes


class JointChain:
    """Values of the processes of all outputs and of the shared forces at some times.

    Args:
        time: increasing.
        processes: of each output.
        forces: shared by the outputs.
        precision: of the observation of each output at each time, ``N D``; 0 without one.
    """

    def __init__(
        self, time: Array, processes: Sequence[Processes], forces: Forces, precision: Array
    ) -> None:
        self.time, self.processes, self.forces = time, tuple(processes), forces
        counts = [len(item.rate) for item in processes]
        ends = np.cumsum([0, *counts])
        self.own = [list(range(a, b)) for a, b in pairwise(ends)]
        self.first_force = int(ends[-1])
        self.n_times = len(time)
        self.n_states = self.first_force + N_STATES * len(forces.rate)
        self.observation = self._observation()  # N D s
        diagonal, below, self._log_determinant_prior = self._prior()
        scaled = np.sqrt(precision)[:, :, None] * self.observation
        diagonal += scaled.transpose(0, 2, 1) @ scaled
        bands = self._bands(diagonal, below)
        self._factor = cholesky_banded(bands, lower=True, check_finite=False, overwrite_ab=True)

    def states_of(self, force: int) -> slice:
        """Places of the states of a force."""
        first = self.first_force + N_STATES * force
        return slice(first, first + N_STATES)

    @property
    def log_determinant(self) -> float:
        """Log determinant of the posterior precision over that of the prior."""
        return float(2 * np.log(self._factor[0]).sum()) - self._log_determinant_prior

    def states(self, right: Array) -> Array:
        """Expected processes at every time, ``N s C``, given Hᵀ × precision × observation, ``N s C``."""
        solved: Array = cho_solve_banded(
            (self._factor, True),
            right.reshape(self.n_times * self.n_states, -1),
            check_finite=False,
        )
        return solved.reshape(self.n_times, self.n_states, -1)

    @cached_property
    def _smoothed(self) -> tuple[Array, Array]:
        """Covariance at each time, and of each time with the next one, ``N s s`` and ``N-1 s s``."""
        n_times, size = self.n_times, self.n_states
        own, below = np.zeros((n_times, size, size)), np.zeros((n_times, size, size))
        for apart, band in enumerate(self._factor):
            column = band.reshape(n_times, size)
            for j in range(size):
                if j + apart < size:
                    own[:, j + apart, j] = column[:, j]
                elif j + apart < 2 * size:
                    below[:, j + apart - size, j] = column[:, j]
        inverse = np.linalg.inv(own).transpose(0, 2, 1)
        jump = -inverse @ below.transpose(0, 2, 1)
        found = inverse @ inverse.transpose(0, 2, 1)
        for t in range(n_times - 2, -1, -1):
            found[t] += jump[t] @ found[t + 1] @ jump[t].T
        return found, jump[:-1] @ found[1:]

    @property
    def covariance(self) -> Array:
        """Covariance of the processes at each time, ``N s s``."""
        return self._smoothed[0]

    @property
    def lagged(self) -> Array:
        """Covariance of the processes (rows) with those of the next time (columns), ``N-1 s s``."""
        return self._smoothed[1]

    def draw(self, noise: Array) -> Array:
        """Deviations of the processes from their expected values, ``N s C``, from normal noise."""
        drawn, _ = dtbtrs(self._factor, noise, uplo="L", trans="T")
        return np.asarray(drawn).reshape(self.n_times, self.n_states, -1)

    def _observation(self) -> Array:
        found = np.zeros((self.n_times, len(self.processes), self.n_states))
        for d, item in enumerate(self.processes):
            found[:, d, self.own[d]] = item.observation(self.time)
        carriers = self.forces.carriers(self.time)
        shared = np.einsum("dqi,nqij->ndqj", self.forces.loadings, carriers)
        found[:, :, self.first_force :] = shared.reshape(*found.shape[:2], -1)
        return found

    def _prior(self) -> tuple[Array, Array, float]:
        """Prior precision of each time and of each time with the one before; its log determinant."""
        step, size = np.diff(self.time), self.n_states
        diagonal = np.zeros((self.n_times, size, size))
        below = np.zeros((self.n_times - 1, size, size))
        log_determinant = 0.0
        for places, item in zip(self.own, self.processes, strict=True):
            start, kept, gained = transitions(step, item)
            diagonal[0, places, places] = 1 / start
            diagonal[1:, places, places] = 1 / gained
            diagonal[:-1, places, places] += kept**2 / gained
            below[:, places, places] = -kept / gained
            log_determinant -= float(np.log(gained).sum() + np.log(start).sum())
        for q, (rate, frequency) in enumerate(
            zip(self.forces.rate, self.forces.frequency, strict=True)
        ):
            some = self.states_of(q)
            distinct, place = distinct_steps(step)
            start, kept, gained = force_transitions(distinct, rate, frequency)
            precision = np.linalg.inv(gained)
            through = precision @ kept
            diagonal[0, some, some] = np.linalg.inv(start)
            diagonal[1:, some, some] = precision[place]
            diagonal[:-1, some, some] += (kept.transpose(0, 2, 1) @ through)[place]
            below[:, some, some] = -through[place]
            log_determinant -= float(np.linalg.slogdet(gained)[1][place].sum())
            log_determinant -= float(np.linalg.slogdet(start)[1])
        return diagonal, below, log_determinant

    def _bands(self, diagonal: Array, below: Array) -> Array:
        """Lower bands of a block tridiagonal matrix."""
        size = self.n_states
        extra = N_STATES - 1 if len(self.forces.rate) else 0
        bands = np.zeros((size + extra + 1, self.n_times, size))
        for apart in range(size):
            bands[apart, :, : size - apart] = np.diagonal(diagonal, -apart, axis1=1, axis2=2)
        bands[size, :-1] = np.diagonal(below, axis1=1, axis2=2)
        for q in range(len(self.forces.rate)):
            first = self.states_of(q).start
            bands[size + 1, :-1, first] = below[:, first + 1, first]
            bands[size - 1, :-1, first + 1] += below[:, first, first + 1]
        return bands.reshape(size + extra + 1, -1)
