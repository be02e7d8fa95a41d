"""Mixtures whose members have a say at some rows only."""

from math import nan

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.split import known_span

N_ROWS = 40


def members() -> list[DeepLFM]:
    layer = LayerConfig(1, (BlockConfig("eq", n_features=3),), "exact", own_features=True)
    config = ModelConfig(1, (layer,), n_samples=1, n_paths=8)
    of_time, of_itself = DeepLFM(config).double(), Autoregression(config, seed=0, n_lags=1).double()
    x = torch.arange(N_ROWS, dtype=torch.float64)[:, None]
    of_itself.set_train_data(x, torch.sin(x))
    return [of_time, of_itself]


def test_within_the_rows_only_functions_of_time_are_active_and_ahead_all() -> None:
    of_time, of_itself = members()
    stack = ModelAverage([of_time, of_itself], torch.tensor([[0.25], [0.75]]).double())
    x = torch.arange(N_ROWS + 10, dtype=torch.float64)[:, None]
    mixed = stack.posterior(x)
    first, second = of_time.posterior(x), of_itself.posterior(x)
    torch.testing.assert_close(mixed.mean[:N_ROWS], first.mean[:N_ROWS])
    torch.testing.assert_close(mixed.variance()[:N_ROWS], first.variance()[:N_ROWS])
    expected = 0.25 * first.mean + 0.75 * second.mean
    torch.testing.assert_close(mixed.mean[N_ROWS:], expected[N_ROWS:])
    assert mixed.log_prob(torch.zeros(N_ROWS + 10, 1)).isfinite().all()


def test_draws_come_from_active_members() -> None:
    """A binomial share of 4000 draws is off by 5 standard errors in fewer than 1 of 10⁶ runs."""
    of_time, of_itself = members()
    stack = ModelAverage([of_time, of_itself], torch.tensor([[0.25], [0.75]]).double())
    x = torch.tensor([[5.0], [N_ROWS + 3.0]], dtype=torch.float64)
    draws = stack.posterior(x).sample(4000, seed=1, latent=True)
    first = of_time.posterior(x).sample(4000, seed=1, latent=True)
    is_first = draws == first
    assert bool(is_first[:, 0].all())
    assert abs(is_first[:, 1].double().mean() - 0.25) < 5 * (0.25 * 0.75 / 4000) ** 0.5


def test_a_single_member_is_active_everywhere() -> None:
    of_time, of_itself = members()
    stack = ModelAverage([of_time, of_itself], torch.tensor([[0.0], [1.0]]).double())
    x = torch.arange(N_ROWS + 10, dtype=torch.float64)[:, None]
    torch.testing.assert_close(stack.posterior(x).mean, of_itself.posterior(x).mean)


def test_between_two_times_other_weights_hold() -> None:
    of_time, _ = members()
    other = DeepLFM(of_time.config, seed=1).double()
    both = ModelAverage(
        [of_time, other],
        torch.tensor([[1.0], [0.0]]).double(),
        torch.tensor([[0.25], [0.75]]).double(),
        torch.tensor([[3.0], [7.0]]).double(),
    )
    x = torch.tensor([[2.9], [3.0], [5.0], [7.0], [7.1]]).double()
    first, second = of_time.posterior(x), other.posterior(x)
    expected = torch.where(
        ((x >= 3) & (x <= 7)), 0.25 * first.mean + 0.75 * second.mean, first.mean
    )
    found = both.posterior(x)
    torch.testing.assert_close(found.mean, expected)
    torch.testing.assert_close(both.posterior(x[:1]).mean, expected[:1])  # where one alone is heard
    few, many = both.posterior(x[:1]), found
    torch.testing.assert_close(few.sample(9, latent=True), many.sample(9, latent=True)[:, :1])
    more = torch.tensor([[7.05], [9.0]]).double()
    both.extend(more, torch.full_like(more, torch.nan))  # known is nothing
    torch.testing.assert_close(both.posterior(x).mean, expected)
    both.extend(more, more)
    torch.testing.assert_close(
        both.posterior(x).mean[-1], (0.25 * first.mean + 0.75 * second.mean)[-1]
    )


def test_gaps_of_an_output_end_with_its_own_last_value() -> None:
    x = torch.arange(4.0)[:, None].double()
    y = torch.tensor([[nan, 1.0], [1.0, nan], [nan, nan], [2.0, nan]]).double()
    expected = torch.tensor([[1.0, 0.0], [3.0, 0.0]]).double()
    torch.testing.assert_close(known_span(x, y), expected)
    config = ModelConfig(1, (LayerConfig(2, (BlockConfig("eq", n_features=2),)),), n_paths=2)
    models = [DeepLFM(config, seed).double() for seed in (0, 1)]
    ahead = torch.tensor([[1.0, 1.0], [0.0, 0.0]]).double()
    both = ModelAverage(models, ahead, 1 - ahead, known_span(x, y))
    first, second = (model.posterior(x).mean for model in models)
    is_between = torch.tensor([[False, True], [True, False], [True, False], [True, False]])
    torch.testing.assert_close(both.posterior(x).mean, torch.where(is_between, second, first))
