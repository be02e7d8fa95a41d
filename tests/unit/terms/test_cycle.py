"""Shapes and phases of cycles, against marginal likelihoods and the phases they were made with."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from deeplfm.terms.clock import Clock
from deeplfm.terms.clock_search import find_cycle, find_cycles, fundamentals
from deeplfm.terms.cycle import Cycles, Shape, multiples, track

N_ROWS, N_CYCLES = 500, 10


def standardised(value: np.ndarray) -> np.ndarray:
    return (value - value.mean()) / value.std()


def wandering(seed: int, by_cycle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, values and phase: three harmonics of a Wiener process, with a slope and noise."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, N_ROWS)
    steps = by_cycle * np.sqrt(N_CYCLES / N_ROWS) * rng.normal(size=N_ROWS)
    phase = 2 * np.pi * N_CYCLES * time + np.cumsum(steps)
    value = np.cos(phase) + 0.7 * np.sin(2 * phase) + 0.4 * np.cos(3 * phase) + 0.5 * time
    return time, standardised(value + 0.1 * rng.normal(size=N_ROWS)), phase


def wandering_rate(seed: int, share: float, lasting: float, n_cycles: int = 25) -> np.ndarray:
    """A phase whose rate is an Ornstein–Uhlenbeck process, exact in discrete time; 1.3 records."""
    rng = np.random.default_rng(seed)
    step, rate = 1 / N_ROWS, np.zeros(int(1.3 * N_ROWS))
    keep = np.exp(-step / lasting)
    rate[0] = rng.normal()
    for n in range(1, len(rate)):
        rate[n] = keep * rate[n - 1] + np.sqrt(1 - keep**2) * rng.normal()
    return np.cumsum(2 * np.pi * n_cycles * (1 + share * rate) * step)


def test_the_evidence_of_known_phases_is_the_density_of_a_gaussian_process() -> None:
    """Level, waves of the level and harmonics are one Gaussian with the covariance D V Dᵀ + noise."""
    rng = np.random.default_rng(0)
    time, value = np.linspace(0, 2, 40), rng.normal(size=40)
    clock = replace(Clock.drift(2.0), weight=np.array([0.0, 0.0, 9.0]), fundamental=9.0)
    shape = Shape(multiples(2), np.array([0.5, 0.2]), n_slow=2, slow=0.3, noise=0.4)
    found = track([(time, value)], Cycles((clock,), (shape,)), n_steps=0)
    angle = 9.0 * np.outer(time, [1, 2])
    slow = np.pi / 2 * np.outer(time, [1, 2])
    columns = [np.cos(angle), np.sin(angle), np.ones(40), time, np.cos(slow), np.sin(slow)]
    variance = [0.5, 0.2, 0.5, 0.2, 10, 10, 0.3, 0.3 / 4, 0.3, 0.3 / 4]
    design = np.column_stack(columns)
    covariance = design @ np.diag(variance) @ design.T + 0.4 * np.eye(40)
    expected = multivariate_normal(np.zeros(40), covariance).logpdf(value)
    assert found.evidence - clock.log_prior == pytest.approx(expected, abs=1e-4)


def test_no_phase_near_the_one_found_is_likelier() -> None:
    time, value, _ = wandering(0, 0.3)
    found = find_cycle((time, value))
    assert found is not None
    (clock,) = found.clocks

    def density(weight: np.ndarray) -> float:
        """Log joint density of values and weights, the shape integrated at these variances."""
        known = replace(clock, weight=weight)
        angle = np.outer(known.phase(time), found.shapes[0].orders[:, 0])
        shape = found.shapes[0]
        span = np.pi * np.outer(time, np.arange(1, shape.n_slow + 1))
        ones = np.ones_like(time)
        design = np.column_stack(
            [np.cos(angle), np.sin(angle), ones, time, np.cos(span), np.sin(span)]
        )
        noise = shape.noise / shape.row_worth
        gram = design.T @ design / noise + np.diag(1 / shape.prior)
        coefficient = np.linalg.solve(gram, design.T @ value / noise)
        rest = value - design @ coefficient
        away = weight - clock.expected
        return -0.5 * float(
            rest @ rest / noise + coefficient**2 @ (1 / shape.prior) + away**2 @ clock.precision
        )

    best = density(clock.weight)
    rng = np.random.default_rng(1)
    root = np.linalg.cholesky(clock.covariance)
    assert all(
        density(clock.weight + 0.5 * root @ rng.normal(size=len(root))) < best for _ in range(20)
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_phase_is_followed(seed: int) -> None:
    """Up to a constant, which is one of the shape; a cycle that is 0.3 rad late is seen as one."""
    time, value, phase = wandering(seed, 0.3)
    keep = np.random.default_rng(seed).uniform(size=N_ROWS) < 0.8
    found = find_cycle((time[keep], value[keep]))
    assert found is not None
    (clock,) = found.clocks
    assert np.std(clock.phase(time) - phase) < 0.15
    assert clock.weight[-1] == pytest.approx(2 * np.pi * N_CYCLES, rel=0.05)
    assert 0.1 <= clock.diffusion <= 1.0
    assert found.noise[0].var() < 0.03


def test_a_steady_cycle_is_found_steady() -> None:
    time, value, _ = wandering(0, 0.0)
    found = find_cycle((time, value))
    assert found is not None
    (clock,) = found.clocks
    assert clock.diffusion <= 0.03
    assert np.std(clock.phase(time) - 2 * np.pi * N_CYCLES * time) < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_a_rate_that_lasts_is_kept_ahead(seed: int) -> None:
    """The phase 0.1 records ahead is closer to the truth than that of the mean pace of the record."""
    phase = wandering_rate(seed, share=0.06, lasting=0.3)
    time = np.arange(len(phase)) / N_ROWS
    value = standardised(np.exp(np.cos(phase)))
    value += 0.1 * np.random.default_rng(seed).normal(size=len(value))
    found = find_cycle((time[:N_ROWS], value[:N_ROWS]))
    assert found is not None
    (clock,) = found.clocks
    assert clock.lasting > 0
    end, ahead = N_ROWS - 1, N_ROWS - 1 + N_ROWS // 10
    gone = clock.phase(time[[end, ahead]])
    error = abs((gone[1] - gone[0]) - (phase[ahead] - phase[end]))
    mean_pace = (phase[end] - phase[0]) / (time[end] - time[0]) * 0.1
    assert error < max(0.3, abs(mean_pace - (phase[ahead] - phase[end])))


def test_beyond_the_rows_the_phase_is_uncertain() -> None:
    time, value, _ = wandering(1, 0.3)
    found = find_cycle((time, value))
    assert found is not None
    (clock,) = found.clocks
    columns = clock.columns(np.array([0.5, 1.1, 1.4]))
    std = np.sqrt(np.einsum("ni,ij,nj->n", columns, clock.covariance, columns))
    assert std[0] < 0.1 < std[1] < std[2]


def test_two_clocks_and_their_product_are_found() -> None:
    """A pulse whose amplitude follows a slow cycle that another output shows."""
    time = np.linspace(0, 1, 600)
    rng = np.random.default_rng(0)
    fast, slow = 2 * np.pi * 21.3 * time, 2 * np.pi * 3.4 * time
    pulse = (1 + 0.4 * np.cos(slow + 1)) * np.cos(fast) + 0.3 * np.cos(2 * fast)
    noise = 0.05 * rng.normal(size=(2, 600))
    outputs = [standardised(pulse) + noise[0], standardised(np.cos(slow)) + noise[1]]
    found = find_cycles([(time, value) for value in outputs])
    assert found is not None
    pace = [clock.weight[-1] / (2 * np.pi) for clock in found.clocks if not clock.is_drift]
    np.testing.assert_allclose(sorted(pace), [3.4, 21.3], rtol=0.02)
    fast_clock = int(np.argmax([clock.weight[-1] for clock in found.clocks]))
    orders = {tuple(order) for order in np.abs(found.shapes[0].orders).tolist()}
    product = [0, 0, 0]
    product[fast_clock] = product[1 - fast_clock] = 1
    assert tuple(product) in orders
    assert found.noise[0].std() < 0.1


def test_outputs_of_one_cycle_share_a_clock() -> None:
    time, value, phase = wandering(0, 0.3)
    rng = np.random.default_rng(5)
    other = standardised(np.sin(phase + 1) + 0.3 * rng.normal(size=N_ROWS))
    found = find_cycles([(time, value), (time, other)])
    assert found is not None
    assert sum(not clock.is_drift for clock in found.clocks) == 1


@pytest.mark.parametrize("n_rows", [0, 2, 10, 100])
def test_a_slope_is_no_cycle(n_rows: int) -> None:
    time = np.linspace(0, 1, n_rows)
    assert find_cycle((time, 5 * time)) is None


def test_noise_is_no_cycle() -> None:
    rng = np.random.default_rng(0)
    assert find_cycle((np.linspace(0, 1, 300), rng.normal(size=300))) is None


def test_fundamentals_leave_enough_rows_to_a_cycle() -> None:
    time, value, _ = wandering(0, 0.0)
    assert max(fundamentals((time, value))) <= 2 * np.pi / (6 * time[1])
    assert fundamentals((time[:10], value[:10])) == []
