"""A fitted regressor is a model of BoTorch, whose acquisition functions optimise it."""

import numpy as np
import pytest
import torch

from deeplfm import ConfigError, DeepLFMRegressor

BotorchModel = pytest.importorskip("deeplfm.estimators.botorch").BotorchModel
UpperConfidenceBound = pytest.importorskip("botorch.acquisition").UpperConfidenceBound
optimize_acqf = pytest.importorskip("botorch.optim").optimize_acqf

pytestmark = pytest.mark.filterwarnings("ignore")  # of BoTorch: points that are not scaled


@pytest.fixture(scope="module")
def fitted() -> DeepLFMRegressor:
    time = np.linspace(0, 4, 60)
    values = np.stack([np.sin(3 * time), np.cos(3 * time)], axis=1)
    return DeepLFMRegressor(model="sinusoids + broadband", n_steps=5).fit(time, values)


def test_the_posterior_is_that_of_the_regressor_for_batches_of_points(fitted) -> None:
    x = torch.linspace(0.5, 3.5, 6, dtype=torch.float64).reshape(3, 2, 1)
    found = BotorchModel(fitted).posterior(x, observation_noise=True)
    mean, std = fitted.predict(x.reshape(-1, 1).numpy(), return_std=True)
    assert found.mean.shape == (3, 2, 2)
    assert np.allclose(found.mean.reshape(-1, 2).detach(), mean)
    assert np.allclose(found.variance.reshape(-1, 2).detach().sqrt(), std)
    latent = BotorchModel(fitted).posterior(x)
    assert (latent.variance < found.variance).all()
    assert found.rsample(torch.Size([5])).shape == (5, 3, 2, 2)


def test_an_acquisition_function_finds_the_maximum(fitted) -> None:
    one = DeepLFMRegressor(model="sinusoids + broadband", n_steps=5)
    time = np.linspace(0, 4, 60)
    one.fit(time, np.sin(3 * time))
    bounds = torch.tensor([[0.0], [1.5]], dtype=torch.float64)
    acquisition = UpperConfidenceBound(BotorchModel(one), beta=0.0)
    best, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=16)
    assert best.item() == pytest.approx(np.pi / 6, abs=0.02)


def test_logarithms_are_refused() -> None:
    time = np.linspace(0, 4, 60)
    model = DeepLFMRegressor(model="trend", n_steps=2, log_targets=True).fit(time, np.exp(time))
    with pytest.raises(ConfigError, match="log_targets=False"):
        BotorchModel(model)
