"""Outputs that share forces, against a dense Gaussian process that shares no code with them."""

import numpy as np
import pytest

from deeplfm.statespace.config import SeasonConfig, StateSpaceConfig
from deeplfm.statespace.evidence import Evidence
from deeplfm.statespace.forces import Forces
from deeplfm.statespace.parameters import Layout
from deeplfm.statespace.solved import Known, Solved

FREQUENCY, STEP, BEGIN = 25.0, 1 / 40, 0.1
SEASON = SeasonConfig("season", (FREQUENCY, 2 * FREQUENCY), (1, 2), 1)
N_OUTPUTS = 3
FORCES = (0.0, FREQUENCY)


def config(**options):
    return StateSpaceConfig(1, BEGIN, STEP, 1.0, **{"n_draws": 2, **options})


def record(seed=0):
    """Rows of each output: other times, weights, and two rows of one time."""
    rng = np.random.default_rng(seed)
    known = []
    for d in range(N_OUTPUTS):
        time = BEGIN + np.sort(rng.choice(40, 20 + d, replace=False)) * STEP
        time[0], time[7] = BEGIN, time[6]
        y = np.sin(FREQUENCY * time + d) + 0.3 * rng.normal(size=len(time)).cumsum()
        known.append(
            Known(time[:, None], y, rng.choice([1.0, 2.0], len(time)), np.zeros(len(time)))
        )
    return known


def draw_parameters(settings, seed=2):
    layout, rng = Layout(settings), np.random.default_rng(seed)
    return [layout.prior[0] + 0.3 * rng.normal(size=len(layout.names)) for _ in range(N_OUTPUTS)]


def draw_forces(seed=3):
    rng = np.random.default_rng(seed)
    return Forces(np.array([9.0, 2.0]), np.array(FORCES), rng.normal(size=(N_OUTPUTS, 2, 2)))


def own_kernel(settings, parameters, time, later):
    value = dict(zip(Layout(settings).names, np.exp(parameters), strict=True))
    time, later = time - BEGIN, later - BEGIN
    apart = time[:, None] - later[None]
    total = 25.0 + value["slope"] ** 2 * np.outer(time - 0.5, later - 0.5)
    total += value["level"] ** 2 / STEP * (np.minimum.outer(time, later) + 1e-6 * STEP)
    total += value["reversion"] ** 2 * np.exp(-value["rate"] / STEP * np.abs(apart))
    if settings.has_damped_level:  # twice the integral of the velocity's covariance
        rate, size = value["damping"] / STEP, (value["velocity"] / STEP) ** 2
        since, until = time[:, None], later[None]
        double = 2 * rate * np.minimum(since, until) - 1 + np.exp(-rate * since)
        double = double + np.exp(-rate * until) - np.exp(-rate * np.abs(apart))
        total += size * (double / rate**2 + 1e-6 * STEP**2)
    for season in settings.seasons:
        orders = np.array(season.orders, dtype=float)
        share = orders ** (-2 * value["power"]) / (orders ** (-2 * value["power"])).sum()
        for k, frequency in enumerate(season.frequencies):
            size = value["season season"] ** 2 * share[k] * np.cos(frequency * apart)
            total += size
            if k < season.n_evolving:
                rate = value["forgetting"] * FREQUENCY / (2 * np.pi)
                total += size * value["evolution"] ** 2 * np.exp(-rate * np.abs(apart))
    return total


def shared_kernel(forces, d, e, time, later):
    """Covariance of the responses of two outputs, from impulse responses and by complex amplitudes."""
    apart = time[:, None] - later[None]
    reach = forces.rate[0] * np.abs(apart)
    decay = np.exp(-reach)
    # u1 is white noise through 1/(s+r), u2 through r/(s+r)^2, both times sqrt(2r)
    ahead = (
        0.5 * decay * (1 + np.where(apart > 0, 2 * reach, 0))
    )  # cov(u2(t), u1(t')), t - t' = apart
    behind = 0.5 * decay * (1 + np.where(apart < 0, 2 * reach, 0))
    both = 0.5 * decay * (1 + reach)
    a, b = forces.loadings[d, 0], forces.loadings[e, 0]
    low = a[0] * b[0] * decay + a[1] * b[0] * ahead + a[0] * b[1] * behind + a[1] * b[1] * both
    one, other = (complex(*forces.loadings[i, 1]) for i in (d, e))
    phase = FREQUENCY * (time[:, None] - later[None])
    wave = np.real(one.conjugate() * other * np.exp(1j * phase))
    return low + wave * np.exp(-forces.rate[1] * np.abs(apart))


