r"""A first phase of a cycle, by a hidden Markov model on a grid of phases and rates.

The cycle need not keep time and may skip: from one knot to the next, the phase moves on by the rate,
blurred, or with a small probability to anywhere. Forward and backward passes find the probability of
every phase, so that a skip costs no more than it is unlikely, where steps of Gauss and Newton would fall
into the wrong cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deeplfm.statespace.phases import Array, Series

_N_PHASES = 64
_RATES = np.linspace(0.76, 1.24, 9)  # of the typical rate
_STAYS = 0.9  # probability of the same rate at the next knot
_BLUR = 0.05  # radians
_JUMPS = 1e-3  # probability of a jump in a cycle, before any was seen
_WORTH = 0.3  # of a row: neighbouring residuals repeat each other
_MOST_HARMONICS = 10
_RIDGE = 1e-3
_AT_ONCE = 20_000  # rows


def without_level(series: Series, period: float) -> Series:
    """The values less their mean over one period around each."""
    time, value = series.time, series.value
    total = np.append(0.0, np.cumsum(value))
    first = np.searchsorted(time, time - period / 2, side="left")
    last = np.searchsorted(time, time + period / 2, side="right")
    return series._replace(value=value - (total[last] - total[first]) / (last - first))


def track_phase(
    series: Sequence[Series],
    frequency: float,
    begin: float,
    width: float,
    count: int,
    start: Array,
    n_times: int = 4,
) -> tuple[Array, Array, float]:
    """Phase and rate at the knots, and the log density of the values with this path unknown.

    Args:
        series: outputs of this cycle.
        frequency: its angular frequency.
        begin: time of the first knot.
        width: between the knots.
        count: of the knots.
        start: phase at each knot, where it is known roughly; NaN elsewhere.
        n_times: how often shape and phase are found in turn.
    """
    level = [without_level(item, 2 * np.pi / frequency) for item in series]
    steps = [float(np.median(np.diff(item.time))) for item in level]
    counts = [int(np.clip(0.8 * np.pi / (frequency * step), 1, _MOST_HARMONICS)) for step in steps]
    phase, rate, density = start, np.full(count, frequency), 0.0
    for _ in range(n_times):
        evidence = np.zeros((count, _N_PHASES))
        for item, n_harmonics in zip(level, counts, strict=True):
            evidence += _log_density(item, phase, rate, begin, width, n_harmonics)
        phase, rate, density = _smoothed(evidence, frequency, width)
    return phase, rate, density


def _columns(phase: Array, n_harmonics: int) -> Array:
    angle = np.multiply.outer(phase, np.arange(1, n_harmonics + 1))
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)


def _log_density(
    series: Series, phase: Array, rate: Array, begin: float, width: float, n_harmonics: int
) -> Array:
    """Of the rows near each knot, for each phase of the knot, with the shape of the phases so far."""
    near = np.clip(np.rint((series.time - begin) / width).astype(np.intp), 0, len(phase) - 1)
    moved = (series.time - begin - width * near) * rate[near]
    at_rows = phase[near] + moved
    known = ~np.isnan(at_rows)
    columns = _columns(at_rows[known], n_harmonics)
    gram = columns.T @ columns + _RIDGE * known.sum() * np.eye(2 * n_harmonics)
    weights = np.linalg.solve(gram, columns.T @ series.value[known])
    noise = float(np.mean((series.value[known] - columns @ weights) ** 2)) + 1e-6
    grid = np.arange(_N_PHASES) * 2 * np.pi / _N_PHASES
    total = np.zeros((len(phase), _N_PHASES))
    for first in range(0, len(near), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        # the shape at the grid, turned by what the phase moves between knot and row
        order = np.arange(1, n_harmonics + 1)
        turn = np.multiply.outer(moved[some], order)
        a, b = weights[:n_harmonics], weights[n_harmonics:]
        cosine = np.cos(turn) * a + np.sin(turn) * b
        sine = np.cos(turn) * b - np.sin(turn) * a
        expected = np.concatenate([cosine, sine], axis=1) @ _columns(grid, n_harmonics).T
        away = (series.value[some, None] - expected) ** 2 / noise + np.log(noise)
        np.add.at(total, near[some], -0.5 * _WORTH * away)
    return total


def _smoothed(evidence: Array, frequency: float, width: float) -> tuple[Array, Array, float]:
    """Expected phase, continued from knot to knot, expected rate, and log density."""
    count = len(evidence)
    most = evidence.max(axis=1, keepdims=True)
    weight, density = np.exp(evidence - most), float(most.sum())
    order = np.arange(_N_PHASES // 2 + 1)
    rates = _RATES * frequency
    turn = np.exp(-1j * np.outer(rates * width, order) - 0.5 * (order * _BLUR) ** 2)
    back = np.conj(np.exp(-1j * np.outer(rates * width, order))) * np.exp(
        -0.5 * (order * _BLUR) ** 2
    )
    jump = _JUMPS * frequency * width / (2 * np.pi)
    n_rates = len(rates)
    mix = np.eye(n_rates) * _STAYS
    for r in range(n_rates):
        others = [s for s in (r - 1, r + 1) if 0 <= s < n_rates]
        mix[r, others] = (1 - _STAYS) / len(others)

    def step(now: Array, by: Array) -> Array:
        moved = np.fft.irfft(np.fft.rfft(now, axis=1) * by, _N_PHASES, axis=1)
        anywhere = now.mean(axis=1, keepdims=True)
        return np.maximum((1 - jump) * moved + jump * anywhere, 0.0)

    forward = np.empty((count, n_rates, _N_PHASES), dtype=np.float32)
    now = np.full((n_rates, _N_PHASES), 1 / (n_rates * _N_PHASES))
    for k in range(count):
        if k:
            now = step(mix.T @ now, turn)
        now = now * weight[k]
        total = float(now.sum())
        now /= total
        density += np.log(total)
        forward[k] = now
    phase, rate = np.empty(count), np.empty(count)
    circle = np.exp(1j * np.arange(_N_PHASES) * 2 * np.pi / _N_PHASES)
    after = np.ones((n_rates, _N_PHASES))
    for k in range(count - 1, -1, -1):
        both = forward[k] * after
        both = both / both.sum()
        phase[k] = np.angle(both.sum(axis=0) @ circle)
        rate[k] = both.sum(axis=1) @ rates
        after = mix @ step(after * weight[k], back)
        after /= after.sum()
    return _continued(phase, rate, width), rate, float(density)


def _continued(phase: Array, rate: Array, width: float) -> Array:
    """The phase without whole turns that the rate does not explain."""
    expected = 0.5 * (rate[1:] + rate[:-1]) * width
    step = np.diff(phase) - expected
    step = (step + np.pi) % (2 * np.pi) - np.pi
    return phase[0] + np.append(0.0, np.cumsum(step + expected))
