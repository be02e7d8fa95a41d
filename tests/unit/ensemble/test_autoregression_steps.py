"""Values on an even grid and between its steps, and paths against closed forms."""

import math

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression_steps import (
    completed,
    in_long_gaps,
    interpolate,
    roll_out,
    step_function,
)
from deeplfm.model import DeepLFM
from deeplfm.terms.spectrum import steps_of

NAN = math.nan
FREE = (torch.tensor([-9.0]).double(), torch.tensor([9.0]).double())
STILL = torch.zeros(1, dtype=torch.float64)


@pytest.mark.parametrize("n_first", [1, 4, 10])
def test_a_parabola_is_met_between_inner_steps_wherever_the_grid_is_cut(n_first: int) -> None:
    """Catmull and Rom's cubic reproduces polynomials of degree two."""

    def parabola(t: torch.Tensor) -> torch.Tensor:
        return (3 - 2 * t + 0.5 * t**2)[None, :, None]

    grid = parabola(torch.arange(11, dtype=torch.float64))
    place = torch.tensor([1.0, 1.25, 3.5, 4.0, 4.9, 8.75], dtype=torch.float64)
    found = interpolate(place, grid[:, :n_first], grid[:, n_first:])
    torch.testing.assert_close(found, parabola(place))


def test_steps_are_counted_however_many_are_left_out() -> None:
    whole = torch.tensor([0, 1, 2, 3, 7, 8, 10])
    shaken = 0.3 + 0.25 * whole + 0.02 * torch.tensor([0, 1, -1, 1, 0, -1, 1])
    assert steps_of(shaken).tolist() == whole.tolist()


def test_known_values_stay_and_a_line_is_filled_by_a_line() -> None:
    step = torch.tensor([0, 1, 2, 4, 5])
    values = torch.tensor([[0.0, 5.0], [1.0, NAN], [2.0, 5.5], [4.0, NAN], [NAN, NAN]]).double()
    filled = completed(step, values)
    line = [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]  # the last is that of the last known
    torch.testing.assert_close(filled[:, 0], torch.tensor(line).double())
    torch.testing.assert_close(filled[:, 1], torch.tensor([5, 5.25, 5.5, 5.5, 5.5, 5.5]).double())


def test_a_column_known_once_is_constant() -> None:
    filled = completed(torch.arange(3), torch.tensor([[NAN], [2.0], [NAN]]))
    assert filled[:, 0].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(("longest", "first"), [(1, [0, 1, 4, 5]), (2, []), (0, [0, 1, 4, 5, 7])])
def test_gaps_are_reported_by_column_at_both_ends_and_in_missing_rows(longest, first) -> None:
    step = torch.tensor([0, 1, 2, 3, 6, 7, 8])
    values = torch.ones(7, 2)
    values[[0, 1, 5], 0] = NAN
    values[3:, 1] = NAN
    found = in_long_gaps(step, values, longest)
    assert found[:, 0].nonzero()[:, 0].tolist() == first
    assert found[:, 1].nonzero()[:, 0].tolist() == [3, 4, 5, 6, 7, 8]


def model(n_features: int) -> DeepLFM:
    """One output, two lags; the scales of a straight line are 3, 2 and ½."""
    block = BlockConfig("eq", n_features=n_features, extras=("constant", "trend"))
    output = LayerConfig(1, (block,), "exact", own_features=True)
    made = DeepLFM(ModelConfig(2, (output,), n_samples=1, n_paths=4)).double()
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
        step = step_function(model(0).output_layer, weights[None, None])
        path = roll_out(step, lags, n_steps, FREE, STILL)[:, 0, 0]
    time = torch.arange(1, n_steps + 1, dtype=torch.float64)
    torch.testing.assert_close(path, 1 + torch.sin(rate * time), rtol=0, atol=1e-9)


def test_a_line_alone_adds_what_it_adds_beside_waves_of_no_weight() -> None:
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(4, 1, 3, generator=generator, dtype=torch.float64)
    beside = torch.cat([torch.zeros(4, 1, 6, dtype=torch.float64), weights], dim=-1)
    lags = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        alone = step_function(model(0).output_layer, weights)(lags)
        torch.testing.assert_close(step_function(model(3).output_layer, beside)(lags), alone)


def test_paths_feel_noise_and_keep_within_limits() -> None:
    generator = torch.Generator().manual_seed(0)
    lags, scale = torch.zeros(2000, 1).double(), torch.ones(1).double()
    walk = roll_out(lambda lags: torch.zeros_like(lags), lags, 9, FREE, scale, generator)[..., 0]
    assert (walk[0] == 0).all()  # the noise of a step is heard by the next
    # The variance after n steps is n; its estimate is off by a fifth, 6 σ = 6 √(2/2000), once in 10⁹.
    spread = walk.var(1)[1:5] / torch.arange(1, 5)
    assert ((spread - 1).abs() < 0.2).all()
    narrow = (-0.5 * scale, 0.5 * scale)
    assert roll_out(lambda lags: lags + 1, lags, 5, narrow, STILL).abs().max() == 0.5
