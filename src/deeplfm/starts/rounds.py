r"""A rhythm of rhythms, as of days in weeks: few multiples of the longer round, and high ones.

What all days share has multiples of the day, and what sets them apart has those of the week beside these.
So the first multiples of the week do not tell of it, however many one takes: the right ones do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deeplfm.starts.rhythm import Series, fundamental_of
from deeplfm.starts.spectrum import Array, Pursuit, criterion, known_lines, pursue, typical_step

MOST_LINES = 40
_MOST_MULTIPLES = 200  # among which they are
_MOST_ROUNDS, _FEWEST_LONG = 14, 2.0  # of the rhythm in the longer round, and of that in the record
_MOST_ROWS, _FEWEST_ROWS = 5000, 8  # of each output: the most recent show what repeats
_NEAR, _N_NEAR = 1 / 800, 10  # of a resolution cell: how sure a rhythm is, and steps to either side


def find_rounds(series: Sequence[Series], found: list[Pursuit]) -> list[Pursuit]:
    """Lines of a rhythm of rhythms, for outputs of which they say more than the harmonics of the rhythm.

    They are looked for one by one among the multiples of the rhythm, and of every longer round that
    holds a few of its rounds; which it is, all outputs say together. Less than half of what harmonics
    leave must be left: some of so many multiples are near the lines of anything.

    Args:
        series: times and known values of each output.
        found: harmonics of each output, from :func:`~deeplfm.starts.rhythm.find_rhythm`.
    """
    series = [_most_recent(*pair) for pair in series]
    fundamental = fundamental_of(found)
    span = max((float(np.ptp(time)) for time, _ in series if len(time)), default=0.0)
    n_long = int(min(_MOST_ROUNDS, fundamental * span / (2 * np.pi * _FEWEST_LONG)))
    rounds = [_Round.of(series, found, fundamental / count) for count in range(1, n_long + 1)]
    best = max(rounds, key=lambda item: item.gain, default=None)
    if best is None or not best.multiples:
        return found
    sharp = best.sharpened(series, 2 * np.pi / span)
    return [sharp.get(d, lines) for d, lines in enumerate(found)]


@dataclass(frozen=True)
class _Round:
    fundamental: float
    multiples: dict[int, Array]  # of the outputs that take some
    gain: float  # in the criterion, of these outputs

    @classmethod
    def of(cls, series: Sequence[Series], found: list[Pursuit], fundamental: float) -> _Round:
        """The strongest multiples of a frequency for the outputs that they say more of."""
        multiples, gain = {}, 0.0
        for d, (time, value) in enumerate(series):
            if len(time) < _FEWEST_ROWS:
                continue
            plain = known_lines(time, value, found[d].frequency[: found[d].n_supported])
            some = pursue(time, value, MOST_LINES, _multiples(time, fundamental))
            ahead = _criterion(len(time), plain, 2) - _criterion(len(time), some, 3)
            if ahead > 0 and _left(some) < _left(plain) / 2:
                multiples[d] = np.round(some.frequency[: some.n_supported] / fundamental)
                gain += ahead
        return cls(fundamental, multiples, gain)

    def sharpened(self, series: Sequence[Series], cell: float) -> dict[int, Pursuit]:
        """Lines at the same multiples of a frequency so near that the highest is met as well."""

        def at(fundamental: float) -> dict[int, Pursuit]:
            return {
                d: known_lines(*series[d], fundamental * some) for d, some in self.multiples.items()
            }

        def cost(found: dict[int, Pursuit]) -> float:
            return sum(_criterion(len(series[d][0]), lines, 3) for d, lines in found.items())

        near = self.fundamental + _NEAR * cell * np.linspace(-1, 1, 2 * _N_NEAR + 1)
        return min(map(at, near.tolist()), key=cost)


def _most_recent(time: Array, value: Array) -> Series:
    some = np.argsort(time, kind="stable")[-_MOST_ROWS:]
    return time[some], value[some]


def _multiples(time: Array, fundamental: float) -> Array:
    highest = int(np.pi / typical_step(time) / fundamental)
    multiples: Array = fundamental * np.arange(1.0, min(_MOST_MULTIPLES, highest) + 1)
    return multiples


def _left(lines: Pursuit) -> float:
    return float(lines.residual_variance[lines.n_supported])


def _criterion(n_rows: int, lines: Pursuit, n_numbers: int) -> float:
    """That of lines, each of which takes so many numbers."""
    left = np.array([_left(lines) + np.finfo(float).tiny])
    return float(criterion(n_rows, left, np.array([n_numbers * lines.n_supported]))[0])
