r"""Markov processes at the times of some rows, conditioned on noisy observations of their sum.

    y_n = Σ_i h_i(t_n) s_i(t_n) + ε_n,

where each s_i is a random walk, an Ornstein–Uhlenbeck process or a damped level with its velocity, and
h_i is 1 or a sinusoid. Given the values at one time, the future does not depend on the past. So the
precision matrix of all values, ordered by time, has about as many bands as there are processes, and its
Cholesky factor takes a time that is linear in the number of rows, for any steps between them and gaps.

All variances are in units of the noise variance.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dtbtrs

from deeplfm.statespace.damped_level import DampedLevel
from deeplfm.statespace.parameters import Array, Processes

# Variance of a level at the first time, over that of one step: the constant of the model is its level
# there, and a precision needs a variance.
_LEVEL_START = 1e-6


class Chain:
    """Values of Markov processes at some times, given observations of their sum.

    Args:
        time: increasing.
        processes: parameters, with variances in units of the noise variance.
        precision: of the observation at each time, in units of the noise precision; 0 without one.
    """

    def __init__(self, time: Array, processes: Processes, precision: Array) -> None:
        self.observation = processes.observation(time)  # N s
        self.n_times, self.n_processes = self.observation.shape
        bands, self._log_determinant_prior = _prior_bands(np.diff(time), processes)
        shape = (self.n_times, self.n_processes)
        bands[0] += (precision[:, None] * self.observation**2).ravel()
        for apart in range(1, self.n_processes):
            product = self.observation[:, apart:] * self.observation[:, : self.n_processes - apart]
            bands[apart].reshape(shape)[:, : -apart or None] += precision[:, None] * product
        self._factor = cholesky_banded(bands, lower=True, check_finite=False, overwrite_ab=True)

    @property
    def log_determinant(self) -> float:
        """Log |I + H P Hᵀ R⁻¹|: of the covariance of the observations over that of their noise."""
        return float(2 * np.log(self._factor[0]).sum()) - self._log_determinant_prior

    def states(self, weighted: Array) -> Array:
        """Expected processes at every time, ``N s C``, given sums of precision × observation."""
        right = (self.observation[:, :, None] * weighted[:, None, :]).reshape(
            self.n_times * self.n_processes, -1
        )
        solved: Array = cho_solve_banded(
            (self._factor, True), right, overwrite_b=True, check_finite=False
        )
        return solved.reshape(self.n_times, self.n_processes, -1)

    def smooth(self, weighted: Array) -> Array:
        """Expected sum of the processes at every time, ``N C``."""
        return np.einsum("ns,nsc->nc", self.observation, self.states(weighted))

    @cached_property
    def _smoothed(self) -> tuple[Array, Array]:
        """Covariance at each time, ``N s s``, and of each time with the next, ``N-1 s s``.

        The factor gives s_t = J_t s_{t+1} + noise, where J_t and the noise are known for all t at once:
        what is left is a recursion from the last time to the first.
        """
        n_times, size = self.n_times, self.n_processes
        own, next_own = np.zeros((n_times, size, size)), np.zeros((n_times, size, size))
        columns = np.arange(size)
        for apart in range(len(self._factor)):
            band = self._factor[apart].reshape(n_times, size)
            inside = columns + apart < size
            own[:, columns[inside] + apart, columns[inside]] = band[:, inside]
            beyond = ~inside & (columns + apart < 2 * size)
            next_own[:, columns[beyond] + apart - size, columns[beyond]] = band[:, beyond]
        inverse = np.linalg.inv(own).transpose(0, 2, 1)  # L⁻ᵀ
        jump = -inverse @ next_own.transpose(0, 2, 1)
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
        """Covariance of the processes with those at the next time, ``N-1 s s``."""
        return self._smoothed[1]

    def variance(self, some: NDArray[np.intp], which: list[int] | None = None) -> Array:
        """Variance of the sum of the processes, or of some of them, at some of the times."""
        observed = self.observation[some]
        if which is not None:
            observed = np.where(np.isin(np.arange(self.n_processes), which), observed, 0.0)
        return np.einsum("ns,nst,nt->n", observed, self.covariance[some], observed)

    def draw(self, noise: Array) -> Array:
        """Deviations of the sum from its expected value at every time, ``N C``, from normal noise."""
        drawn, _ = dtbtrs(self._factor, noise, uplo="L", trans="T")
        drawn = drawn.reshape(self.n_times, self.n_processes, -1)
        return np.einsum("ns,nsc->nc", self.observation, drawn)


def transitions(step: Array, processes: Processes) -> tuple[Array, Array, Array]:
    """Of one value: variance at the first time; for each step, the part that is kept, what is gained."""
    is_level = processes.rate == 0
    start = np.where(is_level, _LEVEL_START * _typical(step), 1.0) * processes.variance
    reach = np.outer(step, processes.rate)
    gained = np.where(is_level, step[:, None], -np.expm1(-2 * reach)) * processes.variance
    return start, np.exp(-reach), gained


def damped_start(step: Array, damped: DampedLevel) -> Array:
    """Variances of a damped level and of its velocity at the first time."""
    return damped.variance * np.array([_LEVEL_START * _typical(step) ** 2, 1.0])


def _typical(step: Array) -> float:
    return float(np.median(step)) if len(step) else 1.0


def _prior_bands(step: Array, processes: Processes) -> tuple[Array, float]:
    """Lower bands of the precision of all values, and the logarithm of its determinant."""
    size, n_single, n_times = processes.size, len(processes.rate), len(step) + 1
    start, kept, gained = transitions(step, processes)
    n_bands = size + 1 + (processes.damped is not None)
    bands = np.zeros((n_bands, n_times, size))
    diagonal = bands[0, :, :n_single]
    diagonal[0] = 1 / start
    diagonal[1:] = 1 / gained
    diagonal[:-1] += kept**2 / gained
    bands[size, :-1, :n_single] = -kept / gained
    log_determinant = -np.log(gained).sum() - np.log(start).sum()
    if processes.damped is not None:
        log_determinant += _add_damped(bands, step, processes.damped)
    return bands.reshape(n_bands, n_times * size), float(log_determinant)


def _add_damped(bands: Array, step: Array, damped: DampedLevel) -> float:
    """Add the precision of a damped level and its velocity, the last two values of each time."""
    size, level, velocity = bands.shape[2], -2, -1
    start, jump = damped_start(step, damped), damped.transition(step)
    gained = damped.innovation(step)
    precision = np.linalg.inv(gained)
    through = precision @ jump
    own = np.zeros((len(step) + 1, 2, 2))
    own[0] = np.diag(1 / start)
    own[1:] += precision
    own[:-1] += jump.transpose(0, 2, 1) @ through
    bands[0, :, level], bands[0, :, velocity] = own[:, 0, 0], own[:, 1, 1]
    bands[1, :, level] += own[:, 1, 0]
    bands[size, :-1, level], bands[size, :-1, velocity] = -through[:, 0, 0], -through[:, 1, 1]
    bands[size + 1, :-1, level] = -through[:, 1, 0]
    bands[size - 1, :-1, velocity] += -through[:, 0, 1]
    return float(-np.log(np.linalg.det(gained)).sum() - np.log(start).sum())
