r"""One rhythm behind all outputs: a fundamental frequency, found by its harmonics in all of them.

A system that runs in a cycle repeats itself, whatever the shape of what it shows. Its lines are whole
multiples of one frequency, which all outputs tell of together: two rounds of it are enough, where lines
that are looked for one by one need many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.special import ndtr

from deeplfm.ensemble.even_grid import even_step
from deeplfm.starts.spectrum import Array, Pursuit, criterion, known_lines, pursue, typical_step

_FEWEST_ROUNDS = 1.15  # of the cycle in the record
_FEW_ROUNDS, _STEPS_PER_CELL = 8.0, 40  # up to so many, every frequency is tried
_PEAKS, _DIVISORS = 8, 6  # beyond, the strongest lines and their fractions
_REFINED = 8  # candidates that are looked at closely
_LONGEST_SEASON = 24  # steps: rounds that are counted, not measured
_NEAR = 0.02  # of a resolution cell, to see how sharply a frequency is known
_ROUNDING, _MONTHS = 1e-6, 0.2  # of a harmonic; steps of a season may be months of 28 to 31 days
_ROWS_PER_HARMONIC = 4  # of a season: as many as answers to a force ask for
_CLEAR = 1e-3  # off orthogonal, which a second factor mends

Series = tuple[Array, Array]  # times and values


def find_rhythm(series: Sequence[Series], most: int) -> list[Pursuit]:
    """Harmonics of the best fundamental for each output, by the Bayesian information criterion.

    Where that is a season of few whole steps, outputs that have it get all harmonics.

    Args:
        series: times and known values of each output.
        most: at most this many harmonics.
    """
    usable = [pair for pair in series if len(pair[0]) > 4 and np.ptp(pair[0]) > 0]
    if not usable:
        return [known_lines(*pair, np.zeros(0)) for pair in series]
    cell = 2 * np.pi / max(float(np.ptp(time)) for time, _ in usable)

    def score(frequency: float) -> float:
        return sum(_criterion(*pair, frequency, most)[0] for pair in usable)

    tried = cell * np.arange(_FEWEST_ROUNDS, _FEW_ROUNDS, 1 / _STEPS_PER_CELL)
    lines = np.concatenate([pursue(*pair, _PEAKS).frequency for pair in usable])
    parts = np.divide.outer(lines, np.arange(1, _DIVISORS + 1)).ravel()
    tried = np.concatenate([tried, parts[parts > tried[0]]])
    best = tried[np.argsort([score(frequency) for frequency in tried])[:_REFINED]]
    # The highest harmonic tells the fundamental best: steps are small for it too.
    near = cell / _STEPS_PER_CELL * np.linspace(-1, 1, 2 * most + 1)
    close = np.add.outer(best, near).ravel()
    fundamental = float(close[np.argmin([score(frequency) for frequency in close])])
    season = _season(fundamental, score, np.concatenate([time for time, _ in usable]))
    fundamental = season or fundamental
    counts = [_count(*pair, fundamental, most, season is not None) for pair in series]
    return [
        known_lines(*pair, fundamental * np.arange(1.0, count + 1))
        for pair, count in zip(series, counts, strict=True)
    ]


def fundamental_of(found: Sequence[Pursuit]) -> float:
    """The frequency whose multiples the harmonics of all outputs are; 0 where there are none."""
    return next((float(lines.frequency[0]) for lines in found if lines.n_supported), 0.0)


def _season(frequency: float, score: Callable[[float], float], time: Array) -> float | None:
    """The frequency of a round of a few whole steps, where rows do not speak against it; None if they do.

    A year is twelve months, and a day so many hours: the odds are even. The Bayes factor then asks how
    much worse it is, against how sharply a round of any length must be known to be so near.

    Args:
        frequency: the best one.
        score: twice the negative logarithm of its evidence, for any frequency.
        time: of all rows.
    """
    grid = np.unique(time)
    step = even_step(torch.as_tensor(grid))
    n_steps = 2 * np.pi / (frequency * step) if step else 0.0
    whole = round(n_steps)
    if step is None or not 2 <= whole <= _LONGEST_SEASON:
        return None

    def cost(n_steps: float) -> float:
        return score(2 * np.pi / (n_steps * step)) / 2

    width = _NEAR * n_steps**2 * step / np.ptp(grid)
    bend = cost(n_steps - width) - 2 * cost(n_steps) + cost(n_steps + width)
    if bend <= 0:
        return None
    spread = width / np.sqrt(bend)  # of a bell as curved as this one at its top
    low, high = ndtr((whole + np.array([-0.5, 0.5]) - n_steps) / spread)
    mean = np.sqrt(2 * np.pi) * spread * (high - low)  # of lengths that are rounded to this one
    is_likely = cost(whole) - cost(n_steps) < -np.log(mean)
    return float(2 * np.pi / (whole * step)) if is_likely else None


def _count(time: Array, value: Array, fundamental: float, most: int, is_season: bool) -> int:
    """Harmonics of an output: as many as it speaks for; of a season that it has, all that can be told."""
    if len(time) <= 4:
        return 0
    count = _criterion(time, value, fundamental, most)[1]
    if not is_season or not count:
        return count
    highest = int(np.pi / typical_step(time) / fundamental + _MONTHS)
    return max(count, min(highest, most, len(time) // _ROWS_PER_HARMONIC - 1))


def _most_harmonics(time: Array, fundamental: float) -> int:
    """How many the rows can tell: up to half their rate, and a third of their number."""
    if fundamental * np.ptp(time) < 2 * np.pi:  # less than a round: slope and harmonics look alike
        return 0
    highest = int(np.pi / typical_step(time) / fundamental + _ROUNDING)
    return max(0, min(highest, (len(time) - 4) // 3))


def _criterion(time: Array, value: Array, fundamental: float, most: int) -> tuple[float, int]:
    """The criterion at the best number of harmonics, and that number."""
    n_rows = len(time)
    count = min(most, _most_harmonics(time, fundamental))
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
    """What a series has of each column, once those before it are taken away.

    By Cholesky factors, twice for the digits that once would lose: a few times faster than QR, and a
    search asks hundreds of times. Columns that nearly depend on each other are left to QR.
    """
    try:
        root = np.linalg.cholesky(design.T @ design)
        basis = dtrsm(1.0, root, design, side=1, lower=1, trans_a=1)  # design / rootᵀ
        gram = basis.T @ basis
        is_clear = bool((np.abs(gram - np.eye(len(gram))) < _CLEAR).all())
    except np.linalg.LinAlgError:
        is_clear = False
    if not is_clear:
        return np.asarray(np.linalg.qr(design)[0].T @ value)
    return np.asarray(solve_triangular(np.linalg.cholesky(gram), basis.T @ value, lower=True))
