r"""A season: harmonics of one period that all outputs share.

The frequencies of a periodic series are whole multiples of one. All outputs determine it together: two
cycles are enough, where sinusoids that are found one by one need many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.special import ndtr

from deeplfm.errors import ConfigError
from deeplfm.terms.base import BuildContext, Plan, Term, refuse_shared
from deeplfm.terms.initial import all_series, resolved_step
from deeplfm.terms.sinusoids import Bandwidth, narrow_band_plan
from deeplfm.terms.spectrum import (
    Array,
    SinusoidFit,
    criterion,
    even_step,
    fit_known,
    matching_pursuit,
)
from deeplfm.training import Rows

_FEWEST_CYCLES = 1.15  # of the cycle in the record
_FEW_CYCLES, _STEPS_PER_CELL = 8.0, 40  # in the record: up to so many, every frequency is tried
_PEAKS, _DIVISORS = 8, 6  # beyond, the strongest sinusoids and their fractions
_REFINED = 8  # candidates that are looked at closely
_LONGEST_WHOLE = 24  # steps: seasons of so many steps are likely whole
_NEAR = 0.02  # of a resolution cell, to measure the curvature of the evidence
_ROUNDING, _MONTHS = 1e-6, 0.2  # of a harmonic; months have 28 to 31 days
_ROWS_PER_HARMONIC = 4  # of a season
_ORTHOGONAL = 1e-3  # off orthogonal, which a second factor mends

Series = tuple[Array, Array]  # times and values


@dataclass(frozen=True, repr=False)
class Season(Term):
    """Harmonics of one period that all outputs share; with ``nested``, days within weeks too.

    Attributes:
        period: in the user's units of time: a number, of steps where times are timestamps; or a
            duration such as ``"1D"``; or a tuple of several. ``None`` takes those of the calendar where
            times are timestamps, and otherwise finds it in the data.
        n_harmonics: at most so many; the information criterion may support fewer.
        nested: look for a longer period of which this one is a part, as days are of weeks.
        bandwidth: of each harmonic, in units of one over the record length.
        learn_bandwidth: train the bandwidths; otherwise they stay.
        system: the linear system that the harmonics drive.
        evolves: in state-space form, amplitudes change over time, as far as the evidence supports it.
    """

    term_name: ClassVar[str] = "season"
    order: ClassVar[int] = 1
    state_space_arguments: ClassVar[tuple[str, ...]] = (
        "period",
        "n_harmonics",
        "nested",
        "evolves",
    )
    period: float | str | tuple[float | str, ...] | None = None
    n_harmonics: int = 20
    nested: bool = True
    bandwidth: float = 0.3
    learn_bandwidth: bool = True
    system: str = "ode1"
    evolves: bool = True

    def in_time_units(self, convert: Callable[[Any], float]) -> Self:
        """The same season with its period as a number of time units."""
        if self.period is None:
            return self
        if isinstance(self.period, tuple):
            return replace(self, period=tuple(convert(period) for period in self.period))
        return replace(self, period=convert(self.period))

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Find the harmonics of each output, and take them out of the rows."""
        from deeplfm.terms.nested import find_nested

        refuse_shared(self, context)
        series = all_series(rows)
        period = min(self.period) if isinstance(self.period, tuple) else self.period
        found = find_season(series, self.n_harmonics, frequency_of(period, context))
        if self.nested:
            found = find_nested(series, found)
        n_forces = max(fit.n_supported for fit in found)
        bandwidth = Bandwidth(self.bandwidth, is_learned=self.learn_bandwidth)
        return narrow_band_plan(self.term_name, self.system, rows, found, n_forces, bandwidth)


def frequency_of(period: float | str | None, context: BuildContext) -> float | None:
    """Angular frequency of a period in the model's units of time."""
    if period is None:
        return None
    if isinstance(period, str):
        raise ConfigError(
            f"season: the period {period!r} is a duration, and these times are numbers. Give the "
            "period as a number in their units, or times as timestamps to a DeepLFMForecaster."
        )
    if not period > 0:
        raise ConfigError(f"season: a period must be positive, found {period!r}.")
    return 2 * np.pi * context.time_scale / period


def find_season(
    series: Sequence[Series], most: int, fundamental: float | None = None
) -> list[SinusoidFit]:
    """Harmonics of the best fundamental for each output, by the Bayesian information criterion.

    Where that is a season of few whole steps, outputs that have it get all its harmonics.
    """
    usable = [pair for pair in series if len(pair[0]) > 4 and np.ptp(pair[0]) > 0]
    if not usable:
        return [fit_known(*pair, np.zeros(0)) for pair in series]
    season = fundamental
    if fundamental is None:
        fundamental, season = _best_fundamental(usable, most)
    counts = [_count(*pair, fundamental, most, season is not None) for pair in series]
    return [
        fit_known(*pair, fundamental * np.arange(1.0, count + 1))
        for pair, count in zip(series, counts, strict=True)
    ]


