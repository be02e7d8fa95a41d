r"""Markov processes at the times of some rows, conditioned on noisy observations of their sums.

    y_nd = Σ_i h_di(t_n) s_i(t_n) + ε_nd,

where each s_i is a random walk, an Ornstein–Uhlenbeck process or one value of a pair, such as a damped
level with its velocity, and h_di is 1, a sinusoid or a loading. Given the values at one time, the
future does not depend on the past. So the precision matrix of all values, ordered by time, has about as
many bands as there are processes, and its Cholesky factor takes a time that is linear in the number of
rows, for any steps between them and gaps.
"""

from __future__ import annotations

from functools import cached_property
from math import factorial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dtbtrs

Array = NDArray[np.float64]

# Variance of a level at the first time, over that of one step: the constant of the model is its level
# there, and a precision needs a variance.
_LEVEL_START = 1e-6
_SMALL = 0.3  # of γδ, below which a series has no cancellation
_SERIES = [(n, (4 * (-1) ** n - (-2) ** n) / factorial(n)) for n in range(3, 14)]
_FEW_STATES = 6  # up to which all times are smoothed at once
_SAME = 1e-8  # of a step: steps that differ by less are equal


class Pair(Protocol):
    """A Markov process of two values."""

    def start(self, typical_step: float) -> Array:
        """Covariance at the first time, ``2 2``."""

    def transition(self, step: Array) -> Array:
        """Matrix A of each step, ``N 2 2``."""

    def innovation(self, step: Array) -> Array:
        """Covariance of what is gained in each step, ``N 2 2``."""


class Processes(NamedTuple):
    """Independent Markov processes: random walks, Ornstein–Uhlenbeck processes, and pairs.

    Attributes:
        rate: of reversion per unit of time; 0 for a random walk.
        variance: of an Ornstein–Uhlenbeck process; of a random walk, per unit of time.
        frequency: angular frequency of the wave whose amplitude the process is; 0 for a level.
        is_sine: the wave is a sine.
        pairs: whose two values come after the other processes.
    """

    rate: Array
    variance: Array
    frequency: Array
    is_sine: NDArray[np.bool_]
    pairs: tuple[Pair, ...] = ()

    @property
    def size(self) -> int:
        """Number of values at each time."""
        return len(self.rate) + 2 * len(self.pairs)

    @property
    def places_of_pairs(self) -> range:
        """Place of the first value of each pair."""
        return range(len(self.rate), self.size, 2)

    def observation(self, time: Array) -> Array:
        """The effect of one unit of each process on an observation at each time; of a pair, the first."""
        angle = np.outer(time, self.frequency)
        waves = np.where(self.is_sine, np.sin(angle), np.cos(angle))
        return np.column_stack([waves, np.tile([1.0, 0.0], (len(time), len(self.pairs)))])


def typical_of(step: Array) -> float:
    """The median step; sorting beats ``np.median``, which spends most of its time on checks."""
    ordered, half = np.sort(step), len(step) // 2
    return float((ordered[half] + ordered[-half - 1]) / 2) if len(step) else 1.0


def transitions(step: Array, processes: Processes) -> tuple[Array, Array, Array]:
    """Of one value: variance at the first time; for each step, the part that is kept, what is gained."""
    is_level = processes.rate == 0
    start = np.where(is_level, _LEVEL_START * typical_of(step), 1.0) * processes.variance
    reach = np.outer(step, processes.rate)
    gained = np.where(is_level, step[:, None], -np.expm1(-2 * reach)) * processes.variance
    return start, np.exp(-reach), gained


