"""One rhythm behind all outputs."""

from __future__ import annotations

import numpy as np
import pytest

from deeplfm.starts.rhythm import _along_each, find_rhythm
from deeplfm.starts.spectrum import Array

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
    found = find_rhythm([(TIME, clear), (TIME, noisy)], 20)
    assert 2 * np.pi / found[0].frequency[0] == pytest.approx(period, rel=0.02)
    assert found[0].n_supported >= 3
    assert found[0].frequency == pytest.approx(
        found[0].frequency[0] * np.arange(1, 1 + found[0].n_supported)
    )
    if found[1].n_supported:
        assert found[1].frequency[0] == pytest.approx(found[0].frequency[0])
    assert found[0].amplitude[:3] == pytest.approx([1.0, 0.5, 0.25], abs=0.15)
    assert found[0].residual_variance[found[0].n_supported] == pytest.approx(0.09, rel=0.3)


def test_gaps_and_other_times_of_each_output_are_no_trouble() -> None:
    some = TIME[(TIME < 6) | (TIME > 11)]
    found = find_rhythm([(some, cycle(some, 4.0)), (TIME[::3], cycle(TIME[::3], 4.0))], 10)
    assert 2 * np.pi / found[0].frequency[0] == pytest.approx(4.0, rel=1e-2)


def test_noise_has_no_rhythm_to_speak_of() -> None:
    """Of 20 seeds one found more than one harmonic."""
    noise = np.random.default_rng(1).normal(size=400)
    assert find_rhythm([(TIME, noise)], 20)[0].n_supported <= 2


@pytest.mark.parametrize("n_rows", [0, 1, 2, 4])
def test_hardly_any_rows_have_no_rhythm(n_rows: int) -> None:
    alone = find_rhythm([(TIME[:n_rows], TIME[:n_rows])], 20)
    assert alone[0].n_supported == 0
    beside = find_rhythm([(TIME[:n_rows], TIME[:n_rows]), (TIME, cycle(TIME, 3.0))], 20)
    assert beside[0].n_supported == 0
    assert beside[1].n_supported >= 3


def test_an_output_that_saw_less_than_a_round_has_no_harmonics() -> None:
    time = np.linspace(0, 1, 160)
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(size=100)) / 10
    wave = np.sin(2 * np.pi * 1.3 * time) + 0.1 * rng.normal(size=160)
    whole, short = find_rhythm([(time, wave), (time[:100], walk)], most=5)
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
