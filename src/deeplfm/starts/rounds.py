r"""A rhythm of rhythms, as of days in weeks: few multiples of the longer round, and high ones.

What all days share has multiples of the day, and what sets them apart has those of the week beside these.
So the first multiples of the week do not tell of it, however many one takes: the right ones do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deeplfm.starts.rhythm import Series
from deeplfm.starts.spectrum import Array, Pursuit, amplitudes, criterion, pursue, typical_step

MOST_LINES = 40
_MOST_MULTIPLES = 200  # among which they are
_MOST_ROUNDS, _FEWEST_LONG = 14, 2.0  # of the rhythm in the longer round, and of that in the record
_NEAR, _N_NEAR = 1 / 800, 10  # of a resolution cell: how sure a rhythm is, and steps to either side


def find_rounds(series: Sequence[Series], found: list[Pursuit]) -> list[Pursuit]:
    """Lines of a rhythm of rhythms, where they say more than the harmonics of the rhythm.

    They are looked for one by one among the multiples of the rhythm, and of every longer round that
    holds a few of its rounds; which it is, all outputs say together.

    Args:
        series: times and known values of each output.
        found: harmonics of each output, from :func:`~deeplfm.starts.rhythm.find_rhythm`.
    """
    fundamental = next((float(lines.frequency[0]) for lines in found if lines.n_supported), 0.0)
    span = max((float(np.ptp(time)) for time, _ in series if len(time)), default=0.0)
    n_long = int(min(_MOST_ROUNDS, fundamental * span / (2 * np.pi * _FEWEST_LONG)))
    longer = [_Round.of(series, fundamental / count) for count in range(1, n_long + 1)]
    best = min(longer, key=lambda item: item.criterion, default=None)
    if best is None or best.criterion >= _criterion(series, found, 2):
        return found
    return best.sharpened(series, 2 * np.pi / span).lines


@dataclass(frozen=True)
class _Round:
    fundamental: float
    lines: list[Pursuit]
    criterion: float

    @classmethod
    def of(cls, series: Sequence[Series], fundamental: float) -> _Round:
        """The strongest multiples of a frequency that the rows of each output support."""
        lines = [
            pursue(time, value, MOST_LINES, _multiples(time, fundamental)) for time, value in series
        ]
        return cls(fundamental, lines, _criterion(series, lines, 3))

    def sharpened(self, series: Sequence[Series], cell: float) -> _Round:
        """The same multiples of a frequency so near that the highest is met as well."""
        multiples = [
            np.round(item.frequency[: item.n_supported] / self.fundamental) for item in self.lines
        ]

        def at(fundamental: float) -> _Round:
            pairs = zip(series, multiples, strict=True)
            lines = [_lines(*pair, fundamental * factors) for pair, factors in pairs]
            return _Round(fundamental, lines, _criterion(series, lines, 3))

        near = self.fundamental + _NEAR * cell * np.linspace(-1, 1, 2 * _N_NEAR + 1)
        return min(map(at, near.tolist()), key=lambda item: item.criterion)


def _multiples(time: Array, fundamental: float) -> Array:
    highest = int(np.pi / typical_step(time) / fundamental)
    multiples: Array = fundamental * np.arange(1.0, min(_MOST_MULTIPLES, highest) + 1)
    return multiples


def _lines(time: Array, value: Array, frequency: Array) -> Pursuit:
    """Lines that are known."""
    amplitude, left = amplitudes(time, value, frequency)
    return Pursuit(frequency, amplitude, np.full(len(frequency) + 1, left), len(frequency))


def _criterion(series: Sequence[Series], found: Sequence[Pursuit], n_numbers: int) -> float:
    """That of the lines of all outputs, each of which takes so many numbers."""
    total = 0.0
    for (time, _), lines in zip(series, found, strict=True):
        left = lines.residual_variance[[lines.n_supported]] + np.finfo(float).tiny
        total += float(criterion(len(time), left, np.array([n_numbers * lines.n_supported]))[0])
    return total
