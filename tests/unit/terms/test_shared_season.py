"""One periodic force behind several outputs."""

import numpy as np
import pytest

from deeplfm.terms.season import find_season
from deeplfm.terms.shared_season import find_response

TIME = np.linspace(0, 1, 400)
FUNDAMENTAL = 2 * np.pi * 3.1
FORCE = np.array([3.0, 2.0, 1.5, 1.0]) * np.exp(1j * np.array([0.3, 1.9, -0.7, 2.5]))
WAVES = np.exp(1j * FUNDAMENTAL * np.outer(TIME, np.arange(1, 5)))


def answer(decay: float, sensitivity: float) -> np.ndarray:
    """Steady state of f' + γf = S u, by superposition: each wave divided by γ + jω."""
    system = sensitivity / (decay + 1j * FUNDAMENTAL * np.arange(1, 5))
    return (WAVES @ (FORCE * system)).real


def noisy(value: np.ndarray, share: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=len(value))
    value = value / value.std() + share * noise
    return value - value.mean()


def response_of(*values: np.ndarray):
    series = [(TIME, value) for value in values]
    return find_response(series, find_season(series, 10))


def test_decays_and_signs_of_responses_to_one_force_are_found() -> None:
    slow, fast = answer(2.0, -3.0), answer(60.0, 5.0)
    found = response_of(noisy(slow, 0.05, 1), noisy(fast, 0.05, 2))
    assert found is not None
    assert found.fundamental == pytest.approx(FUNDAMENTAL, rel=0.005)
    order = np.arange(1, 5)
    told = found.sensitivity[:, None] / (found.decay[:, None] + 1j * found.fundamental * order)
    true = (-3.0 / slow.std() / (2.0 + 1j * FUNDAMENTAL * order)) / (
        5.0 / fast.std() / (60.0 + 1j * FUNDAMENTAL * order)
    )
    assert told[0, :4] / told[1, :4] == pytest.approx(true, rel=0.25)
    assert (found.left[:, :4] < 0.15).all()


def test_the_size_of_the_force_is_that_of_the_output_times_its_filter() -> None:
    value = answer(2.0, 1.0)
    found = response_of(noisy(value, 0.02, 1), noisy(answer(60.0, 1.0), 0.02, 2))
    assert found is not None
    sizes = found.sensitivity[0] / np.hypot(found.decay[0], found.fundamental * np.arange(1, 5))
    true = np.abs(FORCE) / np.hypot(2.0, FUNDAMENTAL * np.arange(1, 5)) / value.std()
    assert np.abs(sizes) * found.force[:4] == pytest.approx(true, rel=0.1)


def test_an_output_of_another_shape_does_not_respond() -> None:
    phase = FUNDAMENTAL * TIME
    other = np.cos(phase) + np.cos(2 * phase + 2.5) - np.sin(3 * phase) + np.sin(4 * phase + 1)
    first, second = noisy(answer(2.0, 1.0), 0.1, 1), noisy(answer(60.0, 1.0), 0.1, 2)
    assert response_of(first, noisy(other, 0.2, 3)) is None
    found = response_of(first, noisy(other, 0.2, 3), second)
    assert found is not None
    assert (found.sensitivity != 0).tolist() == [True, False, True]
    assert found.left[1, :4] == pytest.approx(4 * [1 / np.sqrt(2)], rel=0.2)  # all that it has


def test_a_sine_has_no_shared_response() -> None:
    phase = FUNDAMENTAL * TIME
    assert response_of(noisy(np.cos(phase), 0.2, 1), noisy(np.sin(phase), 0.2, 2)) is None


def test_one_output_or_hardly_any_rows_have_no_force_to_share() -> None:
    value = noisy(answer(2.0, 1.0), 0.1, 1)
    assert response_of(value) is None
    series = [(TIME, value), (TIME[:3], value[:3]), (TIME[:0], value[:0])]
    assert find_response(series, find_season(series, 10)) is None


@pytest.mark.parametrize("slope", [0.0, 10.0])
def test_a_trend_does_not_change_the_response_of_an_output(slope: float) -> None:
    first, second = noisy(answer(2.0, 1.0), 0.1, 1), noisy(answer(60.0, 1.0), 0.1, 2)
    found = response_of(first + slope * TIME, second)
    assert found is not None
    assert found.decay[0] < 10 < found.decay[1] < 150


def test_a_few_rows_of_noise_do_not_pass_for_the_clearest_output() -> None:
    outputs = [noisy(answer(decay, 1.0), 0.1, 1) for decay in (2.0, 60.0)]
    for seed in range(12):
        few = np.random.default_rng(seed).normal(size=11)
        series = [*((TIME, value) for value in outputs), (TIME[::36][:11], few)]
        found = find_response(series, find_season(series, 4))
        assert found is not None
        assert (found.sensitivity[:2] != 0).all()
