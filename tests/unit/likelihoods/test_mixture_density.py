"""A likelihood of any shape."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from deeplfm import DeepLFM
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.likelihoods import MixtureDensity
from deeplfm.objective import Batch, density

N, D, K = 5, 2, 3


@pytest.fixture
def bells() -> MixtureDensity:
    generator = torch.Generator().manual_seed(0)
    found = MixtureDensity(D, K).double()
    with torch.no_grad():
        found.center.normal_(generator=generator)
        found.log_width.normal_(mean=-1, generator=generator)
    return found


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_density_is_that_of_the_mixture(bells: MixtureDensity) -> None:
    function, target = normal(N, D * K), normal(N, D, seed=2)
    found = bells.log_prob(target, function).detach()
    weight = torch.softmax(function.unflatten(-1, (D, K)), -1).numpy()
    center = bells.center.detach().numpy()
    std = bells.bell_variance.detach().sqrt().numpy()
    for n in range(N):
        for d in range(D):
            expected = weight[n, d] @ stats.norm(center[d], std[d]).pdf(float(target[n, d]))
            assert float(found[n, d].exp()) == pytest.approx(float(expected), rel=1e-12)


def test_components_say_what_training_sees(bells: MixtureDensity) -> None:
    function, target = normal(4, N, D * K), normal(N, D, seed=2)
    from deeplfm.predictive.mixture import Predictive

    posterior = Predictive(*bells.components(normal(N, 1), function, 0 * function))
    torch.testing.assert_close(
        posterior.weight.sum(0), torch.ones(N, D, dtype=torch.float64), rtol=0, atol=1e-12
    )
    expected = bells.log_prob(target, function).exp().mean(0)
    torch.testing.assert_close(posterior.log_prob(target).exp(), expected, rtol=1e-4, atol=1e-9)


def test_bells_are_placed_where_the_targets_are() -> None:
    found = MixtureDensity(1, 4).double()
    y = torch.cat([torch.linspace(-1, 1, 101), torch.tensor([math.nan])])[:, None].double()
    found.place(y, (~y.isnan()).double())
    center, width = found.center.detach()[0], found.log_width.exp().detach()[0]
    torch.testing.assert_close(center, torch.tensor([-0.76, -0.26, 0.26, 0.76]).double())
    torch.testing.assert_close(width, torch.tensor([0.5, 0.52, 0.5, 0.5]).double())


def test_a_target_of_weight_three_places_bells_as_if_it_were_given_thrice() -> None:
    y, count = torch.randn(40, 1).double(), torch.ones(40, 1).double()
    count[::4] = 3
    weighted, repeated = MixtureDensity(1, 4).double(), MixtureDensity(1, 4).double()
    weighted.place(y, count)
    again = y.repeat_interleave(count[:, 0].long(), dim=0)
    repeated.place(again, torch.ones_like(again))
    torch.testing.assert_close(weighted.center, repeated.center)


def test_values_that_repeat_leave_bells_of_some_width() -> None:
    found = MixtureDensity(1, 5).double()
    found.place(torch.zeros(50, 1).double(), torch.ones(50, 1).double())
    assert bool((found.bell_variance > 0).all())
    with torch.no_grad():
        found.log_width.fill_(-100.0)
    assert float(found.bell_variance.min().sqrt().detach()) == pytest.approx(0.01)


def test_inflation_widens_bells_and_moves_nothing(bells: MixtureDensity) -> None:
    function = normal(1, N, D * K)
    before = bells.components(normal(N, 1), function, 0 * function)
    bells.inflation.fill_(4.0)
    after = bells.components(normal(N, 1), function, 0 * function)
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
    value = density(found, Batch(x, y, N), 1, torch.Generator().manual_seed(0))
    value.backward()
    gradient = found.output_layer.weights.mean.grad
    assert value.isfinite() and gradient is not None and bool(gradient.isfinite().all())
    value = value.detach()
    again = density(found, Batch(x, other, N), 1, torch.Generator().manual_seed(0))
    without = density(found, Batch(x, y, N), 1, torch.Generator().manual_seed(0))
    assert float((again - without).detach()) < -10  # 77 is far


@pytest.mark.parametrize(("weights", "n_components"), [("exact", 3), ("mean-field", 4)])
def test_a_last_layer_that_does_not_fit_its_bells_is_refused(
    weights: str, n_components: int
) -> None:
    with pytest.raises(ConfigError, match="bells for each output, but a last layer of width 6"):
        model(weights, n_components)


def test_objectives_of_another_likelihood_are_refused() -> None:
    x, y = normal(N, 1), normal(N, D, seed=2)
    with pytest.raises(ConfigError, match="noise is not Gaussian"):
        model().gaussian.precision(x, y)
    plain = DeepLFM(ModelConfig(1, (LayerConfig(D),))).double()
    with pytest.raises(ConfigError, match="no bells"):
        density(plain, Batch(x, y, N), 1)
