r"""Markov processes of one value, and of two.

A damped level is f' = v, where v is an Ornstein–Uhlenbeck process of rate γ and variance σ². After a step
δ, with x = γδ, the pair (f, v) is A (f, v) + η, where

    A = [[1, (1 − e^{−x})/γ], [0, e^{−x}]],
    Cov(η) = σ² [[(2x − 3 + 4e^{−x} − e^{−2x})/γ², (1 − e^{−x})²/γ], [·, 1 − e^{−2x}]].

It is the response of f' + γf = γw to a random walk w: its increments last for about 1/γ.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Variance of a level at the first time, over that of one step: the constant of the model is its level
# there, and a precision needs a variance.
_LEVEL_START = 1e-6
_SMALL = 0.3  # of γδ, below which a series has no cancellation
_SERIES = [(n, (4 * (-1) ** n - (-2) ** n) / factorial(n)) for n in range(3, 14)]


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
    """The usual step."""
    return float(np.median(step)) if len(step) else 1.0


def transitions(step: Array, processes: Processes) -> tuple[Array, Array, Array]:
    """Of one value: variance at the first time; for each step, the part that is kept, what is gained."""
    is_level = processes.rate == 0
    start = np.where(is_level, _LEVEL_START * typical_of(step), 1.0) * processes.variance
    reach = np.outer(step, processes.rate)
    gained = np.where(is_level, step[:, None], -np.expm1(-2 * reach)) * processes.variance
    return start, np.exp(-reach), gained


class DampedLevel(NamedTuple):
    """Rate of reversion of the velocity, and its variance, per unit of time."""

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
