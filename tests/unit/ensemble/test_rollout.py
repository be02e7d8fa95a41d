"""Paths against closed forms."""

import math

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.rollout import follow, rule_of

FREE = (torch.tensor([-9.0]).double(), torch.tensor([9.0]).double())
STILL = torch.zeros(1, dtype=torch.float64)


def model(n_features: int) -> Autoregression:
    """One output, two lags; the scales of a straight line are 3, 2 and ½."""
    block = BlockConfig("eq", n_features=n_features, extras=("constant", "trend"))
    output = LayerConfig(1, (block,), "exact", own_features=True)
    made = Autoregression(ModelConfig(2, (output,), n_samples=1, n_paths=4), 0, n_lags=2).double()
    with torch.no_grad():
        features = made.output_layer.blocks[0].features
        features.log_extra_scale.copy_(torch.tensor([[3.0, 2.0, 0.5]]).double().log())
    return made


def test_a_wave_is_followed_for_many_turns() -> None:
    rate, n_steps = 0.37, 500  # y_{n+1} − y_n = (2 cos ω − 1) y_n − y_{n−1}, and y = 1 + sin
    slope = torch.tensor([2 * math.cos(rate) - 1, -1.0], dtype=torch.float64)
    weights = torch.cat([(2 - 2 * math.cos(rate)) * torch.ones(1).double(), slope])
    weights = weights / torch.tensor([3.0, 2.0, 0.5])
    lags = 1 + torch.sin(rate * torch.tensor([[0.0, -1.0]], dtype=torch.float64))
    with torch.no_grad():
        rule = rule_of(model(0).output_layer, weights[None, None])
        path = follow(rule, lags, n_steps, FREE, STILL)[:, 0, 0]
    time = torch.arange(1, n_steps + 1, dtype=torch.float64)
    torch.testing.assert_close(path, 1 + torch.sin(rate * time), rtol=0, atol=1e-9)


def test_a_line_alone_adds_what_it_adds_beside_waves_of_no_weight() -> None:
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(4, 1, 3, generator=generator, dtype=torch.float64)
    beside = torch.cat([torch.zeros(4, 1, 6, dtype=torch.float64), weights], dim=-1)
    lags = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        alone = rule_of(model(0).output_layer, weights)(lags)
        torch.testing.assert_close(rule_of(model(3).output_layer, beside)(lags), alone)


def test_paths_feel_noise_and_keep_within_limits() -> None:
    generator = torch.Generator().manual_seed(0)
    lags, scale = torch.zeros(2000, 1).double(), torch.ones(1).double()
    walk = follow(lambda lags: torch.zeros_like(lags), lags, 9, FREE, scale, generator)[..., 0]
    assert (walk[0] == 0).all()  # the noise of a step is heard by the next
    # The variance after n steps is n; its estimate is off by a fifth, 6 σ = 6 √(2/2000), once in 10⁹.
    spread = walk.var(1)[1:5] / torch.arange(1, 5)
    assert ((spread - 1).abs() < 0.2).all()
    narrow = (-0.5 * scale, 0.5 * scale)
    assert follow(lambda lags: lags + 1, lags, 5, narrow, STILL).abs().max() == 0.5
