r"""Markov processes at the times of some rows, conditioned on noisy observations of their sum.

    y_n = Σ_i h_i(t_n) s_i(t_n) + ε_n,

where each s_i is a random walk or an Ornstein–Uhlenbeck process, and h_i is 1 or a sinusoid. Given its
value at one time, the future of s_i does not depend on its past. So the precision matrix of all values,
ordered by time, has as many bands as there are processes, and its Cholesky factor takes a time that is
linear in the number of rows, for any steps between them and any gaps.

All variances are in units of the noise variance.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dtbtrs

from deeplfm.statespace.parameters import Array, Processes

_LEVEL_START = (
    1e-6  # variance of a random walk at the first time, over that of one step: the constant
)
# of the model is its level there, and a precision needs a variance


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
        """Covariance at each time, ``N s s``, and variances of neighbours in time, ``N-1 s``.

        The factor gives s_t = J_t s_{t+1} + noise, where J_t and the noise are known for all t at once:
        what is left is a recursion from the last time to the first.
        """
        n_times, size = self.n_times, self.n_processes
        own, next_own = np.zeros((n_times, size, size)), np.zeros((n_times, size, size))
        columns = np.arange(size)
        for apart in range(size + 1):
            band = self._factor[apart].reshape(n_times, size)
            inside = columns + apart < size
            own[:, columns[inside] + apart, columns[inside]] = band[:, inside]
            beyond = ~inside
            next_own[:, columns[beyond] + apart - size, columns[beyond]] = band[:, beyond]
        inverse = np.linalg.inv(own).transpose(0, 2, 1)  # L⁻ᵀ
        jump = -inverse @ next_own.transpose(0, 2, 1)
        found = inverse @ inverse.transpose(0, 2, 1)
        for t in range(n_times - 2, -1, -1):
            found[t] += jump[t] @ found[t + 1] @ jump[t].T
        return found, np.einsum("nij,nji->ni", jump[:-1], found[1:])

    @property
    def covariance(self) -> Array:
        """Covariance of the processes at each time, ``N s s``."""
        return self._smoothed[0]

    @property
    def lagged(self) -> Array:
        """Covariance of each process with itself at the next time, ``N-1 s``."""
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
    """Variance at the first time; for each step, the part of a value that is kept and what is gained."""
    is_level = processes.rate == 0
    typical = float(np.median(step)) if len(step) else 1.0
    start = np.where(is_level, _LEVEL_START * typical, 1.0) * processes.variance
    reach = np.outer(step, processes.rate)
    gained = np.where(is_level, step[:, None], -np.expm1(-2 * reach)) * processes.variance
    return start, np.exp(-reach), gained


def _prior_bands(step: Array, processes: Processes) -> tuple[Array, float]:
    """Lower bands of the precision of all values, and the logarithm of its determinant."""
    size, n_times = len(processes.rate), len(step) + 1
    start, kept, gained = transitions(step, processes)
    bands = np.zeros((size + 1, n_times * size))
    diagonal = bands[0].reshape(n_times, size)
    diagonal[0] = 1 / start
    diagonal[1:] = 1 / gained
    diagonal[:-1] += kept**2 / gained
    bands[size].reshape(n_times, size)[:-1] = -kept / gained
    return bands, float(-np.log(gained).sum() - np.log(start).sum())
