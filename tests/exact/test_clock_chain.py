"""Knots, whitening and the bordered solution against dense covariances that share none of the code."""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

from deeplfm.statespace.phase_solve import (
    Grid,
    Priors,
    State,
    border_prior,
    linearise,
    solve,
    whitening,
)
from deeplfm.statespace.phases import Clock, Knots, Series, Shape, Smooth

CLOCK = Clock(frequency=2.1, std=0.05, lasting=4.0)
OTHER = Clock(frequency=0.6, std=0.02, lasting=9.0)


def shape(orders: list[list[int]], n_clocks: int, **changed: float) -> Shape:
    numbers = {"noise": 0.04, "colour": 0.3, "level": 0.2, "lasting": 2.0, "damping": 0.6}
    numbers |= {"amplitude": 0.05, "amplitude_lasting": 3.0}
    count = len(orders)
    return Shape(
        np.array(orders, dtype=np.int64).reshape(count, n_clocks),
        np.linspace(1.0, 0.3, count),
        **numbers | changed,
    )


def wave_kernel(lag: np.ndarray, law: Smooth) -> np.ndarray:
    """Covariance of a damped oscillator driven by white noise, from its textbook form."""
    natural = 1 / law.lasting
    if law.damping == 1:
        return law.variance * (1 + natural * abs(lag)) * np.exp(-natural * abs(lag))
    decay, turn = law.damping * natural, natural * np.sqrt(1 - law.damping**2)
    wave = np.cos(turn * lag) + decay / turn * np.sin(turn * abs(lag))
    return law.variance * np.exp(-decay * abs(lag)) * wave


def phase_covariance(first: float, second: float, clock: Clock) -> float:
    """Covariance of two integrals from zero of the rate, by quadrature."""
    variance = (clock.std * clock.frequency) ** 2
    if first == 0 or second == 0:
        return 0.0
    both, _ = dblquad(
        lambda a, b: variance * np.exp(-abs(a - b) / clock.lasting), 0, second, 0, first
    )
    return both


def dense_states(knots: Knots, jumps: np.ndarray) -> np.ndarray:
    """Covariance of all states as the inverse of their precision."""
    return np.linalg.inv(knots.prior(jumps)[0].toarray())


def of(knots: Knots, covariance: np.ndarray, process: int) -> np.ndarray:
    return covariance[2 * process :: knots.size, 2 * process :: knots.size]


@pytest.mark.parametrize("damping", [1.0, 0.6, 0.05])
def test_levels_at_knots_have_the_kernel_of_their_oscillator(damping: float) -> None:
    knots = Knots(1.0, 0.7, 12, (CLOCK,), (shape([], 1, damping=damping),))
    found = of(knots, dense_states(knots, np.full((11, 1), 1e-6)), 1)
    lag = np.subtract.outer(knots.time, knots.time)
    np.testing.assert_allclose(found, wave_kernel(lag, Smooth(2.0, 0.2, damping)), atol=1e-9)


def test_phases_at_knots_are_integrals_of_their_rate() -> None:
    knots = Knots(0.0, 0.7, 6, (CLOCK,), (shape([], 1),))
    found = of(knots, dense_states(knots, np.zeros((5, 1))), 0)
    wanted = [[phase_covariance(s, t, CLOCK) for s in knots.time] for t in knots.time]
    np.testing.assert_allclose(found, np.array(wanted) + 1e-4, rtol=1e-5)


def test_amplitudes_are_matern_processes_that_are_known_to_be_one_at_the_end() -> None:
    knots = Knots(1.0, 0.7, 12, (CLOCK,), (shape([], 1),))
    found = of(knots, dense_states(knots, np.full((11, 1), 1e-6)), 2)
    kernel = wave_kernel(np.subtract.outer(knots.time, knots.time), Smooth(3.0, 0.05, 1.0))
    wanted = kernel - np.outer(kernel[-1], kernel[-1]) / (kernel[-1, -1] + 1e-4)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_determinant_of_the_prior() -> None:
    knots = Knots(0.0, 0.7, 6, (CLOCK, OTHER), (shape([], 2),))
    precision, log_determinant = knots.prior(np.full((5, 2), 0.01))
    assert log_determinant == pytest.approx(np.linalg.slogdet(precision.toarray())[1])


