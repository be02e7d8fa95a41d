"""A system that hears itself, against linear recursions whose forecasts have a closed form."""

import math

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.model import DeepLFM
from deeplfm.training import Rows

FIRST, SECOND, NOISE = 1.5, -0.8, 0.04  # y_{n+1} = 1.5 y_n − 0.8 y_{n−1} + e
LEVEL = 0.01


def even(n_rows: int) -> torch.Tensor:
    return torch.arange(n_rows, dtype=torch.float64)[:, None] / 50


def oscillation(n_rows: int = 200) -> torch.Tensor:
    """A draw of the recursion; two far values at its beginning keep paths away from the limits."""
    noise = math.sqrt(NOISE) * torch.randn(
        n_rows, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    values = [torch.tensor(10.0).double(), torch.tensor(-10.0).double()]
    values += [torch.tensor(0.3).double(), torch.tensor(0.1).double()]
    while len(values) < n_rows:
        values.append(FIRST * values[-1] + SECOND * values[-2] + noise[len(values)])
    return torch.stack(values)[:, None]


def unsolved(
    n_lags: int = 2, n_outputs: int = 1, n_paths: int = 64, n_features: int = 1
) -> Autoregression:
    block = BlockConfig(
        "eq", n_features=n_features, frequencies="prior-fixed", extras=("constant", "trend")
    )
    layer = LayerConfig(n_outputs, (block,), "exact", own_features=True)
    config = ModelConfig(n_lags * n_outputs, (layer,), n_samples=1, n_paths=n_paths)
    model = Autoregression(config, seed=3, n_lags=n_lags).double()
    with torch.no_grad():
        model.step_model.gaussian.log_variance.fill_(math.log(NOISE))
    return model


def known(n_paths: int = 64, share: float = 1.0) -> Autoregression:
    """The recursion itself, known without variance."""
    model = unsolved(n_paths=n_paths)
    features = model.step_model.output_layer.blocks[0].features
    weights = model.step_model.exact_weights
    with torch.no_grad():
        features.log_extra_scale.zero_()
        weights.mean.zero_()
        weights.mean[0, -3:, 0] = torch.tensor([LEVEL, FIRST - 1, SECOND])
        weights._root.zero_()
        model.process_share.fill_(share)
    values = oscillation()
    model.set_train_data(even(len(values)), values)
    return model


def closed_form(values: torch.Tensor, n_steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean of each step ahead, and variance of an observation there: σ² Σ ψ²."""
    past = values[:, 0].tolist()
    mean, response = [], [1.0, FIRST]
    for _ in range(n_steps):
        past.append(LEVEL + FIRST * past[-1] + SECOND * past[-2])
        mean.append(past[-1])
        response.append(FIRST * response[-1] + SECOND * response[-2])
    power = torch.tensor(response[:n_steps]).double().square()
    return torch.tensor(mean).double(), NOISE * power.cumsum(0)


def test_paths_have_the_mean_and_variance_of_a_linear_recursion() -> None:
    """Each of 80 numbers is off by more than 5 standard errors in fewer than 1 of 10⁴ runs."""
    n_paths = 4000
    model = known(n_paths)
    n_rows = len(model.series)
    later = even(n_rows + 40)[n_rows:]
    mean, variance = closed_form(model.series, 40)
    posterior = model.posterior(later)
    error = (posterior.mean[:, 0] - mean) / (variance / n_paths).sqrt()
    assert error.abs().max() < 5
    ratio = posterior.variance()[:, 0] / variance
    assert (ratio - 1).abs().max() < 5 * math.sqrt(2 / n_paths)


def test_the_first_step_ahead_is_exact_and_so_is_every_step_within_the_record() -> None:
    model = known()
    values = model.series[:, 0]
    x = even(len(values) + 1)
    posterior = model.posterior(x)
    expected = LEVEL + FIRST * values[1:] + SECOND * values[:-1]
    torch.testing.assert_close(posterior.mean[2:, 0], expected)
    torch.testing.assert_close(posterior.variance()[2:, 0], torch.full_like(expected, NOISE))
    torch.testing.assert_close(posterior.mean[:2, 0], values[:2])


def test_noise_that_the_system_does_not_feel_leaves_paths_together() -> None:
    model = known(share=0.0)
    n_rows = len(model.series)
    mean, _ = closed_form(model.series, 30)
    posterior = model.posterior(even(n_rows + 30)[n_rows:])
    torch.testing.assert_close(posterior.mean[:, 0], mean)
    torch.testing.assert_close(posterior.variance()[:, 0], torch.full_like(mean, NOISE))


def test_a_prediction_does_not_depend_on_the_other_rows() -> None:
    x = even(260)
    whole, part = known().posterior(x), known().posterior(x[210:220])
    torch.testing.assert_close(whole.mean[210:220], part.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(whole.variance()[210:220], part.variance(), rtol=1e-12, atol=1e-12)
    model = known()
    model.posterior(x[:230])  # keeps shorter paths
    torch.testing.assert_close(model.posterior(x).mean, whole.mean, rtol=1e-12, atol=1e-12)


def test_draws_are_functions_of_their_seed_and_begin_at_the_record() -> None:
    model = known()
    n_rows = len(model.series)
    x = even(n_rows + 3)[n_rows:]
    draws = model.posterior(x).sample(5, seed=7, latent=True)
    torch.testing.assert_close(draws, model.posterior(x).sample(5, seed=7, latent=True))
    assert (draws != model.posterior(x).sample(5, seed=8, latent=True)).any()
    mean, _ = closed_form(model.series, 1)
    torch.testing.assert_close(draws[:, 0, 0], mean.expand(5))
    assert draws[:, 1].std() > 0.1


def test_far_from_its_record_a_system_is_anywhere_in_it() -> None:
    model = known()
    far = torch.tensor([[-1.0], [1e4]], dtype=torch.float64)
    posterior = model.posterior(far)
    values = model.series[:, 0]
    torch.testing.assert_close(posterior.mean[:, 0], values.mean().expand(2))
    variance = values.var() + NOISE
    torch.testing.assert_close(posterior.variance()[:, 0], variance.expand(2))
    draws = posterior.sample(4000, seed=0, latent=True)[:, :, 0]
    assert (draws.var(0) / values.var() - 1).abs().max() < 5 * math.sqrt(2 / 4000)


def test_an_unstable_recursion_stays_near_the_range_of_its_record() -> None:
    model = known()
    with torch.no_grad():
        model.step_model.exact_weights.mean[0, -2:, 0] = torch.tensor([0.5, 0.0])
    n_rows = len(model.series)
    posterior = model.posterior(even(n_rows + 300)[n_rows:])
    assert posterior.component_mean.abs().max() <= 12 + 1e-9  # ±10 and a tenth of the range


def test_between_steps_the_prediction_is_smooth() -> None:
    """A sine of 40 rows a period, foretold without error: cubic pieces are off by less than 1e-4."""
    model = known(share=0.0)
    angle = 2 * math.pi / 40
    with torch.no_grad():
        weights = torch.tensor([0.0, 2 * math.cos(angle) - 1, -1.0])
        model.step_model.exact_weights.mean[0, -3:, 0] = weights
    model.set_train_data(even(200), torch.sin(angle * 50 * even(200)))
    x = torch.linspace(0.1, 6, 777, dtype=torch.float64)[:, None]
    torch.testing.assert_close(
        model.posterior(x).mean, torch.sin(angle * 50 * x), rtol=0, atol=2e-4
    )


def two_outputs(n_rows: int) -> Rows:
    generator = torch.Generator().manual_seed(5)
    noise = 0.1 * torch.randn(n_rows, 2, generator=generator, dtype=torch.float64)
    x = even(n_rows)
    return Rows(x, torch.cat([torch.sin(9 * x), torch.cos(9 * x)], dim=1) + noise)


def test_weights_are_those_of_a_regression_on_lags() -> None:
    rows = two_outputs(90)
    model = unsolved(n_lags=3, n_outputs=2, n_features=4)
    model.set_train_data(rows.x, rows.y)
    model.solve(*model.statistics(rows.x, rows.y))
    lags = torch.cat([rows.y[2:-1], rows.y[1:-2], rows.y[:-3]], dim=1)
    plain = DeepLFM(model.step_model.config, seed=3).double()
    plain.likelihood.load_state_dict(model.likelihood.state_dict())
    plain.condition(lags, rows.y[3:] - rows.y[2:-1])
    torch.testing.assert_close(model.step_model.exact_weights.mean, plain.exact_weights.mean)


def test_new_rows_continue_the_record_as_if_they_had_always_been_there() -> None:
    rows = two_outputs(120)
    models = [unsolved(n_lags=3, n_outputs=2, n_features=4) for _ in range(2)]
    whole, part = models
    whole.set_train_data(rows.x, rows.y)
    whole.solve(*whole.statistics(rows.x, rows.y))
    part.set_train_data(rows.x[:100], rows.y[:100])
    part.solve(*part.statistics(rows.x[:100], rows.y[:100]))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0)) + 100
    part.condition_on(rows.x[order], rows.y[order])
    x = even(160)
    torch.testing.assert_close(part.posterior(x).mean, whole.posterior(x).mean)
    torch.testing.assert_close(part.posterior(x).variance(), whole.posterior(x).variance())


def test_a_gap_before_new_rows_is_bridged_with_variance() -> None:
    model = known()
    n_rows = len(model.series)
    mean, _ = closed_form(model.series, 6)
    x = even(n_rows + 8)
    model.condition_on(x[n_rows + 6 :], torch.ones(2, 1).double())
    assert len(model.series) == n_rows + 8
    torch.testing.assert_close(model.series[n_rows : n_rows + 6, 0], mean)
    variance = model.variance[n_rows : n_rows + 6, 0]
    assert (variance.diff() > 0).all()
    assert (model.variance[n_rows + 6 :] == 0).all()


def test_rows_off_the_grid_and_before_it_add_nothing() -> None:
    model = known()
    before = model.step_model.exact_weights.precision.clone(), len(model.series)
    model.condition_on(torch.tensor([[4.011], [-3.0]]).double(), torch.ones(2, 1).double())
    torch.testing.assert_close(model.step_model.exact_weights.precision, before[0], rtol=0, atol=0)
    assert len(model.series) == before[1]


@pytest.mark.parametrize("n_lags", [1, 3])
def test_lags_are_the_rows_before_the_latest_first(n_lags: int) -> None:
    rows = two_outputs(20)
    model = unsolved(n_lags=n_lags, n_outputs=2)
    model.set_train_data(rows.x, rows.y)
    lags = model.lags(torch.tensor([7]))
    torch.testing.assert_close(lags[0], torch.cat([rows.y[7 - k] for k in range(1, n_lags + 1)]))
