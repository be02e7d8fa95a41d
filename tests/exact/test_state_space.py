"""Sums in state-space form against dense Gaussian processes, which share no code with them."""

import numpy as np
import pytest

from deeplfm import DeepLFMRegressor
from deeplfm.statespace.config import SeasonConfig, StateSpaceConfig
from deeplfm.statespace.evidence import Evidence
from deeplfm.statespace.parameters import Layout
from deeplfm.statespace.solved import Known, Solved

FREQUENCY = 2 * np.pi * 80 / 12


def config(n_inputs=1, **options):
    season = SeasonConfig("season", tuple(FREQUENCY * k for k in (1, 2, 3)), (1, 2, 3), 2)
    longer = SeasonConfig("season 2", (FREQUENCY / 3,), (1,), 0)
    return StateSpaceConfig(
        n_inputs, 0.1, 1 / 80, 1.0, **{"seasons": (season, longer), "n_draws": 2, **options}
    )


def record(n_inputs=1, n_rows=50, error=0.0):
    rng = np.random.default_rng(1)
    time = 0.1 + np.sort(rng.choice(80, n_rows, replace=False)) / 80  # with gaps
    time[7] = time[6]  # two rows of one time
    x = np.column_stack([time, *rng.normal(size=(n_inputs - 1, n_rows))])
    y = np.sin(FREQUENCY * time) + 0.2 * rng.normal(size=n_rows).cumsum()
    return Known(x, y, rng.choice([1.0, 2.0], n_rows), error * rng.chisquare(1, n_rows))


def draw_parameters(settings):
    layout = Layout(settings)
    return layout.prior[0] + 0.3 * np.random.default_rng(2).normal(size=len(layout.names))


def dense_covariance(settings, parameters, x, other):
    """Covariance of the function at two sets of rows, written down from the kernels of the terms."""
    value = dict(zip(Layout(settings).names, np.exp(parameters), strict=True))
    time, later = x[:, 0] - 0.1, other[:, 0] - 0.1
    apart = time[:, None] - later[None]
    total = np.full(apart.shape, 25.0)
    if settings.has_slope:
        total += value["slope"] ** 2 * np.outer(time - 0.5, later - 0.5)
    if settings.has_level:
        typical = np.median(np.diff(np.unique(record(settings.n_inputs).x[:, 0])))
        common = np.minimum.outer(time, later) - (record(settings.n_inputs).x[0, 0] - 0.1)
        total += value["level"] ** 2 * 80 * (common + 1e-6 * typical)
    if (
        settings.has_damped_level
    ):  # ∫∫ of the covariance of the velocity, and of its level at the start
        begin = record(settings.n_inputs).x[0, 0] - 0.1
        rate, size = value["damping"] * 80, (value["velocity"] * 80) ** 2
        typical = np.median(np.diff(np.unique(record(settings.n_inputs).x[:, 0])))
        since, until = np.meshgrid(time - begin, later - begin, indexing="ij")
        total += size * (
            1e-6 * typical**2
            + (
                2 * rate * np.minimum(since, until)
                - 1
                + np.exp(-rate * since)
                + np.exp(-rate * until)
                - np.exp(-rate * np.abs(apart))
            )
            / rate**2
        )
    if settings.has_reversion:
        total += value["reversion"] ** 2 * np.exp(-value["rate"] * 80 * np.abs(apart))
    for season in settings.seasons:
        orders = np.array(season.orders, dtype=float)
        share = orders ** (-2 * value["power"])
        share /= share.sum()
        for k, frequency in enumerate(season.frequencies):
            size = value[f"season {season.name}"] ** 2 * share[k] * np.cos(frequency * apart)
            total += size
            if k < season.n_evolving:
                rate = value["forgetting"] * season.frequencies[0] / (2 * np.pi)
                total += size * value["evolution"] ** 2 * np.exp(-rate * np.abs(apart))
    if settings.n_inputs > 1:
        n_beside = settings.n_others + settings.n_memory
        names = ["covariate"] * (settings.n_inputs - 1 - n_beside)
        names += ["others"] * settings.n_others + ["memory"] * settings.n_memory
        sizes = np.array([value[name] for name in names]) ** 2
        total += x[:, 1:] * sizes @ other[:, 1:].T
    return total


def dense_evidence(settings, parameters, known):
    noise = (np.exp(2 * parameters[0]) + known.error) / known.weight
    covariance = dense_covariance(settings, parameters, known.x, known.x) + np.diag(noise)
    log_determinant = np.linalg.slogdet(covariance)[1]
    square = known.y @ np.linalg.solve(covariance, known.y)
    return -0.5 * (square + log_determinant + len(known.y) * np.log(2 * np.pi))


CASES = [
    config(),
    config(2),
    config(has_level=False),
    config(has_reversion=False, has_slope=False),
    config(seasons=()),
    config(has_level=False, has_reversion=False),
    config(has_damped_level=True),
    config(2, has_level=False, has_reversion=False, has_damped_level=True),
    config(5, n_others=1, n_memory=2, has_level=False),
    config(seasons=(), has_level=False, has_reversion=False, has_damped_level=True),
]


