"""One rhythm behind all outputs."""

from __future__ import annotations

import numpy as np
import pytest

from deeplfm.terms.season import _along_each, find_season
from deeplfm.terms.spectrum import Array, typical_step
from deeplfm.terms.state_space import _cycles

TIME = np.linspace(0, 20, 400)


def cycle(time: Array, period: float) -> Array:
    """A wave with a steep side."""
    phase = 2 * np.pi * time / period
    return np.sin(phase) + 0.5 * np.sin(2 * phase) + 0.25 * np.sin(3 * phase)


@pytest.mark.parametrize("period", [0.7, 3.1, 9.0, 15.0])
def test_the_period_is_found_from_all_outputs_together(period: float) -> None:
    """The second output alone is too noisy; the error of ten seeds was below 0.4 %."""
    rng = np.random.default_rng(0)
    clear = cycle(TIME, period) + 0.3 * rng.normal(size=400)
    noisy = 0.3 * np.sin(2 * np.pi * TIME / period) + 0.5 * rng.normal(size=400)
    found = find_season([(TIME, clear), (TIME, noisy)], 20)
    assert 2 * np.pi / found[0].frequency[0] == pytest.approx(period, rel=0.02)
    assert found[0].n_supported >= 3
    assert found[0].frequency == pytest.approx(
        found[0].frequency[0] * np.arange(1, 1 + found[0].n_supported)
    )
    if found[1].n_supported:
        assert found[1].frequency[0] == pytest.approx(found[0].frequency[0])
    assert found[0].amplitude[:3] == pytest.approx([1.0, 0.5, 0.25], abs=0.15)
    assert found[0].residual_variance[found[0].n_supported] == pytest.approx(0.09, rel=0.3)


def season(period: float, seed: int, n_rows: int = 96, noise: float = 0.5) -> Array:
    rng = np.random.default_rng(seed)
    return cycle(np.arange(n_rows), period) + noise * rng.normal(size=n_rows)


def steps_of_round(time: Array, value: Array) -> float:
    found = find_season([(time, value)], 20)
    return 2 * np.pi / found[0].frequency[0] / typical_step(time)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_steps", [4, 7, 12, 24])
def test_a_season_has_a_whole_number_of_steps(n_steps: int, seed: int) -> None:
    """Of a hundred seeds, 3, 3, 6 and 14 found another number, or none that is whole: these do not."""
    time = np.linspace(-1, 1, 96)
    assert steps_of_round(time, season(n_steps, seed)) == pytest.approx(n_steps, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_period_of_any_length_is_unchanged(seed: int) -> None:
    """Of a hundred seeds, none found 12 or 13."""
    found = steps_of_round(np.arange(200.0), season(12.4, seed, 200))
    assert found == pytest.approx(12.4, abs=0.06) and found != round(found)


def test_a_season_has_all_its_harmonics_and_other_periods_the_significant_ones() -> None:
    """Two of thirty seeds find a longer round, or a season in noise; this one does not."""
    time, wave = np.arange(60.0), 2 * np.pi * np.arange(60.0) / 12
    noise, more = 0.1 * np.random.default_rng(1).normal(size=(2, 60))
    months, other = np.sin(wave) + noise, np.sin(wave / 1.037) + noise
    found = find_season([(time, months), (time, more)], 20)
    assert [lines.n_supported for lines in found] == [6, 0]
    assert find_season([(time, months)], 3)[0].n_supported == 3
    assert find_season([(time, other)], 20)[0].n_supported == 1


def test_without_even_steps_nothing_is_whole() -> None:
    time = np.sort(np.random.default_rng(0).uniform(0, 96, 96))
    found = find_season([(time, cycle(time, 12.0))], 20)
    assert 2 * np.pi / found[0].frequency[0] == pytest.approx(12, abs=0.05)
    assert 2 * np.pi / found[0].frequency[0] != pytest.approx(12, rel=1e-7)


def test_a_year_is_twelve_months_however_long_they_are() -> None:
    months = np.arange("2010-01", "2018-01", dtype="datetime64[M]")
    days = (months.astype("datetime64[D]") - np.datetime64("2010-01-01")).astype(float)
    found = find_season([(days, season(12, 0))], 20)
    assert 2 * np.pi / found[0].frequency[0] == pytest.approx(365.25, abs=0.5)
    assert found[0].n_supported == 6


def test_gaps_and_other_times_of_each_output_are_no_trouble() -> None:
    some = TIME[(TIME < 6) | (TIME > 11)]
    found = find_season([(some, cycle(some, 4.0)), (TIME[::3], cycle(TIME[::3], 4.0))], 10)
    assert 2 * np.pi / found[0].frequency[0] == pytest.approx(4.0, rel=1e-2)


def test_noise_has_no_season() -> None:
    """Of 20 seeds one found more than one harmonic."""
    noise = np.random.default_rng(1).normal(size=400)
    assert find_season([(TIME, noise)], 20)[0].n_supported <= 2


@pytest.mark.parametrize("n_rows", [0, 1, 2, 4])
def test_hardly_any_rows_have_no_season(n_rows: int) -> None:
    alone = find_season([(TIME[:n_rows], TIME[:n_rows])], 20)
    assert alone[0].n_supported == 0
    beside = find_season([(TIME[:n_rows], TIME[:n_rows]), (TIME, cycle(TIME, 3.0))], 20)
    assert beside[0].n_supported == 0
    assert beside[1].n_supported >= 3


def test_an_output_with_less_than_one_cycle_has_no_harmonics() -> None:
    time = np.linspace(0, 1, 160)
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(size=100)) / 10
    wave = np.sin(2 * np.pi * 1.3 * time) + 0.1 * rng.normal(size=160)
    whole, short = find_season([(time, wave), (time[:100], walk)], most=5)
    assert whole.n_supported >= 1
    assert short.n_supported == 0 or whole.frequency[0] * time[99] >= 2 * np.pi
    assert np.abs(short.amplitude).max(initial=0.0) < 10


@pytest.mark.parametrize("apart", [1.0, 1e-3, 1e-6, 1e-8, 0.0])
def test_shares_of_columns_are_those_of_qr_however_near_the_columns_are(apart: float) -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(200, 6))
    design[:, 4] = design[:, 1] + apart * design[:, 4]
    value = rng.normal(size=200)
    found = _along_each(np.asfortranarray(design), value)
    expected = np.linalg.qr(design)[0].T @ value
    np.testing.assert_allclose(np.cumsum(found**2), np.cumsum(expected**2), rtol=1e-7)
    np.testing.assert_allclose(found[:4] ** 2, expected[:4] ** 2, rtol=1e-9)


def test_a_pulse_that_breathing_modulates_has_two_seasons_and_a_sharp_beat_has_one():
    time = np.linspace(0, 1, 700)
    breath, pulse = 2 * np.pi * 4.1 * time, 2 * np.pi * 7 * 4.1 * time
    modulated = (1 + 0.3 * np.cos(breath)) * (np.cos(pulse) + 0.5 * np.sin(2 * pulse))
    sharp = np.exp(5 * np.cos(2 * np.pi * 9.3 * time))
    rng = np.random.default_rng(0)
    noise = 0.02 * rng.normal(size=(2, len(time)))
    np.testing.assert_allclose(
        _cycles((time, modulated + noise[0]), 20), 2 * np.pi * 4.1 * np.array([7, 1]), rtol=5e-3
    )
    sharp = (sharp - sharp.mean()) / sharp.std()
    np.testing.assert_allclose(_cycles((time, sharp + noise[1]), 20), [2 * np.pi * 9.3], rtol=5e-3)
