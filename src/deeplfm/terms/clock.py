r"""A clock whose rate varies: the phase φ(t) = ωt + w(t), and its prior.

The rate of a heart or of breathing changes, and the change lasts. So φ' = ω + r, where r is the response
of a first-order system to white noise (an Ornstein–Uhlenbeck process of correlation time τ), and w is its
integral. w is a sum of sinusoids with standard normal weights, whose sizes are those of the spectrum of
the process,

    S_w(ω) = D²/ω² · 1/(1 + ω²τ²),

with the diffusion D: over times much longer than τ, w is a Wiener process of variance D²t. With τ = 0 it
is one from the beginning, and the clock has no rate that a forecast could keep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from deeplfm.terms.local_level import WINDOW, wiener_sizes
from deeplfm.terms.spectrum import Array

STEADIEST = 0.003  # least diffusion, in radians per cycle
_NATS = (
    3.0  # that half a decade of diffusion must be worth: residuals of a series repeat each other
)
_MANY_CYCLES = 10.0
_KNOWN = 1e10  # precision of a phase that is not searched for
_WAVES_PER_CYCLE, _FEWEST_WAVES, _MOST_WAVES = 8, 20, 80


@dataclass(frozen=True)
class Clock:
    """The phase of a cycle: prior, and the weights that were found.

    Attributes:
        fundamental: angular frequency ω before the values were seen.
        span: length of the record.
        diffusion: standard deviation that a cycle adds to the phase in the long run, in radians.
        lasting: correlation time τ of the rate, as a share of the record.
        n_waves: number of sinusoids that w is made of.
        weight: of their cosines and sines, and the frequency itself.
        covariance: of these weights.
        is_drift: it is slow time and no cycle: its product with a cycle is a change of amplitude.
    """

    fundamental: float
    span: float
    diffusion: float
    lasting: float
    n_waves: int
    weight: Array
    covariance: Array = field(default_factory=lambda: np.zeros((0, 0)))
    is_drift: bool = False

    @classmethod
    def steady(
        cls, fundamental: float, span: float, n_rows: int, diffusion: float, lasting: float
    ) -> Clock:
        """A clock that keeps time."""
        n_cycles = fundamental * span / (2 * np.pi)
        n_waves = int(np.clip(_WAVES_PER_CYCLE * n_cycles, _FEWEST_WAVES, _MOST_WAVES))
        n_waves = max(1, min(n_waves, n_rows // 4))
        weight = np.append(np.zeros(2 * n_waves), fundamental)
        return cls(fundamental, span, diffusion, lasting, n_waves, weight)

    @classmethod
    def drift(cls, span: float) -> Clock:
        """Slow time, one radian in the record, which is known."""
        weight = np.array([0.0, 0.0, 1 / span])
        return cls(1 / span, span, STEADIEST, 0.0, 1, weight, is_drift=True)

    @property
    def base(self) -> float:
        """Angular frequency of the longest sinusoid; the others are its multiples."""
        return 2 * np.pi / (WINDOW * self.span)

    @property
    def size(self) -> Array:
        """Prior standard deviation of the cosine and the sine of each sinusoid, in radians."""
        scale = self.diffusion * math.sqrt(self.fundamental / (2 * np.pi))
        frequency = self.base * np.arange(1, self.n_waves + 1)
        lasts = np.sqrt(1 + (frequency * self.lasting * self.span) ** 2)
        return scale * wiener_sizes(self.n_waves, WINDOW * self.span) / lasts

    @property
    def expected(self) -> Array:
        """Prior mean of the weights."""
        return np.append(np.zeros(2 * self.n_waves), self.fundamental)

    @property
    def precision(self) -> Array:
        """Prior precision of the weights: ω is known to a resolution cell."""
        known = _KNOWN if self.is_drift else 1.0
        return known * np.append(np.ones(2 * self.n_waves), (self.span / (2 * np.pi)) ** 2)

    @property
    def log_prior(self) -> float:
        """Of the diffusion: clocks keep time unless the values show otherwise."""
        n_cycles = self.fundamental * self.span / (2 * np.pi)
        nats = _NATS * max(1.0, _MANY_CYCLES / n_cycles)  # few cycles cannot show how they differ
        return -nats * math.log(self.diffusion / STEADIEST) / math.log(math.sqrt(10))

    def columns(self, time: Array) -> Array:
        """Columns that the weights multiply: cosines and sines of w, and time."""
        angle = np.outer(time, self.base * np.arange(1, self.n_waves + 1))
        size = self.size
        return np.column_stack([np.cos(angle) * size, np.sin(angle) * size, time])

    def phase(self, time: Array) -> Array:
        """The phase at its most likely weights."""
        return np.asarray(self.columns(time) @ self.weight)

    def with_prior(self, diffusion: float, lasting: float) -> Clock:
        """The same phase under another prior."""
        other = replace(self, diffusion=diffusion, lasting=lasting)
        ratio = np.tile(self.size / other.size, 2)
        return replace(other, weight=np.append(self.weight[:-1] * ratio, self.weight[-1]))
