"""Boosted trees: the density of their errors is the density of errors."""

import numpy as np
import pytest
import torch
from scipy import stats

from deeplfm.baselines.boosting import BoostedTrees, _shares
from deeplfm.errors import ConfigError
from deeplfm.predictive.mixture import coverage, mnll

RNG = np.random.default_rng(0)
QUICK = BoostedTrees(max_iter=60, learning_rate=0.2, n_folds=3)


def test_noise_follows_the_input():
    x = RNG.uniform(-1, 1, (1500, 1))
    size = np.where(x[:, 0] > 0, 1.0, 0.1)
    y = 4 * x[:, 0] + size * RNG.normal(size=1500)
    posterior = QUICK.fit(x[:1000], y[:1000]).posterior(x[1000:])
    std, truth = posterior.std()[:, 0], torch.as_tensor(size[1000:])
    assert (std / truth).log().abs().median() < 0.25
    target = torch.as_tensor(y[1000:, None])
    assert 0.91 < coverage(posterior, target, 0.95).item() < 0.99
    best = -stats.norm(4 * x[1000:, 0], size[1000:]).logpdf(y[1000:]).mean()
    assert mnll(posterior, target).item() < best + 0.15


def test_heavy_tails_are_seen():
    """Errors of a t distribution cost close to its entropy; one Gaussian would cost far more."""
    z = stats.t(2.5).rvs(20_000, random_state=0)
    share = _shares(z[:10_000] ** 2)
    np.testing.assert_allclose(share.sum(), 1)
    widths = np.geomspace(0.2, 5.0, 9)
    density = stats.norm(0, widths).pdf(z[10_000:, None]) @ share
    cost = -np.log(density).mean()
    assert cost < stats.t(2.5).entropy() + 0.05
    assert cost < -stats.norm(0, z[:10_000].std()).logpdf(z[10_000:]).mean() - 0.15


def test_a_handful_of_rows_is_enough_to_predict():
    x = np.arange(5.0)
    posterior = QUICK.fit(x, x).posterior(x)
    assert posterior.std().isfinite().all()
    assert posterior.std().min() > 0.5


def test_one_fold_is_refused():
    with pytest.raises(ConfigError, match="n_folds: 1 found"):
        BoostedTrees(n_folds=1).fit(np.arange(5.0), np.arange(5.0))
