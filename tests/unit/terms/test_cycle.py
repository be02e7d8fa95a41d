"""The phase of a cycle that does not keep time, against the phase it was made with."""

import numpy as np
import pytest

from deeplfm.terms.cycle import find_cycle, phase_columns

N_ROWS, N_ROUNDS = 500, 10


def wandering(seed: int, by_round: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, values and phase: three harmonics of a Wiener process, with a slope and noise."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, N_ROWS)
    steps = by_round * np.sqrt(N_ROUNDS / N_ROWS) * rng.normal(size=N_ROWS)
    phase = 2 * np.pi * N_ROUNDS * time + np.cumsum(steps)
    value = np.cos(phase) + 0.7 * np.sin(2 * phase) + 0.4 * np.cos(3 * phase) + 0.5 * time
    value = value + 0.1 * rng.normal(size=N_ROWS)
    return time, (value - value.mean()) / value.std(), phase


@pytest.mark.parametrize("seed", range(3))
def test_the_phase_is_followed(seed: int) -> None:
    """Up to a constant, which is one of the shape; a round that is 0.3 rad late is seen as one."""
    time, value, phase = wandering(seed, 0.3)
    keep = np.random.default_rng(seed).uniform(size=N_ROWS) < 0.8
    cycle = find_cycle(time[keep], value[keep])
    assert cycle is not None
    error = phase_columns(time, cycle) @ cycle.weight - phase
    assert np.std(error) < 0.1
    assert cycle.weight[-1] == pytest.approx(2 * np.pi * N_ROUNDS, rel=0.05)
    by_round = cycle.diffusion * np.sqrt(1 / N_ROUNDS)
    assert 0.1 <= by_round <= 0.9
    assert cycle.residual.var() < 0.03
    assert 3 <= len(cycle.amplitude) <= 8


def test_a_steady_cycle_has_the_least_wander() -> None:
    time, value, _ = wandering(0, 0.0)
    cycle = find_cycle(time, value)
    assert cycle is not None
    assert cycle.diffusion * np.sqrt(1 / N_ROUNDS) == pytest.approx(0.03, rel=0.01)
    deviation = phase_columns(time, cycle) @ cycle.weight - 2 * np.pi * N_ROUNDS * time
    assert np.std(deviation) < 0.03


def test_waves_have_the_increments_of_a_wiener_process() -> None:
    """τ − τ²/period, to what the shortest waves leave out."""
    time, value, _ = wandering(0, 0.3)
    cycle = find_cycle(time, value)
    assert cycle is not None
    waves = phase_columns(np.array([0.3, 0.5, 1.3]), cycle)[:, :-1]
    for other, lag in ((1, 0.2), (2, 1.0)):
        expected = cycle.diffusion**2 * (lag - lag**2 / 4)
        assert np.square(waves[0] - waves[other]).sum() == pytest.approx(expected, rel=0.05)


def test_beyond_the_rows_the_phase_is_in_doubt() -> None:
    time, value, _ = wandering(1, 0.3)
    cycle = find_cycle(time, value)
    assert cycle is not None
    columns = phase_columns(np.array([0.5, 1.1, 1.4]), cycle)
    doubt = np.sqrt(np.einsum("ni,ij,nj->n", columns, cycle.covariance, columns))
    assert doubt[0] < 0.1 < doubt[1] < doubt[2]


@pytest.mark.parametrize("n_rows", [0, 2, 10, 100])
def test_without_rounds_enough_there_is_none(n_rows: int) -> None:
    time = np.linspace(0, 1, n_rows)
    assert find_cycle(time, 5 * time) is None


def test_noise_is_no_cycle() -> None:
    rng = np.random.default_rng(0)
    assert find_cycle(np.linspace(0, 1, 300), rng.normal(size=300)) is None
