"""Every likelihood keeps the contract of the objectives; a new one is a line in LIKELIHOODS."""

import math

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive

LIKELIHOODS = {
    "gaussian": {},
    "shared noise": {"shared_noise": True},
    "noise head": {"input_dependent_noise": True},
    "mixture density": {"n_components": 3},
}
N_ROWS, N_OUTPUTS, N_DRAWS = 6, 2, 20_000
X = torch.linspace(0, 1, N_ROWS, dtype=torch.float64)[:, None]
Y = torch.cat([torch.sin(5 * X), X**2], dim=1)


@pytest.fixture(params=LIKELIHOODS)
def model(request):
    kind = LIKELIHOODS[request.param]
    output = LayerConfig(
        N_OUTPUTS * kind.get("n_components", 1), (BlockConfig("eq", n_features=4),)
    )
    found = DeepLFM(ModelConfig(1, (output,), **kind), seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in found.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += 0.3 * noise
    return found


def weights():
    found = torch.rand(N_ROWS, N_OUTPUTS, generator=torch.Generator().manual_seed(2)).double()
    found[1, 0] = 0
    return found


@torch.no_grad()
def draws(model):
    """Values of the last layer for each row."""
    columns = model.features(X, N_DRAWS)
    return model.output_layer.sample(columns, torch.Generator().manual_seed(3))


def is_close(found, values):
    """Whether a number, exact or another mean of as many, is the mean of values.

    Six standard errors, which are 4.2 of a difference of two means: a false alarm in 40 000.
    """
    return (found - values.mean(0)).abs() < 6 * values.std(0) / math.sqrt(len(values))


def test_expected_log_prob_is_the_mean_of_log_prob(model):
    values = (weights() * model.likelihood.log_prob(X, Y, draws(model))).sum((-2, -1)).detach()
    generator = torch.Generator().manual_seed(4)
    found = model.likelihood.expected_log_prob(
        model.output_layer, model.features(X, N_DRAWS), X, Y, weights(), generator
    )
    assert is_close(found.detach(), values)


def test_targets_without_weight_do_not_matter(model):
    generators = (torch.Generator().manual_seed(4) for _ in range(2))
    other = torch.where(weights() == 0, 1e3, Y)
    left, right = (
        model.likelihood.expected_log_prob(
            model.output_layer, model.features(X, 5), X, target, weights(), generator
        )
        for target, generator in zip((Y, other), generators, strict=True)
    )
    assert left.item() == right.item()


def test_marginal_is_the_mean_density_or_refused(model):
    mean, variance = (item.detach() for item in model(X, 1))
    try:
        found = model.likelihood.log_marginal(X, Y, mean, variance).exp().detach()
    except ConfigError:
        return
    density = model.likelihood.log_prob(X, Y, draws(model)).exp().detach()
    assert bool(is_close(found, density).all())


def test_prediction_is_the_mean_density(model):
    function = draws(model)[:200]
    components = model.likelihood.components(X, function, torch.zeros_like(function))
    expected = model.likelihood.log_prob(X, Y, function).exp().mean(0)
    found = Predictive(*components).log_prob(Y).exp()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-9)
    weight = components.weight.sum(0)
    torch.testing.assert_close(weight, torch.ones_like(weight))