class DampedLevel(NamedTuple):
    r"""A level f' = v, and v, an Ornstein–Uhlenbeck process of rate γ and variance σ².

    After a step δ, with x = γδ, the pair (f, v) is A (f, v) + η, where

        A = [[1, (1 − e^{−x})/γ], [0, e^{−x}]],
        Cov(η) = σ² [[(2x − 3 + 4e^{−x} − e^{−2x})/γ², (1 − e^{−x})²/γ], [·, 1 − e^{−2x}]].

    It is the response of f' + γf = γw to a random walk w: its increments last for about 1/γ.

    Attributes:
        rate: of the reversion of the velocity, per unit of time.
        variance: of the velocity.
    """

    rate: float
    variance: float

    def start(self, typical_step: float) -> Array:
        """Covariance at the first time, ``2 2``."""
        return self.variance * np.diag([_LEVEL_START * typical_step**2, 1.0])

    def transition(self, step: Array) -> Array:
        """Matrix A of each step, ``N 2 2``."""
        kept = np.exp(-self.rate * step)
        moved = -np.expm1(-self.rate * step) / self.rate
        return _matrices(np.ones_like(step), moved, np.zeros_like(step), kept)

    def innovation(self, step: Array) -> Array:
        """Covariance of η for each step, ``N 2 2``."""
        reach, rate = self.rate * step, self.rate
        lost = -np.expm1(-reach)
        level, both, velocity = _double_integral(reach), lost**2, -np.expm1(-2 * reach)
        return self.variance * _matrices(level / rate**2, both / rate, both / rate, velocity)

    def by_log_rate(self, step: Array) -> tuple[Array, Array]:
        """Derivatives of A and of the covariance of η by the logarithm of the rate."""
        reach, rate = self.rate * step, self.rate
        kept, lost = np.exp(-reach), -np.expm1(-reach)
        none = np.zeros_like(step)
        jump = _matrices(none, (reach * kept - lost) / rate, none, -reach * kept)
        level = 2 * (reach * lost**2 - _double_integral(reach)) / rate**2
        both = lost * (2 * reach * kept - lost) / rate
        gained = _matrices(level, both, both, 2 * reach * kept**2)
        return jump, self.variance * gained


def _double_integral(reach: Array) -> Array:
    """2x − 3 + 4e^{−x} − e^{−2x}."""
    small = np.minimum(reach, _SMALL)
    series = sum(coefficient * small**n for n, coefficient in _SERIES)
    lost = -np.expm1(-reach)
    return np.where(reach < _SMALL, series, 2 * (reach - lost) - lost**2)