def test_between_knots_a_process_is_at_its_conditional_mean() -> None:
    """Given knots on both sides nothing else matters: regression on all of them is the same."""
    law, knots = Smooth(2.0, 0.2, 0.6), Knots(0.0, 0.7, 8, (CLOCK,), (shape([], 1),))
    covariance = dense_states(knots, np.full((7, 1), 1e-6))
    time = np.array([0.0, 0.31, 2.8, 4.2])
    lag = np.subtract.outer(time, knots.time)
    step = 1e-5
    cross = np.zeros((len(time), covariance.shape[0]))
    cross[:, 2 :: knots.size] = wave_kernel(lag, law)
    slope = wave_kernel(lag - step, law) - wave_kernel(lag + step, law)
    cross[:, 3 :: knots.size] = slope / (2 * step)
    wanted = cross @ np.linalg.inv(covariance)
    np.testing.assert_allclose(knots.columns(time, 1).toarray(), wanted, atol=1e-4)


def test_whitened_noise_is_white() -> None:
    time = np.cumsum(np.random.default_rng(0).uniform(0.1, 1.0, 9))
    matrix, log_determinant = whitening(np.diff(time), 0.8)
    covariance = np.exp(-abs(np.subtract.outer(time, time)) / 0.8)
    np.testing.assert_allclose(matrix @ covariance @ matrix.T.toarray(), np.eye(9), atol=1e-12)
    assert log_determinant == pytest.approx(np.linalg.slogdet(covariance)[1])


def problem() -> tuple[Grid, Priors, State]:
    """Two outputs with gaps and weights, two clocks, products of them."""
    rng = np.random.default_rng(1)
    times = [np.linspace(0.1, 8.9, 40) + rng.uniform(-0.1, 0.1, 40), np.sort(rng.uniform(1, 8, 25))]
    series = [Series(t, rng.normal(size=len(t)), rng.uniform(0.5, 2, len(t))) for t in times]
    shapes = (
        shape([[1, 0], [2, 0], [1, 1], [1, -1]], 2),
        shape([[0, 1], [1, 0]], 2, colour=0.0, noise=0.1),
    )
    grid, priors = Grid(series, 0.0, 0.75, 13), Priors((CLOCK, OTHER), shapes)
    knots = 0.05 * rng.normal(size=13 * grid.knots(priors).size)
    weights = tuple(0.5 * rng.normal(size=len(item.prior)) for item in shapes)
    jumps = np.full((12, 2), 1e-4)
    return grid, priors, State(knots, weights, np.array([2.0, 0.63]), jumps)


def predicted(grid: Grid, priors: Priors, state: State) -> np.ndarray:
    """Values of all rows from the definition of the model, one by one."""
    knots, found = grid.knots(priors), []
    for d, (item, form) in enumerate(zip(grid.series, priors.shapes, strict=True)):
        for n, t in enumerate(item.time):
            phi = [
                state.frequency[c] * t + (knots.columns(item.time, c) @ state.knots)[n]
                for c in range(2)
            ]
            a, b = np.split(state.weights[d][:-1], 2)
            angle = form.orders @ phi
            level = (knots.columns(item.time, 2 + 2 * d) @ state.knots)[n]
            amplitude = np.exp((knots.columns(item.time, 3 + 2 * d) @ state.knots)[n])
            season = amplitude * (a @ np.cos(angle) + b @ np.sin(angle))
            found.append(season + state.weights[d][-1] + level)
    return np.array(found)


def test_linearised_values_are_the_derivatives() -> None:
    grid, priors, state = problem()
    local = linearise(grid, priors, state)
    values = np.concatenate([item.value for item in grid.series])
    residual = np.concatenate([item.residual for item in local])
    np.testing.assert_allclose(values - residual, predicted(grid, priors, state), atol=1e-12)
    rng, step = np.random.default_rng(2), 1e-6
    knots = rng.normal(size=len(state.knots))
    weights = [rng.normal(size=len(part)) for part in state.weights]
    frequency = rng.normal(size=2)

    def moved(size: float) -> State:
        parts = tuple(a + size * b for a, b in zip(state.weights, weights, strict=True))
        return State(
            state.knots + size * knots, parts, state.frequency + size * frequency, state.jumps
        )

    ends = [predicted(grid, priors, moved(size)) for size in (step, -step)]
    along = [
        item.by_knots @ knots + item.by_border @ np.append(part, frequency)
        for item, part in zip(local, weights, strict=True)
    ]
    np.testing.assert_allclose(np.concatenate(along), (ends[0] - ends[1]) / (2 * step), atol=1e-7)


