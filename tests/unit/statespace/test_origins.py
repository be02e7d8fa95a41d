"""Forecasts from earlier origins: widths, densities and weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from deeplfm.estimators.by_evidence import _weights
from deeplfm.statespace import Prior, StateSpaceConfig, StateSpaceLFM
from deeplfm.statespace.origins import calibrate
from deeplfm.statespace.parameters import Layout
from deeplfm.statespace.solved import Known

CONFIG = StateSpaceConfig(1, 0.0, 1.0, 239.0, has_slope=False, has_reversion=False)


def random_walk(n_rows=240, step=0.1, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    values = np.cumsum(step * rng.normal(size=n_rows)) + noise * rng.normal(size=n_rows)
    x = np.arange(float(n_rows))[:, None]
    return Known(x, values, np.ones(n_rows), np.zeros(n_rows))


def draws_with(level, noise=0.1):
    names = Layout(CONFIG).names
    value = {"noise": noise, "level": level}
    return np.log([[value[name] for name in names]])


def test_widths_that_are_right_stay_nearly_as_they_are():
    # The scale of each of 40 walks is the root mean square of about 3 independent forecasts, shrunk.
    scales = [calibrate(CONFIG, random_walk(seed=s), draws_with(0.1)).scale for s in range(40)]
    assert 0.85 < np.exp(np.mean(np.log(scales))) < 1.15  # five standard errors of the mean: 0.13


@pytest.mark.parametrize(("level", "low", "high"), [(0.02, 1.4, 5.0), (0.5, 0.25, 0.7)])
def test_widths_that_are_wrong_are_corrected(level, low, high):
    scales = [calibrate(CONFIG, random_walk(seed=s), draws_with(level)).scale for s in range(10)]
    assert low < np.exp(np.mean(np.log(scales))) < high


def test_the_model_that_forecasts_better_has_the_higher_density():
    known = random_walk()
    right, wrong = (calibrate(CONFIG, known, draws_with(0.1, noise)) for noise in (0.1, 3.0))
    assert right.log_density > wrong.log_density + 0.2


def test_few_rows_have_no_origins():
    found = calibrate(CONFIG, random_walk(12), draws_with(0.1))
    assert found.scale == 1.0
    assert np.isnan(found.log_density)


@pytest.mark.parametrize("n_rows", [12, 240])  # without origins, and with
def test_the_prior_widens_forecasts_and_changes_no_density(n_rows):
    known, draws = random_walk(n_rows), draws_with(0.1)
    wider = replace(CONFIG, prior=Prior(widening=1.5))
    alone, found = calibrate(CONFIG, known, draws), calibrate(wider, known, draws)
    assert found.scale == pytest.approx(1.5 * alone.scale)
    np.testing.assert_equal(found.log_density, alone.log_density)


def test_the_density_is_that_of_the_forecasts():
    known, draws = (
        random_walk(16),
        draws_with(0.1),
    )  # origins 15 to 12, three rows ahead
    found = calibrate(CONFIG, known, draws)
    total = 0.0
    for n_before in (15, 14, 13, 12):
        model = StateSpaceLFM([CONFIG.__class__(**vars(CONFIG) | {"n_draws": 1})])
        model.draws[0, 0] = torch.as_tensor(draws[0])
        x, y = torch.as_tensor(known.x), torch.as_tensor(known.y)[:, None]
        model.set_train_data(x[:n_before], y[:n_before])
        prediction = model.posterior(x[n_before : n_before + 3])
        spread = found.scale * prediction.std()[:, 0].numpy()
        after = known.y[n_before : n_before + 3]
        total += norm.logpdf(after, prediction.mean[:, 0].numpy(), spread).mean() / 4
    np.testing.assert_allclose(found.log_density, total, rtol=1e-9)


def test_only_forecasts_are_widened_and_draws_as_much_as_intervals():
    known = random_walk(60)
    model = StateSpaceLFM([CONFIG])
    x, y = torch.as_tensor(known.x), torch.as_tensor(known.y)[:, None]
    model.draws[0] = torch.as_tensor(draws_with(0.1))
    model.set_train_data(x[:50], y[:50])
    before, inside = model.posterior(x[50:]), model.posterior(x[20:30])
    model.forecast_scale.fill_(2.0)
    after = model.posterior(x[50:])
    torch.testing.assert_close(after.std(), 2 * before.std())
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(model.posterior(x[20:30]).std(), inside.std())
    near = torch.linspace(float(x[49]), float(x[50]), 1000)[:, None]
    steps = model.component_moments(near, model.components[0])[1].sqrt().diff(dim=0)
    assert steps.abs().max() < 0.01 * after.std()[0]  # bands of components have no step
    drawn = model.draw(x[50:], 4000, seed=0)
    spread = after.component_variance.mean(0).sqrt()
    assert ((drawn.std(0) / spread - 1).abs() < 0.06).all()  # five standard errors


def test_an_output_without_rows_has_the_distribution_of_the_prior():
    known = random_walk(60)
    model = StateSpaceLFM([CONFIG, CONFIG])
    y = torch.as_tensor(known.y)[:, None] * torch.tensor([1.0, torch.nan])
    model.set_train_data(torch.as_tensor(known.x), y)
    model.fit()
    prior = StateSpaceLFM([CONFIG])
    prior.draws[0] = model.draws[1]
    times = torch.tensor([[10.0], [70.0]], dtype=torch.float64)
    found = model.posterior(times)
    torch.testing.assert_close(found.std()[:, 1:], prior.posterior(times).std())
    assert (found.std()[:, 0] < found.std()[:, 1]).all() and (found.mean[:, 1] == 0).all()
    assert (model.log_evidence[1], model.forecast_scale[1]) == (0, 1)


def test_weights_are_those_of_the_densities_and_equal_where_one_is_missing():
    models = [StateSpaceLFM([CONFIG, CONFIG]) for _ in range(2)]
    for model in models:
        model.n_origins.fill_(2)
    models[0].forecast_density.copy_(torch.tensor([-1.0, torch.nan]))
    models[1].forecast_density.copy_(torch.tensor([-1.0 + np.log(3) / 2, 5.0]))
    torch.testing.assert_close(
        _weights(models), torch.tensor([[0.25, 0.5], [0.75, 0.5]], dtype=torch.float64)
    )


def test_an_uncertain_width_is_spread_over_the_draws():
    """Few origins: draws differ as the posterior of the factor says, and keep the mean square."""
    model = StateSpaceLFM([CONFIG, CONFIG, CONFIG])
    model.forecast_scale[:] = torch.tensor([2.0, 2.0, 2.0])
    model.n_origins[:] = torch.tensor([0, 2, 6])
    factors = model._factors()
    torch.testing.assert_close(factors.square().mean(0).sqrt(), model.forecast_scale)
    log_variance = factors.square().log().std(0, correction=0)
    expected = [0.0, (1 / 0.7**2 + 1) ** -0.5, (1 / 0.7**2 + 3) ** -0.5]
    torch.testing.assert_close(log_variance, torch.tensor(expected, dtype=torch.float64))
