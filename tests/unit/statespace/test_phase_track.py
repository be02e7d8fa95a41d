"""First phases: a cycle whose rate varies and that skips is followed."""

import numpy as np
import pytest

from deeplfm.statespace.phase_track import track_phase, without_level
from deeplfm.statespace.phases import Series

PERIOD = 20.0


def cycle(skip: bool) -> tuple[np.ndarray, Series]:
    rng = np.random.default_rng(0)
    time = np.arange(600.0)
    rate = 2 * np.pi / PERIOD * (1 + 0.06 * np.sin(time / 90))
    phase = np.cumsum(rate)
    phase[300:] += 2.5 if skip else 0.0
    value = np.exp(2 * np.cos(phase)) / 2 + 0.1 * rng.normal(size=600)
    return phase, Series(time, value, np.ones(600))


@pytest.mark.parametrize("skip", [False, True])
def test_the_phase_is_followed_from_three_cycles_on(skip: bool) -> None:
    phase, series = cycle(skip)
    width, count = PERIOD / 4, 121
    knots = width * np.arange(count)
    start = np.where(knots > 540, 2 * np.pi / PERIOD * knots, np.nan)
    found, rate, _ = track_phase([series], 2 * np.pi / PERIOD, 0.0, width, count, start)
    away = np.exp(1j * (found - np.interp(knots, series.time, phase)))[1:-1]
    away = np.angle(away / away.mean() * abs(away.mean()))
    near = abs(knots[1:-1] - 300) < 2 * width
    assert np.abs(away[~near]).max() < 0.3
    true = np.gradient(phase, series.time)[::5]
    assert np.abs(rate[:120] / true - 1)[[40, 80]].max() < 0.06
    jump = np.diff(found) - rate[1:] * width
    assert (np.abs(jump).max() > 0.6) == skip


def test_a_path_that_follows_the_cycle_is_more_probable() -> None:
    _, series = cycle(True)
    width, count = PERIOD / 4, 121
    knots = width * np.arange(count)
    density = []
    for period in (PERIOD, 0.73 * PERIOD):
        start = np.where(knots > 540, 2 * np.pi / period * knots, np.nan)
        density.append(track_phase([series], 2 * np.pi / period, 0.0, width, count, start)[2])
    assert density[0] > density[1] + 50


def test_the_mean_of_a_period_takes_out_a_level() -> None:
    time = np.arange(200.0)
    wave = np.sin(2 * np.pi * time / PERIOD)
    found = without_level(Series(time, wave + 3 + 0.01 * time, np.ones(200)), PERIOD + 1)
    inside = slice(15, -15)
    np.testing.assert_allclose(found.value[inside], wave[inside], atol=0.06)
