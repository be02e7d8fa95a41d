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
from numpy.typing import NDArray
from scipy.special import gammainc

from deeplfm.statespace.parameters import Array

N_STATES = 2  # of each force
_SAME = 1e-8  # of a step: steps that differ by less are equal
_STATIONARY = np.array([[1.0, 0.5], [0.5, 0.5]])  # covariance of (u₁, u₂) for any ρ


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


def distinct_steps(step: Array) -> tuple[Array, NDArray[np.intp]]:
    """Steps that differ, and the place of each given step among them: most records have few."""
    if not len(step):
        return step, np.zeros(0, dtype=np.intp)
    tick = _SAME * float(np.median(step))
    ticks, place = np.unique(np.rint(step / tick), return_inverse=True)
    return ticks * tick, place


def force_transitions(step: Array, rate: float, frequency: float) -> tuple[Array, Array, Array]:
    """Covariance at the first time; for each step, what is kept of the states, and what is gained.

    Without cancellation, for any step: the gained covariance is an incomplete gamma function.
    """
    reach = rate * step
    kept = np.zeros((len(step), N_STATES, N_STATES))
    gained = np.zeros_like(kept)
    kept[:, 0, 0] = kept[:, 1, 1] = np.exp(-reach)
    if frequency:
        gained[:, 0, 0] = gained[:, 1, 1] = -np.expm1(-2 * reach)
        return np.eye(N_STATES), kept, gained
    kept[:, 1, 0] = reach * kept[:, 0, 0]
    for i in range(N_STATES):
        for j in range(N_STATES):
            gained[:, i, j] = _STATIONARY[i, j] * gammainc(i + j + 1, 2 * reach)
    return _STATIONARY, kept, gained