def _best_fundamental(usable: Sequence[Series], most: int) -> tuple[float, float | None]:
    """The fundamental of the best criterion; and again where it is a season of whole steps."""
    cell = 2 * np.pi / max(float(np.ptp(time)) for time, _ in usable)

    steps = [resolved_step(time) for time, _ in usable]

    def score(frequency: float) -> float:
        pairs = zip(usable, steps, strict=True)
        return sum(_criterion(*pair, frequency, most, step)[0] for pair, step in pairs)

    tried = cell * np.arange(_FEWEST_CYCLES, _FEW_CYCLES, 1 / _STEPS_PER_CELL)
    sinusoids = np.concatenate([matching_pursuit(*pair, _PEAKS).frequency for pair in usable])
    parts = np.divide.outer(sinusoids, np.arange(1, _DIVISORS + 1)).ravel()
    tried = np.concatenate([tried, parts[parts > tried[0]]])
    best = tried[np.argsort([score(frequency) for frequency in tried])[:_REFINED]]
    # The highest harmonic determines the fundamental: steps are small for it too.
    near = cell / _STEPS_PER_CELL * np.linspace(-1, 1, 2 * most + 1)
    close = np.add.outer(best, near).ravel()
    fundamental = float(close[np.argmin([score(frequency) for frequency in close])])
    season = _whole_season(fundamental, score, np.concatenate([time for time, _ in usable]))
    return season or fundamental, season


def fundamental_of(found: Sequence[SinusoidFit]) -> float:
    """The frequency whose multiples the harmonics of all outputs are; 0 where there are none."""
    return next((float(fit.frequency[0]) for fit in found if fit.n_supported), 0.0)


def _whole_season(frequency: float, score: Callable[[float], float], time: Array) -> float | None:
    """The frequency of a season of a few whole steps, where the rows allow it; otherwise ``None``.

    A year is twelve months, a day 24 hours: prior odds are even. The Bayes factor weighs how much worse
    the whole number fits against how sharply any other length is determined.
    """
    grid = np.unique(time)
    step = even_step(torch.as_tensor(grid))
    n_steps = 2 * np.pi / (frequency * step) if step else 0.0
    whole = round(n_steps)
    if step is None or not 2 <= whole <= _LONGEST_WHOLE:
        return None

    def cost(n_steps: float) -> float:
        return score(2 * np.pi / (n_steps * step)) / 2

    width = _NEAR * n_steps**2 * step / np.ptp(grid)
    bend = cost(n_steps - width) - 2 * cost(n_steps) + cost(n_steps + width)
    if bend <= 0:
        return None
    spread = width / np.sqrt(bend)  # of a Gaussian of this curvature
    low, high = ndtr((whole + np.array([-0.5, 0.5]) - n_steps) / spread)
    mean = np.sqrt(2 * np.pi) * spread * (high - low)  # over the lengths that round to this one
    is_likely = cost(whole) - cost(n_steps) < -np.log(mean)
    return float(2 * np.pi / (whole * step)) if is_likely else None


def _count(time: Array, value: Array, fundamental: float, most: int, is_season: bool) -> int:
    """Harmonics of an output: those it supports; of a season of whole steps, all that rows resolve."""
    if len(time) <= 4:
        return 0
    step = resolved_step(time)
    count = _criterion(time, value, fundamental, most, step)[1]
    if not is_season or not count:
        return count
    highest = int(np.pi / step / fundamental + _MONTHS)
    return max(count, min(highest, most, len(time) // _ROWS_PER_HARMONIC - 1))


def _most_harmonics(time: Array, fundamental: float, step: float) -> int:
    """How many the rows resolve: up to half their rate, and a third of their number."""
    if fundamental * np.ptp(time) < 2 * np.pi:  # less than a cycle: slope and harmonics look alike
        return 0
    highest = int(np.pi / step / fundamental + _ROUNDING)
    return max(0, min(highest, (len(time) - 4) // 3))


def _criterion(
    time: Array, value: Array, fundamental: float, most: int, step: float
) -> tuple[float, int]:
    """The criterion at the best number of harmonics, and that number."""
    n_rows = len(time)
    count = min(most, _most_harmonics(time, fundamental, step))
    design = np.empty((n_rows, 2 + 2 * count), order="F")
    design[:, 0], design[:, 1] = 1.0, time - time.mean()
    turn = wave = np.exp(1j * fundamental * time)
    for column in range(2, design.shape[1], 2):
        design[:, column], design[:, column + 1] = wave.real, wave.imag
        wave = wave * turn
    share = _along_each(design, value)
    total = float(value @ value)
    left = np.maximum(total - np.cumsum(share**2), 1e-12 * total + np.finfo(float).tiny) / n_rows
    used = np.arange(count + 1)
    support = criterion(n_rows, left[1 + 2 * used], 2 * used)
    return float(support.min()), int(support.argmin())


def _along_each(design: Array, value: Array) -> Array:
    """Projection of a series on each column, orthogonal to the columns before it.

    By Cholesky factors, twice for accuracy: a few times faster than QR, and a search needs hundreds.
    Nearly dependent columns are left to QR.
    """
    try:
        root = np.linalg.cholesky(design.T @ design)
        basis = dtrsm(1.0, root, design, side=1, lower=1, trans_a=1)  # design / rootᵀ
        gram = basis.T @ basis
        is_orthogonal = bool((np.abs(gram - np.eye(len(gram))) < _ORTHOGONAL).all())
    except np.linalg.LinAlgError:
        is_orthogonal = False
    if not is_orthogonal:
        return np.asarray(np.linalg.qr(design)[0].T @ value)
    return np.asarray(solve_triangular(np.linalg.cholesky(gram), basis.T @ value, lower=True))
