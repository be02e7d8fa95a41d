r"""Nested seasonality, as of days within weeks: few multiples of the longer period, and high ones.

The common shape of all days has multiples of the daily frequency; their differences have multiples of the
weekly one. So the first multiples of the week do not show it: the right ones do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deeplfm.terms.season import Series, fundamental_of
from deeplfm.terms.spectrum import (
    Array,
    SinusoidFit,
    criterion,
    fit_known,
    matching_pursuit,
    typical_step,
)

MOST_SINUSOIDS = 40
_MOST_MULTIPLES = 200  # among which they are
_MOST_CYCLES, _FEWEST_LONG = 14, 2.0  # of the season in the longer one, and of that in the record
_MOST_ROWS, _FEWEST_ROWS = 5000, 8  # of each output: the most recent show what repeats
# Of a resolution cell: how sharply a season is determined, and steps to either side.
_NEAR, _N_NEAR = 1 / 800, 10


def find_nested(series: Sequence[Series], found: list[SinusoidFit]) -> list[SinusoidFit]:
    """Sinusoids of a nested season, for outputs that they explain better than the harmonics of one.

    They are found one by one among the multiples of the season, and of every longer one that holds a
    few of its cycles; all outputs choose it together. Less than half of what harmonics leave must be
    left: some of so many multiples are near the sinusoids of anything.
    """
    series = [_most_recent(*pair) for pair in series]
    fundamental = fundamental_of(found)
    span = max((float(np.ptp(time)) for time, _ in series if len(time)), default=0.0)
    n_long = int(min(_MOST_CYCLES, fundamental * span / (2 * np.pi * _FEWEST_LONG)))
    longer = [_Longer.of(series, found, fundamental / count) for count in range(1, n_long + 1)]
    best = max(longer, key=lambda item: item.gain, default=None)
    if best is None or not best.multiples:
        return found
    sharp = best.sharpened(series, 2 * np.pi / span)
    return [sharp.get(d, fit) for d, fit in enumerate(found)]


@dataclass(frozen=True)
class _Longer:
    fundamental: float
    multiples: dict[int, Array]  # of the outputs that take some
    gain: float  # in the criterion, of these outputs

    @classmethod
    def of(cls, series: Sequence[Series], found: list[SinusoidFit], fundamental: float) -> _Longer:
        """The strongest multiples of a frequency, for the outputs that they explain better."""
        multiples, gain = {}, 0.0
        for d, (time, value) in enumerate(series):
            if len(time) < _FEWEST_ROWS:
                continue
            plain = fit_known(time, value, found[d].frequency[: found[d].n_supported])
            some = matching_pursuit(time, value, MOST_SINUSOIDS, _multiples(time, fundamental))
            ahead = _criterion(len(time), plain, 2) - _criterion(len(time), some, 3)
            if ahead > 0 and _left(some) < _left(plain) / 2:
                multiples[d] = np.round(some.frequency[: some.n_supported] / fundamental)
                gain += ahead
        return cls(fundamental, multiples, gain)

    def sharpened(self, series: Sequence[Series], cell: float) -> dict[int, SinusoidFit]:
        """Sinusoids at the same multiples of a frequency refined for the highest of them."""

        def at(fundamental: float) -> dict[int, SinusoidFit]:
            return {
                d: fit_known(*series[d], fundamental * some) for d, some in self.multiples.items()
            }

        def cost(found: dict[int, SinusoidFit]) -> float:
            return sum(_criterion(len(series[d][0]), fit, 3) for d, fit in found.items())

        near = self.fundamental + _NEAR * cell * np.linspace(-1, 1, 2 * _N_NEAR + 1)
        return min(map(at, near.tolist()), key=cost)


def _most_recent(time: Array, value: Array) -> Series:
    some = np.argsort(time, kind="stable")[-_MOST_ROWS:]
    return time[some], value[some]


def _multiples(time: Array, fundamental: float) -> Array:
    highest = int(np.pi / typical_step(time) / fundamental)
    multiples: Array = fundamental * np.arange(1.0, min(_MOST_MULTIPLES, highest) + 1)
    return multiples


def _left(fit: SinusoidFit) -> float:
    return float(fit.residual_variance[fit.n_supported])


def _criterion(n_rows: int, fit: SinusoidFit, n_parameters: int) -> float:
    """That of sinusoids, each of so many parameters."""
    left = np.array([_left(fit) + np.finfo(float).tiny])
    return float(criterion(n_rows, left, np.array([n_parameters * fit.n_supported]))[0])