def test_bordered_solution_is_the_dense_one() -> None:
    """Mean, covariance of the border and evidence, from one covariance matrix of all values."""
    grid, priors, state = problem()
    local = linearise(grid, priors, state)
    posterior = solve(grid, priors, local, state.jumps)
    expected, precision = border_prior(grid, priors)
    of_knots = dense_states(grid.knots(priors), state.jumps)
    n_first, n_weights = len(local[0].target), [len(item.prior) for item in priors.shapes]
    by_knots = np.vstack([item.by_knots.toarray() for item in local])
    by_border = np.zeros((len(by_knots), len(expected)))
    by_border[:n_first, : n_weights[0]] = local[0].by_border[:, :-2]
    by_border[n_first:, n_weights[0] : -2] = local[1].by_border[:, :-2]
    by_border[:, -2:] = np.vstack([item.by_border[:, -2:] for item in local])
    noise = np.zeros((len(by_knots),) * 2)
    first = grid.series[0]
    lag = abs(np.subtract.outer(first.time, first.time))
    scale = 1 / np.sqrt(first.weight)
    noise[:n_first, :n_first] = 0.04 * np.exp(-lag / 0.3) * np.outer(scale, scale)
    noise[n_first:, n_first:] = np.diag(0.1 / grid.series[1].weight)
    target = np.concatenate([item.target for item in local]) - by_border @ expected
    both = np.hstack([by_knots, by_border])
    prior = np.zeros((both.shape[1],) * 2)
    prior[: len(of_knots), : len(of_knots)] = of_knots
    prior[len(of_knots) :, len(of_knots) :] = np.diag(1 / precision)
    covariance = both @ prior @ both.T + noise
    gain = prior @ both.T @ np.linalg.inv(covariance)
    mean = gain @ target
    np.testing.assert_allclose(posterior.state.knots, mean[: len(of_knots)], atol=1e-8)
    border = np.concatenate([*posterior.state.weights, posterior.state.frequency])
    np.testing.assert_allclose(border, mean[len(of_knots) :] + expected, atol=1e-8)
    left = (prior - gain @ both @ prior)[len(of_knots) :, len(of_knots) :]
    np.testing.assert_allclose(posterior.covariance, left, atol=1e-8)
    wanted = multivariate_normal(np.zeros(len(target)), covariance).logpdf(target)
    assert posterior.evidence == pytest.approx(wanted, abs=1e-6)


def test_noise_is_independent_across_a_gap() -> None:
    grid, priors, state = problem()
    first, second = grid.series
    outside = (first.time < 3) | (first.time > 5)
    series = [Series(*(part[outside] for part in first)), second]
    split = Grid(series, grid.begin, grid.width, grid.count)
    (local, _) = linearise(split, priors, state)
    assert np.isinf(local.steps).sum() == 1
    assert np.isfinite(solve(split, priors, linearise(split, priors, state), state.jumps).evidence)


def test_draws_have_the_posterior_covariance() -> None:
    """5000 draws; the largest of 8 standardised variances is within six standard errors."""
    grid, priors, state = problem()
    posterior = solve(grid, priors, linearise(grid, priors, state), state.jumps)
    border, knots = posterior.draw(np.random.default_rng(0), 5000)
    variance = np.diag(posterior.covariance)
    np.testing.assert_allclose(border.var(axis=1) / variance, 1.0, atol=6 * np.sqrt(2 / 5000))
    unit = np.zeros(len(state.knots))
    unit[8] = 1.0  # one state: Var = (A⁻¹)_ii + Z C Zᵀ
    own = posterior.factor.solve(unit)[8]
    through = posterior.through[8]
    wanted = own + through @ posterior.covariance @ through
    assert knots[8].var() / wanted == pytest.approx(1.0, abs=6 * np.sqrt(2 / 5000))


def test_without_cycles_it_is_a_gaussian_process() -> None:
    """No orders: a level and noise, whose values have a kernel; knots as dense as the rows."""
    time = 0.5 * np.arange(20)
    value = np.sin(time)
    form = shape([], 1, colour=0.0)
    grid = Grid([Series(time, value, np.ones(20))], 0.0, 0.5, 20)
    priors = Priors((CLOCK,), (form,))
    size = grid.knots(priors).size
    zero = State(np.zeros(20 * size), (np.zeros(1),), np.array([2.1]), np.full((19, 1), 1e-6))
    found = solve(grid, priors, linearise(grid, priors, zero), zero.jumps)
    lag = np.subtract.outer(time, time)
    kernel = wave_kernel(lag, Smooth(2.0, 0.2, 0.6)) + 10.0
    wanted = multivariate_normal(np.zeros(20), kernel + 0.04 * np.eye(20)).logpdf(value)
    assert found.evidence == pytest.approx(wanted, abs=1e-6)
