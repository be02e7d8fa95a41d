"""A mixture density whose component weights are functions of the input."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from deeplfm import DeepLFM
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.likelihoods import MixtureDensity
from deeplfm.objective import Batch, elbo, predictive, sampled_predictive

N, D, K = 5, 2, 3


@pytest.fixture
def likelihood() -> MixtureDensity:
    generator = torch.Generator().manual_seed(0)
    found = MixtureDensity(D, K).double()
    with torch.no_grad():
        found.center.normal_(generator=generator)
        found.log_width.normal_(mean=-1, generator=generator)
    return found


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_density_is_that_of_the_mixture(likelihood: MixtureDensity) -> None:
    function, target = normal(N, D * K), normal(N, D, seed=2)
    found = likelihood.log_prob(normal(N, 1), target, function).detach()
    weight = torch.softmax(function.unflatten(-1, (D, K)), -1).numpy()
    center = likelihood.center.detach().numpy()
    std = likelihood.component_variance.detach().sqrt().numpy()
    for n in range(N):
        for d in range(D):
            expected = weight[n, d] @ stats.norm(center[d], std[d]).pdf(float(target[n, d]))
            assert float(found[n, d].exp()) == pytest.approx(float(expected), rel=1e-12)


def test_components_have_the_density_that_training_maximises(likelihood: MixtureDensity) -> None:
    function, target = normal(4, N, D * K), normal(N, D, seed=2)
    from deeplfm.predictive.mixture import Predictive

    posterior = Predictive(*likelihood.components(normal(N, 1), function, 0 * function))
    torch.testing.assert_close(
        posterior.weight.sum(0), torch.ones(N, D, dtype=torch.float64), rtol=0, atol=1e-12
    )
    expected = likelihood.log_prob(normal(N, 1), target, function).exp().mean(0)
    torch.testing.assert_close(posterior.log_prob(target).exp(), expected, rtol=1e-4, atol=1e-9)


def test_centres_start_at_quantiles_of_the_targets() -> None:
    found = MixtureDensity(1, 4).double()
    y = torch.cat([torch.linspace(-1, 1, 101), torch.tensor([math.nan])])[:, None].double()
    found.initialise(y, (~y.isnan()).double())
    center, width = found.center.detach()[0], found.log_width.exp().detach()[0]
    torch.testing.assert_close(center, torch.tensor([-0.76, -0.26, 0.26, 0.76]).double())
    torch.testing.assert_close(width, torch.tensor([0.5, 0.52, 0.5, 0.5]).double())


def test_a_target_of_weight_three_counts_as_three_targets() -> None:
    y, count = torch.randn(40, 1).double(), torch.ones(40, 1).double()
    count[::4] = 3
    weighted, repeated = MixtureDensity(1, 4).double(), MixtureDensity(1, 4).double()
    weighted.initialise(y, count)
    again = y.repeat_interleave(count[:, 0].long(), dim=0)
    repeated.initialise(again, torch.ones_like(again))
    torch.testing.assert_close(weighted.center, repeated.center)


def test_repeated_values_leave_components_of_some_width() -> None:
    found = MixtureDensity(1, 5).double()
    found.initialise(torch.zeros(50, 1).double(), torch.ones(50, 1).double())
    assert bool((found.component_variance > 0).all())
    with torch.no_grad():
        found.log_width.fill_(-100.0)
    assert float(found.component_variance.min().sqrt().detach()) == pytest.approx(0.01)


def test_inflation_widens_components_and_moves_nothing(likelihood: MixtureDensity) -> None:
    function = normal(1, N, D * K)
    before = likelihood.components(normal(N, 1), function, 0 * function)
    likelihood.inflation.fill_(4.0)
    after = likelihood.components(normal(N, 1), function, 0 * function)
    torch.testing.assert_close(after.noise, 4 * before.noise)
    assert torch.equal(after.mean, before.mean) and torch.equal(after.weight, before.weight)


def model(weights: str = "mean-field", n_components: int = K) -> DeepLFM:
    block = BlockConfig("eq", n_features=10)
    layer = LayerConfig(D * K, (block,), weights)
    return DeepLFM(ModelConfig(1, (layer,), n_paths=1, n_components=n_components)).double()


def test_missing_targets_leave_no_trace_in_the_objective() -> None:
    x, y = normal(N, 1), normal(N, D, seed=2)
    y[0, 0] = math.nan
    found = model()
    other = torch.where(y.isnan(), torch.tensor(77.0).double(), y)
    value = elbo(found, Batch(x, y, N), 1, torch.Generator().manual_seed(0))
    value.backward()
    gradient = found.output_layer.weights.mean.grad
    assert value.isfinite() and gradient is not None and bool(gradient.isfinite().all())
    value = value.detach()
    again = elbo(found, Batch(x, other, N), 1, torch.Generator().manual_seed(0))
    without = elbo(found, Batch(x, y, N), 1, torch.Generator().manual_seed(0))
    assert float((again - without).detach()) < -10  # 77 is far


@pytest.mark.parametrize(("weights", "n_components"), [("exact", 3), ("mean-field", 4)])
def test_a_last_layer_that_does_not_fit_its_components_is_refused(
    weights: str, n_components: int
) -> None:
    with pytest.raises(
        ConfigError, match="components for each output, but a last layer of width 6"
    ):
        model(weights, n_components)


def test_the_elbo_is_the_mean_over_sampled_functions() -> None:
    x, y, found = normal(N, 1), normal(N, D, seed=2), model()
    y[1, 1] = math.nan
    values = [
        objective(found, Batch(x, y, 3 * N), 4, torch.Generator().manual_seed(0)).item()
        for objective in (elbo, sampled_predictive)
    ]
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        function = found.output_layer.sample(found.features(x, 4, generator), generator)
        density = found.likelihood.log_prob(x, y.nan_to_num(), function)[:, ~y.isnan()]
    for value, fit in zip(values, (density.mean(0), density.exp().mean(0).log()), strict=True):
        assert value == pytest.approx((3 * fit.sum() - found.kl()).item(), rel=1e-12)


def test_what_only_gaussian_noise_allows_is_refused() -> None:
    x, y = normal(N, 1), normal(N, D, seed=2)
    with pytest.raises(ConfigError, match="noise is not Gaussian"):
        model().gaussian.precision(x, y)
    with pytest.raises(ConfigError, match="MixtureDensity has no closed form"):
        predictive(model(), Batch(x, y, N), 1)
    plain = DeepLFM(ModelConfig(1, (LayerConfig(D),))).double()
    with pytest.raises(ConfigError, match="no mixture components"):
        plain.mixture_density.initialise(y, torch.ones_like(y))
