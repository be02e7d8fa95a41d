r"""A cycle with a stochastic phase: its shape, and the path of its phase.

Hearts and lungs repeat themselves, but no two cycles take equally long, and the spectrum of such a series
is smeared, the higher harmonics most. It is the composition of a periodic function with a phase,

    y(t) = Σ_k a_k cos kφ(t) + b_k sin kφ(t) + level + slope t,    φ(t) = ωt + w(t),

where w is a Wiener process. Shape and phase are found together by Gauss–Newton steps, first of few
harmonics and then of more; the evidence (Laplace) chooses frequency, diffusion and number of harmonics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deeplfm.terms.local_level import WINDOW, wiener_sizes
from deeplfm.terms.spectrum import Array, matching_pursuit, typical_step

_FEWEST_CYCLES = 3.0
_ROWS_PER_CYCLE = 6
_PEAKS, _DIVISORS = 6, 4  # a fundamental is one of the strongest frequencies, or a fraction of it
_ALIKE = 0.03  # frequencies closer than this lead to the same cycle
_REFINED = 3  # candidates that are looked at closely
_WAVES_PER_CYCLE, _FEWEST_WAVES, _MOST_WAVES = 8, 20, 120
_HARMONICS = (1, 2, 4, 8, 12, 20, 32)
_DIFFUSIONS = (
    0.03,
    0.1,
    0.3,
    0.9,
)  # standard deviation of what a cycle adds to the phase, in radians
_FORECAST_SCALE = 2.0  # of the prior beyond the rows, over the one within: cycles are few
_STEPS = 10  # of Gauss and Newton
_LONGEST_STEP, _SHORTEST_STEP = 0.5, 1e-3  # radians; after a shorter one the search ends


@dataclass(frozen=True)
class Cycle:
    """Shape and phase of one series.

    Attributes:
        fundamental: angular frequency ω.
        diffusion: standard deviation of the phase after a unit of time.
        size: of each wave that w is made of.
        base: angular frequency of the longest of these waves; the others are its multiples.
        weight: of their cosines and sines, and ω itself.
        covariance: of these weights.
        amplitude: of each harmonic.
        residual: what is left of each row.
        evidence: logarithm of the density of the values.
    """

    fundamental: float
    diffusion: float
    size: Array
    base: float
    weight: Array
    covariance: Array
    amplitude: Array
    residual: Array
    evidence: float


def find_cycle(time: Array, value: Array) -> Cycle | None:
    """The cycle of the highest evidence, where there is one and the record holds enough of it.

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
        """Frequencies to try: with enough cycles in the record, and rows in a cycle."""
        if len(self.time) < _FEWEST_CYCLES * _ROWS_PER_CYCLE or self.span == 0:
            return []
        peaks = matching_pursuit(self.time, self.value, _PEAKS).frequency
        parts = np.divide.outer(peaks, np.arange(1, _DIVISORS + 1)).ravel()
        low = 2 * np.pi * _FEWEST_CYCLES / self.span
        high = 2 * np.pi / (_ROWS_PER_CYCLE * typical_step(self.time))
        distinct: list[float] = []
        for frequency in parts[(parts >= low) & (parts <= high)]:
            if all(abs(frequency / other - 1) > _ALIKE for other in distinct):
                distinct.append(float(frequency))
        return distinct

    def rough(self, fundamental: float) -> Cycle:
        """The cycle of some fundamental, with a moderate diffusion and few harmonics."""
        n_cycles = fundamental * self.span / (2 * np.pi)
        n_waves = int(np.clip(_WAVES_PER_CYCLE * n_cycles, _FEWEST_WAVES, _MOST_WAVES))
        n_waves = min(n_waves, len(self.time) // 4)
        period = WINDOW * self.span
        nothing = np.zeros(2 * n_waves + 1)
        cycle = Cycle(
            fundamental,
            diffusion=1.0,
            size=wiener_sizes(n_waves, period),
            base=2 * np.pi / period,
            weight=np.append(nothing[1:], fundamental),
            covariance=np.diag(nothing),
            amplitude=nothing[:0],
            residual=self.value,
            evidence=-math.inf,
        )
        cycle = self._with_diffusion(cycle, _DIFFUSIONS[2])
        for count in _HARMONICS[:3]:
            cycle = self._tracked(cycle, count)
        return cycle

    def refined(self, cycle: Cycle) -> Cycle:
        """With as many harmonics, and the diffusion, of the highest evidence."""
        most = np.pi / (cycle.fundamental * typical_step(self.time))
        best = cycle
        for count in _HARMONICS[3:]:
            if count > most or 4 * count > len(self.time):
                break
            cycle = self._tracked(cycle, count)
            best = max(best, cycle, key=lambda item: item.evidence)
        for diffusion in _DIFFUSIONS:
            other = self._tracked(self._with_diffusion(best, diffusion), len(best.amplitude))
            best = max(best, other, key=lambda item: item.evidence)
        return best

    def is_worth(self, cycle: Cycle) -> bool:
        """Whether the values are likelier with the cycle than with level and slope alone."""
        return cycle.evidence > self._tracked(cycle, 0).evidence

    def _with_diffusion(self, cycle: Cycle, by_cycle: float) -> Cycle:
        """The same phase, with the prior of another diffusion."""
        diffusion = by_cycle * math.sqrt(cycle.fundamental / (2 * np.pi))
        ratio = diffusion / cycle.diffusion
        weight = np.append(cycle.weight[:-1] / ratio, cycle.weight[-1])
        return replace(cycle, diffusion=diffusion, size=cycle.size * ratio, weight=weight)

    def _tracked(self, cycle: Cycle, count: int) -> Cycle:
        """Gauss–Newton steps of shape and phase together, then the evidence."""
        basis = phase_columns(self.time, cycle)
        expected = np.append(np.zeros(basis.shape[1] - 1), cycle.fundamental)
        # Frequencies are known to a resolution cell, the waves' weights are standard normal.
        precision = np.append(np.ones(len(expected) - 1), (self.span / (2 * np.pi)) ** 2)
        weight, local = cycle.weight, self._near(basis, cycle.weight, count)
        for _ in range(_STEPS):
            pull = np.append(local.shape, local.variance * precision * (weight - expected))
            gram, moment = local.normal_equations(precision)
            change = np.linalg.solve(gram, moment - pull)[len(local.shape) :]
            longest = float(np.abs(basis @ change).max())
            weight = weight + change * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
            local = self._near(basis, weight, count)
            if longest < _SHORTEST_STEP:
                break
        square = (weight - expected) @ (precision * (weight - expected))
        known: Array = (
            local.jacobian.T @ local.jacobian / local.variance
            + np.diag(precision) / _FORECAST_SCALE**2
        )
        return replace(
            cycle,
            weight=weight,
            covariance=np.asarray(np.linalg.inv(known), dtype=np.float64),
            amplitude=np.hypot(local.shape[:count], local.shape[count:-2]),
            residual=local.residual,
            evidence=local.evidence(precision) - 0.5 * float(square),
        )

    def _near(self, basis: Array, weight: Array, count: int) -> _Local:
        """The best shape of some phase, and how the values change with the phase."""
        order = np.arange(1, count + 1)
        angle = np.outer(basis @ weight, order)
        cosine, sine = np.cos(angle), np.sin(angle)
        design = np.column_stack([cosine, sine, np.ones_like(self.time), self.time])
        gram = design.T @ design + np.eye(design.shape[1])
        shape = np.linalg.solve(gram, design.T @ self.value)
        residual = self.value - design @ shape
        slope = cosine @ (order * shape[count:-2]) - sine @ (order * shape[:count])
        return _Local(design, shape, residual, slope[:, None] * basis)


class _Local(NamedTuple):
    """The model linearised at some phase.

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
        """Of shape and phase, in units of the noise; the moment without the prior."""
        both = np.column_stack([self.design, self.jacobian])
        prior = np.append(np.ones(len(self.shape)), self.variance * precision)
        return both.T @ both + np.diag(prior), both.T @ self.residual

    def evidence(self, precision: Array) -> float:
        """Logarithm of the density of the values, but for the prior of the weights where they are."""
        gram, _ = self.normal_equations(precision)
        occam = np.linalg.slogdet(gram)[1] - np.log(self.variance * precision).sum()
        fit = len(self.residual) * (math.log(2 * np.pi * self.variance) + 1)
        return -0.5 * float(fit + occam)


def phase_columns(time: Array, cycle: Cycle) -> Array:
    """Columns that the weights of a phase multiply: the harmonics of w, and time."""
    angle = np.outer(time, cycle.base * np.arange(1, len(cycle.size) + 1))
    return np.column_stack([np.cos(angle) * cycle.size, np.sin(angle) * cycle.size, time])