def _matrices(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.stack([np.stack([a, b], axis=-1), np.stack([c, d], axis=-1)], axis=-2)


class Chain:
    """Values of Markov processes at some times, given observations of their sums.

    Args:
        time: increasing.
        processes: of all outputs.
        precision: of the observation of each output at each time, ``N D`` or ``N``; 0 without one.
        observation: effect of one unit of each process on each output, ``N D s``; of one output, that
            of the processes.
    """

    def __init__(
        self,
        time: Array,
        processes: Processes,
        precision: Array,
        observation: Array | None = None,
    ) -> None:
        if observation is None:
            observation = processes.observation(time)[:, None]
        self.time, self.processes, self.observation = time, processes, observation  # N D s
        self.n_times, _, self.n_states = observation.shape
        bands, self._log_determinant_prior = _prior_bands(np.diff(time), processes)
        known = _through(observation, precision.reshape(self.n_times, -1, 1) * observation)
        for apart in range(self.n_states):
            own = bands[apart, :, : self.n_states - apart]
            own += np.diagonal(known, -apart, axis1=1, axis2=2)
        bands = bands.reshape(len(bands), -1)
        self._factor = bands
        if self.n_states:
            self._factor = cholesky_banded(bands, lower=True, check_finite=False, overwrite_ab=True)

    @property
    def log_determinant(self) -> float:
        """Log determinant of the posterior precision over that of the prior."""
        return float(2 * np.log(self._factor[0]).sum()) - self._log_determinant_prior

    def states(self, weighted: Array) -> Array:
        """Expected processes at every time, ``N s C``, given precision × observation, ``N D C``."""
        right = _through(self.observation, weighted)
        if not self.n_states:
            return right
        solved: Array = cho_solve_banded(
            (self._factor, True),
            right.reshape(self.n_times * self.n_states, -1),
            overwrite_b=True,
            check_finite=False,
        )
        return solved.reshape(self.n_times, self.n_states, -1)

    @cached_property
    def _smoothed(self) -> tuple[Array, Array]:
        """Covariance at each time, ``N s s``, and of each time with the next, ``N-1 s s``.

        The factor gives s_t = J_t s_{t+1} + noise, where J_t and the noise are known for all t at once.
        """
        n_times, size = self.n_times, self.n_states
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
        found = _summed_back(jump[:-1], inverse @ inverse.transpose(0, 2, 1))
        return found, jump[:-1] @ found[1:]

    @property
    def covariance(self) -> Array:
        """Covariance of the processes at each time, ``N s s``."""
        return self._smoothed[0]

    @property
    def lagged(self) -> Array:
        """Covariance of the processes (rows) with those at the next time (columns), ``N-1 s s``."""
        return self._smoothed[1]

    def draw(self, noise: Array) -> Array:
        """Deviations of the processes from their expected values, ``N s C``, from normal noise."""
        if self.n_states:
            noise, _ = dtbtrs(self._factor, noise, uplo="L", trans="T")
        return noise.reshape(self.n_times, self.n_states, noise.shape[1])


def _through(observation: Array, values: Array) -> Array:
    """Hᵀ values at each time, ``N s C``."""
    if observation.shape[1] == 1:  # as a product of matrices it takes far longer
        return observation[:, 0, :, None] * values
    return observation.transpose(0, 2, 1) @ values


def _summed_back(jump: Array, noise: Array) -> Array:
    """P_t = J_t P_{t+1} J_tᵀ + D_t for all t, from D of each time and J of each but the last.

    Two steps together are one of the same form. With few processes, log₂ N products join all times so;
    with many, the products take longer than a loop.
    """
    found = noise.copy()
    n_times, size, _ = noise.shape
    if size > _FEW_STATES:
        for t in range(n_times - 2, -1, -1):
            found[t] += jump[t] @ found[t + 1] @ jump[t].T
        return found
    reach = 1
    while reach < n_times:
        found[:-reach] += jump @ found[reach:] @ jump.transpose(0, 2, 1)
        jump = jump[:-reach] @ jump[reach:]
        reach *= 2
    return found


def distinct_steps(step: Array) -> tuple[Array, NDArray[np.intp]]:
    """Steps that differ, and the place of each given step among them: most records have few."""
    if not len(step):
        return step, np.zeros(0, dtype=np.intp)
    tick = _SAME * typical_of(step)
    ticks, place = np.unique(np.rint(step / tick), return_inverse=True)
    return ticks * tick, place


def _prior_bands(step: Array, processes: Processes) -> tuple[Array, float]:
    """Lower bands of the precision of all values, and the logarithm of its determinant."""
    size, n_single, n_times = processes.size, len(processes.rate), len(step) + 1
    start, kept, gained = transitions(step, processes)
    bands = np.zeros((size + 1 + bool(processes.pairs), n_times, size))
    diagonal = bands[0, :, :n_single]
    diagonal[0] = 1 / start
    diagonal[1:] = 1 / gained
    diagonal[:-1] += kept**2 / gained
    bands[size, :-1, :n_single] = -kept / gained
    log_determinant = -float(np.log(gained).sum() + np.log(start).sum())
    if processes.pairs:
        distinct, place = distinct_steps(step)
        for first, pair in zip(processes.places_of_pairs, processes.pairs, strict=True):
            start = pair.start(typical_of(step))
            log_determinant += _add_pair(bands, first, pair, start, distinct, place)
    return bands, log_determinant


def _add_pair(
    bands: Array, one: int, pair: Pair, start: Array, step: Array, place: NDArray[np.intp]
) -> float:
    """Add the precision of a pair, and return the logarithm of its determinant."""
    size, other = bands.shape[2], one + 1
    jump, gained = pair.transition(step), pair.innovation(step)
    precision = np.linalg.inv(gained)
    through = precision @ jump
    own = np.zeros((len(place) + 1, 2, 2))
    own[0] = np.linalg.inv(start)
    own[1:] += precision[place]
    own[:-1] += (jump.transpose(0, 2, 1) @ through)[place]
    below = -through[place]
    bands[0, :, one], bands[0, :, other] = own[:, 0, 0], own[:, 1, 1]
    bands[1, :, one] += own[:, 1, 0]
    bands[size, :-1, one], bands[size, :-1, other] = below[:, 0, 0], below[:, 1, 1]
    bands[size + 1, :-1, one] = below[:, 1, 0]
    bands[size - 1, :-1, other] += below[:, 0, 1]
    return -float(np.linalg.slogdet(gained)[1][place].sum() + np.linalg.slogdet(start)[1])
