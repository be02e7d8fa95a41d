"""The network with dropout: its masks, its noise, and what it stops at."""

import numpy as np
import pytest
import torch

from deeplfm.baselines.neural import NeuralNetwork, _Network
from deeplfm.errors import ConfigError

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))


def test_masks_leave_out_their_share_of_units_and_keep_the_mean():
    network = _Network(2, (300, 200), 1, 0.25, torch.Generator().manual_seed(0))
    first, second = network.masks(2000, torch.Generator().manual_seed(1))
    assert first.shape == (2000, 300) and second.shape == (2000, 200)
    assert abs(first.double().mean().item() - 0.75) < 0.005
    shallow = _Network(2, (300,), 1, 0.25, torch.Generator().manual_seed(0))
    x = torch.ones(1, 2, dtype=torch.float64)
    with torch.no_grad():
        average = torch.stack([shallow(x, [mask]) for mask in first]).mean()
        torch.testing.assert_close(average, shallow(x)[0, 0], atol=0.02, rtol=0)


def test_without_dropout_all_networks_are_one_and_noise_is_found():
    y = X @ [1.0, -2.0] + 0.2 * RNG.normal(size=400)
    posterior = (
        NeuralNetwork(hidden=(30,), dropout=0.0, n_masks=3, n_steps=300).fit(X, y).posterior(X)
    )
    assert posterior.std(latent=True).max() < 1e-12
    assert abs(posterior.component_noise.sqrt().mean().item() - 0.2) < 0.06


def test_uncertainty_grows_away_from_the_data():
    y = np.sin(3 * X[:, 0])
    model = NeuralNetwork(hidden=(50, 50), dropout=0.2, n_steps=300).fit(X[:, 0], y)
    inside, outside = (model.posterior([value]).std(latent=True).item() for value in (0.0, 6.0))
    assert outside > 3 * inside


def test_a_constant_and_a_handful_of_rows_are_fitted():
    model = NeuralNetwork(hidden=(5,), n_steps=20).fit(np.arange(6.0), np.ones(6))
    assert np.isfinite(model.predict(np.arange(8.0))).all()


def test_the_last_steps_count_whenever_training_ends():
    y = X[:, 0]
    model = NeuralNetwork(hidden=(50,), dropout=0.0, n_steps=40).fit(X, y)  # no look before the end
    assert np.mean((model.predict(X) - y) ** 2) < 0.1 * y.var()


def test_time_limit_stops_training():
    model = NeuralNetwork(n_steps=10**9, time_limit=0.2).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


def test_dropout_of_everything_is_refused():
    with pytest.raises(ConfigError, match=r"dropout: 1\.0 found"):
        NeuralNetwork(dropout=1.0).fit(X, X[:, 0])
