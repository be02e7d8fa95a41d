r"""Forces that several outputs respond to, as Markov processes of two values each.

A low-pass force passes two first-order systems in series,

    u₁' = −ρ u₁ + √(2ρ) white noise,    u₂' = −ρ u₂ + ρ u₁.

Output d responds with a_d1 u₁ + a_d2 u₂. The loadings (a_d1, a_d2) give each output a response of its
own: its size and sign, how smooth it is, and to first order how late. A narrow-band force is a wave of
frequency ω, whose amplitudes of cosine and sine are Ornstein–Uhlenbeck processes; its loadings give each
output a size and a phase.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammainc

from deeplfm.statespace.chain import Array

N_STATES = 2  # of each force
_STATIONARY = np.array([[1.0, 0.5], [0.5, 0.5]])  # covariance of (u₁, u₂) for any ρ


class Force(NamedTuple):
    """A force with unit variance: its rate per unit of time, and frequency (0: low-pass)."""

    rate: float
    frequency: float

    def start(self, typical_step: float) -> Array:
        """Covariance at the first time, ``2 2``."""
        return np.eye(N_STATES) if self.frequency else _STATIONARY

    def transition(self, step: Array) -> Array:
        """Matrix A of each step, ``N 2 2``."""
        reach = self.rate * step
        kept = np.exp(-reach)[:, None, None] * np.eye(N_STATES)
        if not self.frequency:
            kept[:, 1, 0] = reach * kept[:, 0, 0]
        return kept

    def innovation(self, step: Array) -> Array:
        """Covariance of what is gained in each step, ``N 2 2``: without cancellation, for any step."""
        reach = 2 * self.rate * step
        if self.frequency:
            return -np.expm1(-reach)[:, None, None] * np.eye(N_STATES)
        orders = np.add.outer(range(N_STATES), range(N_STATES)) + 1
        return _STATIONARY * gammainc(orders, reach[:, None, None])


class Forces(NamedTuple):
    """Forces with unit variance, and how each output responds to them.

    Attributes:
        rate: ρ of each force, per unit of time, ``Q``.
        frequency: angular frequency of each; 0 for a low-pass force, ``Q``.
        loadings: ``D Q 2``.
    """

    rate: Array
    frequency: Array
    loadings: Array

    @property
    def pairs(self) -> tuple[Force, ...]:
        """The forces as Markov processes."""
        return tuple(map(Force, self.rate.tolist(), self.frequency.tolist()))

    def carriers(self, time: Array) -> Array:
        """The two signals of each force that outputs load on, for each of its states, ``N Q 2 2``."""
        found = np.zeros((len(time), len(self.rate), N_STATES, N_STATES))
        for q, frequency in enumerate(self.frequency):
            if frequency:
                cosine, sine = np.cos(frequency * time), np.sin(frequency * time)
                found[:, q] = np.stack([cosine, sine, sine, -cosine], axis=1).reshape(-1, 2, 2)
            else:
                found[:, q] = np.eye(N_STATES)
        return found
