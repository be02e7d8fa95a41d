r"""A cycle that does not keep time: its shape, and the path of its phase.

Hearts and lungs repeat themselves, but no two rounds take equally long, and the lines of such a series
are smeared the more the higher they are. It is the composition of a periodic function with a phase,

    y(t) = Σ_k a_k cos kφ(t) + b_k sin kφ(t) + level + slope t,    φ(t) = ωt + w(t),

where w is a Wiener process. Shape and phase are found together by Gauss–Newton steps, first of few
harmonics and then of more; the evidence (Laplace) tells frequency, wander and number of harmonics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deeplfm.starts.spectrum import Array, pursue, typical_step

_FEWEST_ROUNDS = 3.0
_ROWS_PER_ROUND = 6
_PEAKS, _DIVISORS = 6, 4  # a fundamental is one of the strongest lines, or a fraction of it
_ALIKE = 0.03  # frequencies closer than this lead to the same cycle
_REFINED = 3  # candidates that are looked at closely
WINDOW = 4.0  # a walk repeats itself after so many records
_WAVES_PER_ROUND, _FEWEST_WAVES, _MOST_WAVES = 8, 20, 120
_HARMONICS = (1, 2, 4, 8, 12, 20, 32)
_WANDERS = (0.03, 0.1, 0.3, 0.9)  # standard deviation of what a round adds to the phase, in radians
_DOUBT = 2.0  # of what is to come, over what the rounds seen so far tell: they are few
_STEPS = 10  # of Gauss and Newton
_LONGEST_STEP, _SHORTEST_STEP = 0.5, 1e-3  # radians; after a shorter one the search ends


@dataclass(frozen=True)
class Cycle:
    """Shape and phase of one series.

    Attributes:
        fundamental: angular frequency ω.
        wander: standard deviation of the phase after a unit of time.
        size: of each wave that w is made of.
        base: angular frequency of the longest of these waves; the others are its multiples.
        weight: of their cosines and sines, and ω itself.
        covariance: of these weights.
        amplitude: of each harmonic.
        residual: what is left of each row.
        evidence: logarithm of the density of the values.
    """

    fundamental: float
    wander: float
    size: Array
    base: float
    weight: Array
    covariance: Array
    amplitude: Array
    residual: Array
    evidence: float


def find_cycle(time: Array, value: Array) -> Cycle | None:
    """The cycle of the highest evidence, where there is one and rounds enough to tell.

    Args:
        time: times.
        value: values, standardised.
    """
    search = _Search(time, value)
    rough = [search.rough(frequency) for frequency in search.fundamentals()]
    rough.sort(key=lambda cycle: -cycle.evidence)
    found = [search.refined(cycle) for cycle in rough[:_REFINED]]
    best = max(found, key=lambda cycle: cycle.evidence, default=None)
    return best if best is not None and search.is_worth(best) else None


class _Search:
    def __init__(self, time: Array, value: Array) -> None:
        self.time, self.value = time, value
        self.span = float(np.ptp(time)) if len(time) else 0.0

    def fundamentals(self) -> list[float]:
        """Frequencies to try, each of which has rounds enough and rows enough in a round."""
        if len(self.time) < _FEWEST_ROUNDS * _ROWS_PER_ROUND or self.span == 0:
            return []
        lines = pursue(self.time, self.value, _PEAKS).frequency
        parts = np.divide.outer(lines, np.arange(1, _DIVISORS + 1)).ravel()
        low = 2 * np.pi * _FEWEST_ROUNDS / self.span
        high = 2 * np.pi / (_ROWS_PER_ROUND * typical_step(self.time))
        distinct: list[float] = []
        for frequency in parts[(parts >= low) & (parts <= high)]:
            if all(abs(frequency / other - 1) > _ALIKE for other in distinct):
                distinct.append(float(frequency))
        return distinct

    def rough(self, fundamental: float) -> Cycle:
        """The cycle of some fundamental, with a middling wander and few harmonics."""
        rounds = fundamental * self.span / (2 * np.pi)
        n_waves = int(np.clip(_WAVES_PER_ROUND * rounds, _FEWEST_WAVES, _MOST_WAVES))
        n_waves = min(n_waves, len(self.time) // 4)
        period = WINDOW * self.span
        nothing = np.zeros(2 * n_waves + 1)
        cycle = Cycle(
            fundamental,
            wander=1.0,
            size=wiener_sizes(n_waves, period),
            base=2 * np.pi / period,
            weight=np.append(nothing[1:], fundamental),
            covariance=np.diag(nothing),
            amplitude=nothing[:0],
            residual=self.value,
            evidence=-math.inf,
        )
        cycle = self._with_wander(cycle, _WANDERS[2])
        for count in _HARMONICS[:3]:
            cycle = self._tracked(cycle, count)
        return cycle

    def refined(self, cycle: Cycle) -> Cycle:
        """With as many harmonics, and as much wander, as the evidence asks for."""
        most = np.pi / (cycle.fundamental * typical_step(self.time))
        best = cycle
        for count in _HARMONICS[3:]:
            if count > most or 4 * count > len(self.time):
                break
            cycle = self._tracked(cycle, count)
            best = max(best, cycle, key=lambda item: item.evidence)
        for wander in _WANDERS:
            other = self._tracked(self._with_wander(best, wander), len(best.amplitude))
            best = max(best, other, key=lambda item: item.evidence)
        return best

    def is_worth(self, cycle: Cycle) -> bool:
        """Whether the values are likelier with the cycle than with level and slope alone."""
        return cycle.evidence > self._tracked(cycle, 0).evidence

    def _with_wander(self, cycle: Cycle, by_round: float) -> Cycle:
        """The same phase, with the prior of another wander."""
        wander = by_round * math.sqrt(cycle.fundamental / (2 * np.pi))
        ratio = wander / cycle.wander
        weight = np.append(cycle.weight[:-1] / ratio, cycle.weight[-1])
        return replace(cycle, wander=wander, size=cycle.size * ratio, weight=weight)

    def _tracked(self, cycle: Cycle, count: int) -> Cycle:
        """Gauss–Newton steps of shape and phase together, then the evidence."""
        waves = phase_columns(self.time, cycle)
        expected = np.append(np.zeros(waves.shape[1] - 1), cycle.fundamental)
        # Frequencies are known to a resolution cell, the waves' weights are standard normal.
        precision = np.append(np.ones(len(expected) - 1), (self.span / (2 * np.pi)) ** 2)
        weight, local = cycle.weight, self._near(waves, cycle.weight, count)
        for _ in range(_STEPS):
            pull = np.append(local.shape, local.variance * precision * (weight - expected))
            gram, moment = local.normal_equations(precision)
            change = np.linalg.solve(gram, moment - pull)[len(local.shape) :]
            longest = float(np.abs(waves @ change).max())
            weight = weight + change * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
            local = self._near(waves, weight, count)
            if longest < _SHORTEST_STEP:
                break
        square = (weight - expected) @ (precision * (weight - expected))
        known: Array = (
            local.jacobian.T @ local.jacobian / local.variance + np.diag(precision) / _DOUBT**2
        )
        return replace(
            cycle,
            weight=weight,
            covariance=np.asarray(np.linalg.inv(known), dtype=np.float64),
            amplitude=np.hypot(local.shape[:count], local.shape[count:-2]),
            residual=local.residual,
            evidence=local.evidence(precision) - 0.5 * float(square),
        )

    def _near(self, waves: Array, weight: Array, count: int) -> _Local:
        """The best shape of some phase, and how the values change with the phase."""
        order = np.arange(1, count + 1)
        angle = np.outer(waves @ weight, order)
        cosine, sine = np.cos(angle), np.sin(angle)
        design = np.column_stack([cosine, sine, np.ones_like(self.time), self.time])
        gram = design.T @ design + np.eye(design.shape[1])
        shape = np.linalg.solve(gram, design.T @ self.value)
        residual = self.value - design @ shape
        slope = cosine @ (order * shape[count:-2]) - sine @ (order * shape[:count])
        return _Local(design, shape, residual, slope[:, None] * waves)


class _Local(NamedTuple):
    """The model in a straight line near some phase.

    Attributes:
        design: what the shape multiplies.
        shape: harmonics, level and slope; their prior has the variance of the noise.
        residual: what is left of each row.
        jacobian: by the weights of the phase.
    """

    design: Array
    shape: Array
    residual: Array
    jacobian: Array

    @property
    def variance(self) -> float:
        """Of the noise."""
        square = self.residual @ self.residual + self.shape @ self.shape
        return float(square) / len(self.residual) + 1e-12

    def normal_equations(self, precision: Array) -> tuple[Array, Array]:
        """Of shape and phase, in units of the noise; of the moment what the rows say."""
        both = np.column_stack([self.design, self.jacobian])
        prior = np.append(np.ones(len(self.shape)), self.variance * precision)
        return both.T @ both + np.diag(prior), both.T @ self.residual

    def evidence(self, precision: Array) -> float:
        """Logarithm of the density of the values, but for the prior of the weights where they are."""
        gram, _ = self.normal_equations(precision)
        occam = np.linalg.slogdet(gram)[1] - np.log(self.variance * precision).sum()
        fit = len(self.residual) * (math.log(2 * np.pi * self.variance) + 1)
        return -0.5 * float(fit + occam)


def wiener_sizes(count: int, period: float) -> Array:
    """Of waves at multiples of 2π/period whose sum w has increments of variance τ − τ²/period."""
    return math.sqrt(period / 2) / np.pi / np.arange(1, count + 1, dtype=np.float64)


def phase_columns(time: Array, cycle: Cycle) -> Array:
    """What the weights of a phase multiply: the waves of w, and time."""
    angle = np.outer(time, cycle.base * np.arange(1, len(cycle.size) + 1))
    return np.column_stack([np.cos(angle) * cycle.size, np.sin(angle) * cycle.size, time])