@pytest.mark.parametrize("settings", CASES)
@pytest.mark.parametrize("error", [0.0, 0.1])
def test_evidence_is_that_of_a_dense_gaussian_process(settings, error):
    known, parameters = record(settings.n_inputs, error=error), draw_parameters(settings)
    value, _ = Evidence([settings], [known])(parameters)
    assert value == pytest.approx(dense_evidence(settings, parameters, known), abs=1e-7)


@pytest.mark.parametrize("settings", CASES)
@pytest.mark.parametrize("error", [0.0, 0.1])
def test_gradient_is_that_of_finite_differences(settings, error):
    known, parameters = record(settings.n_inputs, error=error), draw_parameters(settings)
    _, gradient = Evidence([settings], [known])(parameters)
    by_differences = [
        (
            dense_evidence(settings, parameters + 1e-5 * one, known)
            - dense_evidence(settings, parameters - 1e-5 * one, known)
        )
        / 2e-5
        for one in np.eye(len(parameters))
    ]
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", CASES)
@pytest.mark.parametrize("error", [0.0, 0.1])
def test_prediction_is_that_of_a_dense_gaussian_process(settings, error):
    known, parameters = record(settings.n_inputs, error=error), draw_parameters(settings)
    rng = np.random.default_rng(3)
    time = np.concatenate([known.x[:3, 0], [0.513, 1.2, 1.1]])  # known times, a gap, after the end
    x = np.column_stack([time, *rng.normal(size=(settings.n_inputs - 1, 6))])
    mean, variance = Solved.of([settings], [known], [parameters], x).moments()
    covariance = dense_covariance(settings, parameters, known.x, known.x)
    covariance += np.diag((np.exp(2 * parameters[0]) + known.error) / known.weight)
    cross = dense_covariance(settings, parameters, x, known.x)
    own = np.diag(dense_covariance(settings, parameters, x, x))
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(covariance, known.y), atol=1e-7)
    expected = own - np.einsum("nk,kn->n", cross, np.linalg.solve(covariance, cross.T))
    np.testing.assert_allclose(variance, expected, rtol=1e-5, atol=1e-8)


def test_components_add_up_and_draws_have_the_moments_of_the_prediction():
    settings, known = config(2), record(2)
    parameters = draw_parameters(settings)
    x = np.column_stack([np.linspace(0.2, 1.3, 9), np.ones(9)])
    solved = Solved.of([settings], [known], [parameters], x)
    mean, variance = solved.moments()
    parts = [
        solved.moments(0, name)[0]
        for name in ("trend", "level", "season", "season 2", "covariates")
    ]
    np.testing.assert_allclose(sum(parts), mean, atol=1e-10)
    drawn = solved.draw(20_000, np.random.default_rng(0))[..., 0]
    # 5 standard errors for each of 18 numbers: fails by chance once in 100 000 runs of another seed
    np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 5 * np.sqrt(variance / 20_000))
    np.testing.assert_allclose(drawn.var(0), variance, rtol=5 * np.sqrt(2 / 20_000))


def test_rows_without_noise_are_predicted():
    # rounding is more than the prior then, and no factor of the precision of the weights exists
    settings = config(2, seasons=(), has_reversion=False)
    rng = np.random.default_rng(4)
    x = np.column_stack([0.1 + np.arange(700) / 80, rng.normal(size=700)])
    known = Known(x, 3 * x[:, 1], np.ones(700), np.zeros(700))
    value = {"noise": 1e-8, "slope": 0.4, "level": 0.1, "covariate": 1e3}
    parameters = np.log([value[name] for name in Layout(settings).names])
    mean, variance = Solved.of([settings], [known], [parameters], x).moments()
    np.testing.assert_allclose(mean, known.y, atol=1e-2)
    assert (variance < 1e-4).all()


@pytest.mark.parametrize("apart", [1e-9, 1e-5, 5e-4])
@pytest.mark.parametrize("gap", [1.0, 1e5])
def test_times_that_nearly_agree_and_long_gaps_are_solved(apart: float, gap: float) -> None:
    """The precision of a short step, δ⁻³, must not hide that of the others in its rounding."""
    rng = np.random.default_rng(0)
    time = np.arange(60.0)
    time[30:] += gap
    value = np.sin(time) + 0.1 * rng.normal(size=60)
    near = np.concatenate([time, time[5:50:5] + apart])
    model = DeepLFMRegressor("trend + level(damped) + reversion", effort="fast")
    model.fit(near[:, None], np.concatenate([value, value[5:50:5]]))
    asked = np.concatenate([time, time + apart])[:, None]
    mean, std = model.predict(asked, return_std=True)
    assert np.allclose(mean[:60], mean[60:], atol=0.05)
    assert (std > 0).all()
