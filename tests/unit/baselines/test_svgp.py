"""The sparse process: exact with enough inducing points, and outputs that tell of each other."""

import numpy as np
import torch

from deeplfm.baselines.exact_gp import ExactGP
from deeplfm.baselines.svgp import SparseGP, _Model
from deeplfm.predictive.mixture import coverage, nmse

RNG = np.random.default_rng(0)
T = np.linspace(0, 10, 60)
FAST = {"n_inducing": 20, "n_steps": 200, "learning_rate": 0.1}


def test_with_enough_inducing_points_it_is_the_exact_process():
    y = np.sin(T) + 0.1 * RNG.normal(size=60)
    sparse = SparseGP(n_inducing=20, n_steps=300, learning_rate=0.1).fit(T, y)
    new = np.linspace(0.5, 9.5, 20)
    exact = ExactGP(n_steps=50).fit(T, y).posterior(new)
    posterior = sparse.posterior(new)
    assert (posterior.mean - exact.mean).abs().max() < 0.05
    assert (posterior.std() / exact.std()).log().abs().max() < 0.2


def test_a_gap_in_one_output_is_filled_by_the_other():
    """Both are the same function, one of them turned over and unseen in the middle."""
    shape = np.sin(T) + np.sin(2.3 * T)
    y = np.column_stack([shape, 5 - 2 * shape]) + 0.05 * RNG.normal(size=(60, 2))
    holed = y.copy()
    holed[20:40, 1] = np.nan
    posterior = SparseGP(n_latents=1, **FAST).fit(T, holed).posterior(T[20:40])
    target = torch.as_tensor(y[20:40])
    assert nmse(posterior.mean, target)[1] < 0.05
    assert coverage(posterior, target)[1] > 0.8
    draws = posterior.sample(4000, latent=True)[:, 10]
    assert torch.corrcoef(draws.T)[0, 1] < -0.9


def test_bound_is_below_the_evidence_and_scales_with_batches():
    x = torch.linspace(-1, 1, 12, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x)
    model = _Model(x[::3], 1, 1, 0.5)
    with torch.no_grad():
        kernel = model.latents.covar_module(x).to_dense()[0] * model.mixing.square()
        gram = kernel + model.noise_variance * torch.eye(12)
        evidence = torch.distributions.MultivariateNormal(torch.zeros(12).double(), gram)
        whole = model.bound(x, y, 12)
        assert whole < evidence.log_prob(y[:, 0])
        parts = [model.bound(x[rows], y[rows], 12) for rows in (slice(0, 6), slice(6, 12))]
        torch.testing.assert_close(sum(parts) / 2, whole)


def test_time_limit_stops_training():
    model = SparseGP(n_inducing=5, n_steps=10**8, time_limit=1.0).fit(T, np.sin(T))
    assert np.isfinite(model.predict(T)).all()