def dense(settings, parameters, forces, times, others):
    return np.block(
        [
            [
                shared_kernel(forces, d, e, time, later)
                + (own_kernel(settings, parameters[d], time, later) if d == e else 0.0)
                for e, later in enumerate(others)
            ]
            for d, time in enumerate(times)
        ]
    )


def stacked(settings, parameters, forces, known):
    times = [item.x[:, 0] for item in known]
    covariance = dense(settings, parameters, forces, times, times)
    noise = [np.exp(2 * p[0]) / item.weight for p, item in zip(parameters, known, strict=True)]
    return covariance + np.diag(np.concatenate(noise)), np.concatenate([k.y for k in known])


def dense_evidence(settings, parameters, forces, known):
    covariance, y = stacked(settings, parameters, forces, known)
    square = y @ np.linalg.solve(covariance, y)
    return -0.5 * (square + np.linalg.slogdet(covariance)[1] + len(y) * np.log(2 * np.pi))


@pytest.mark.parametrize("has_damped_level", [False, True])
def test_evidence_is_that_of_a_dense_gaussian_process(has_damped_level):
    settings = config(seasons=(SEASON,), has_damped_level=has_damped_level)
    known, forces = record(), draw_forces()
    parameters = draw_parameters(settings)
    solved = Solved.of([settings] * N_OUTPUTS, known, parameters, known[0].x, forces)
    assert solved.log_evidence == pytest.approx(
        dense_evidence(settings, parameters, forces, known), abs=1e-6
    )


def test_prediction_is_that_of_a_dense_gaussian_process():
    settings, known, forces = config(seasons=(SEASON,)), record(), draw_forces()
    parameters = draw_parameters(settings)
    time = np.array([BEGIN, BEGIN + 5 * STEP, BEGIN + 5.5 * STEP, 1.5])
    solved = Solved.of([settings] * N_OUTPUTS, known, parameters, time[:, None], forces)
    covariance, y = stacked(settings, parameters, forces, known)
    times = [item.x[:, 0] for item in known]
    for d in range(N_OUTPUTS):
        rows = [time if e == d else time[:0] for e in range(N_OUTPUTS)]
        cross = dense(settings, parameters, forces, rows, times)
        own = np.diag(dense(settings, parameters, forces, rows, rows))
        mean, variance = solved.moments(d)
        np.testing.assert_allclose(mean, cross @ np.linalg.solve(covariance, y), atol=1e-6)
        expected = own - np.einsum("nk,kn->n", cross, np.linalg.solve(covariance, cross.T))
        np.testing.assert_allclose(variance, expected, rtol=1e-5, atol=1e-7)


def test_components_add_up_and_draws_have_the_moments():
    settings, known, forces = config(seasons=(SEASON,)), record(), draw_forces()
    parameters = draw_parameters(settings)
    time = np.array([0.4, 1.5])
    solved = Solved.of([settings] * N_OUTPUTS, known, parameters, time[:, None], forces)
    drawn = solved.draw(20_000, np.random.default_rng(0))
    for d in range(N_OUTPUTS):
        mean, variance = solved.moments(d)
        parts = [
            solved.moments(d, name)[0] for name in ("trend", "level", "season", "shared forces")
        ]
        np.testing.assert_allclose(sum(parts), mean, atol=1e-9)
        np.testing.assert_allclose(
            drawn[..., d].mean(0), mean, atol=5 * np.sqrt(variance.max() / 2e4)
        )
        np.testing.assert_allclose(drawn[..., d].var(0), variance, rtol=0.05)  # 5 standard errors


@pytest.mark.parametrize("has_damped_level", [False, True])
@pytest.mark.parametrize("frequency", [(0.0,), FORCES])
def test_gradient_is_that_of_finite_differences(frequency, has_damped_level):
    settings, known = config(has_damped_level=has_damped_level), record()
    evidence = Evidence([settings] * N_OUTPUTS, known, frequency)
    rng = np.random.default_rng(5)
    mean, spread = evidence.layout.prior()
    parameters = mean + 0.5 * spread * rng.normal(size=len(mean))
    _, gradient = evidence(parameters)
    by_differences = [
        (evidence(parameters + 1e-5 * one)[0] - evidence(parameters - 1e-5 * one)[0]) / 2e-5
        for one in np.eye(len(mean))
    ]
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-4, atol=1e-4)
