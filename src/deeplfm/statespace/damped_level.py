r"""A damped level: f' = v, where v is an Ornstein–Uhlenbeck process of rate γ and variance σ².

After a step δ, with x = γδ, the pair (f, v) is A (f, v) + η, where

    A = [[1, (1 − e^{−x})/γ], [0, e^{−x}]],
    Cov(η) = σ² [[(2x − 3 + 4e^{−x} − e^{−2x})/γ², (1 − e^{−x})²/γ], [·, 1 − e^{−2x}]].

It is the response of f' + γf = γw to a random walk w: its increments last for about 1/γ.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SMALL = 0.3  # of γδ, below which a series has no cancellation
_SERIES = [(n, (4 * (-1) ** n - (-2) ** n) / factorial(n)) for n in range(3, 14)]


class DampedLevel(NamedTuple):
    """Rate of reversion of the velocity, and its variance, per unit of time."""

    rate: float
    variance: float

    def transition(self, step: Array) -> Array:
        """A for each step, ``N 2 2``."""
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
