"""The exact GP against closed-form regression in numpy, at the hyper-parameters it learned."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from deeplfm.baselines.exact_gp import ExactGP
from deeplfm.errors import InputError, TrainingDivergedError

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 5, 40))[:, None]
Y = 7 + 3 * np.sin(2 * X) + 0.3 * RNG.normal(size=X.shape)
NEW = np.linspace(-1, 7, 12)[:, None]


def closed_form(gp, x, y, new, output=0):
    """Mean, covariance of the function and noise variance, in the units of y."""
    model = gp.models_[output]
    lengthscale = model.covar_module.base_kernel.lengthscale.item()
    scale, noise = model.covar_module.outputscale.item(), model.likelihood.noise.item()
    constant = model.mean_module.constant.item()
    centre, spread = x.mean(0), x.std(0)
    known = ~np.isnan(y)
    level, size = y[known].mean(), y[known].std()

    def kernel(a, b):
        squares = ((((a - centre) / spread)[:, None] - ((b - centre) / spread)[None]) ** 2).sum(-1)
        return scale * np.exp(-0.5 * squares / lengthscale**2)

    x, y = x[known], (y[known] - level) / size
    gram = kernel(x, x) + noise * np.eye(len(x))
    cross = kernel(new, x)
    mean = constant + cross @ np.linalg.solve(gram, y - constant)
    covariance = kernel(new, new) - cross @ np.linalg.solve(gram, cross.T)
    return level + size * mean, size**2 * covariance, size**2 * noise


@pytest.fixture(scope="module")
def fitted():
    return ExactGP().fit(X, Y)


def test_posterior_is_the_closed_form(fitted):
    posterior = fitted.posterior(NEW)
    mean, covariance, noise = closed_form(fitted, X, Y[:, 0], NEW)
    assert posterior.mean.dtype == torch.float64
    np.testing.assert_allclose(posterior.mean[:, 0], mean, atol=1e-7)
    np.testing.assert_allclose(
        posterior.variance(latent=True)[:, 0], np.diag(covariance), atol=1e-7
    )
    np.testing.assert_allclose(posterior.variance()[:, 0], np.diag(covariance) + noise, atol=1e-7)


def test_draws_are_whole_functions_of_the_joint_posterior(fitted):
    n = 20_000
    draws = fitted.posterior(NEW).sample(n, latent=True)[..., 0].numpy()
    mean, covariance, _ = closed_form(fitted, X, Y[:, 0], NEW)
    variance = np.diag(covariance)
    assert np.abs((draws.mean(0) - mean) / np.sqrt(variance / n)).max() < 5
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    assert np.abs((np.cov(draws.T) - covariance) / error).max() < 5


def test_draws_are_repeatable(fitted):
    posterior = fitted.posterior(NEW)
    assert torch.equal(posterior.sample(2, seed=1), posterior.sample(2, seed=1))
    assert not torch.equal(posterior.sample(2, seed=1), posterior.sample(2, seed=2))


def test_hyper_parameters_are_at_a_maximum_of_the_marginal_likelihood(fitted):
    """No other lengthscale or noise nearby does better."""
    gp = fitted

    def log_marginal(d_lengthscale, d_noise):
        model = gp.models_[0]
        lengthscale = model.covar_module.base_kernel.lengthscale.item() * np.exp(d_lengthscale)
        noise = model.likelihood.noise.item() * np.exp(d_noise)
        x, y = (X - X.mean(0)) / X.std(0), (Y[:, 0] - Y.mean()) / Y.std()
        squares = (x - x.T) ** 2 / lengthscale**2
        scale = model.covar_module.outputscale.item()
        gram = scale * np.exp(-0.5 * squares) + noise * np.eye(len(x))
        y = y - model.mean_module.constant.item()
        return -0.5 * (y @ np.linalg.solve(gram, y) + np.linalg.slogdet(gram)[1])

    best = log_marginal(0, 0)
    assert all(best > log_marginal(a, b) for a in (-0.1, 0, 0.1) for b in (-0.1, 0, 0.1) if a or b)


def test_learned_noise_is_near_the_truth(fitted):
    noise_std = fitted.posterior(NEW).component_noise.sqrt().mean().item()
    assert noise_std == pytest.approx(0.3, rel=0.35)


def test_outputs_are_independent_and_missing_targets_left_out(fitted):
    hole = Y[:, 0].copy()
    hole[5:15] = np.nan
    both = ExactGP().fit(X, np.column_stack([Y[:, 0], hole]))
    posterior = both.posterior(NEW)
    np.testing.assert_allclose(posterior.mean[:, 0], fitted.posterior(NEW).mean[:, 0])
    mean, covariance, _ = closed_form(both, X, hole, NEW, output=1)
    np.testing.assert_allclose(posterior.mean[:, 1], mean, atol=1e-7)
    np.testing.assert_allclose(
        posterior.variance(latent=True)[:, 1], np.diag(covariance), atol=1e-7
    )
    assert posterior.sample(3).shape == (3, len(NEW), 2)


def test_several_inputs_and_a_flat_target():
    x = RNG.normal(size=(30, 2))
    y = np.column_stack([x[:, 0] * x[:, 1], np.zeros(30)])
    gp = ExactGP(n_steps=20).fit(x, y)
    new = RNG.normal(size=(5, 2))
    mean, *_ = closed_form(gp, x, y[:, 0], new)
    posterior = gp.posterior(new)
    np.testing.assert_allclose(posterior.mean[:, 0], mean, atol=1e-6)
    assert posterior.mean[:, 1].abs().max() < 1e-3


def test_more_rows_than_a_block_and_prediction_at_training_rows():
    gp = ExactGP(n_steps=10).fit(X, Y[:, 0])
    many = np.linspace(0, 5, 1500)[:, None]
    posterior = gp.posterior(many)
    alone = gp.posterior(many[[3, 1200]])
    torch.testing.assert_close(posterior.mean[[3, 1200]], alone.mean)
    assert (gp.posterior(X).mean.numpy() - Y).std() < 0.4


def test_exact_where_gpytorch_would_iterate():
    """Past 800 rows GPyTorch turns to conjugate gradients, and past that to noisy determinants."""
    x = np.linspace(0, 20, 900)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=900)
    gp = ExactGP(n_steps=1).fit(x, y)
    mean, covariance, _ = closed_form(gp, x, y, NEW)
    posterior = gp.posterior(NEW)
    np.testing.assert_allclose(posterior.mean[:, 0], mean, atol=1e-6)
    np.testing.assert_allclose(posterior.variance(True)[:, 0], np.diag(covariance), atol=1e-6)


def test_predictions_have_the_shape_of_the_targets(fitted):
    np.testing.assert_array_equal(fitted.predict(NEW), fitted.posterior(NEW).mean)
    vector = ExactGP(n_steps=10).fit(X[:, 0], Y[:, 0])
    assert vector.predict(NEW[:, 0]).shape == (len(NEW),)
    assert vector.score(X, Y[:, 0]) > 0.9


def test_same_seed_same_fit(fitted):
    again = ExactGP().fit(X, Y).posterior(NEW)
    assert torch.equal(again.mean, fitted.posterior(NEW).mean)


def test_parameters_are_those_of_a_scikit_learn_estimator():
    assert ExactGP(n_steps=3).get_params() == {
        "n_steps": 3,
        "time_limit": None,
        "random_state": 0,
    }


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, Y[:-1], "39 rows"),
        (np.where(X == X[3], np.nan, X), Y, "X: 1 values"),
        (X, np.where(Y == Y[3], np.inf, Y), "y: 1 values"),
        (X, np.column_stack([Y, np.full(len(Y), np.nan)]), "column 1 has 0 known"),
        (np.zeros((10_001, 1)), np.zeros(10_001), "10001 rows.*Thin"),
    ],
)
def test_bad_data_are_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        ExactGP().fit(x, y)


def test_bad_rows_to_predict_are_refused(fitted):
    with pytest.raises(NotFittedError):
        ExactGP().posterior(X)
    for rows, message in (np.hstack([X, X]), "X has 2 features"), (X * np.nan, "X: 40 values"):
        with pytest.raises(InputError, match=message):
            fitted.posterior(rows)


def test_outputs_share_the_time(monkeypatch):
    limits = []

    def fit_from(starts, loss, n_steps, owner, time_limit):
        limits.append(time_limit)
        return starts[0]

    monkeypatch.setattr("deeplfm.baselines.exact_gp.fit_from", fit_from)
    ExactGP(time_limit=6.0).fit(X, np.column_stack([Y, Y, Y])[:, :3])
    assert limits == [2.0, 2.0, 2.0]


def test_failure_of_every_candidate_is_reported(monkeypatch):
    monkeypatch.setattr("deeplfm.baselines.evidence.minimise", lambda *_: float("nan"))
    with pytest.raises(TrainingDivergedError, match=r"ExactGP.fit: .* any of 4 starts"):
        ExactGP().fit(X, Y)
