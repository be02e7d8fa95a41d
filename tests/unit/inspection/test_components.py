"""Components: closed forms, sums to the forecast, averages of members, logarithms."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from deeplfm import DeepLFMForecaster, DeepLFMRegressor, InputError
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.inspection.components import components, member_moments
from deeplfm.inspection.fitted import FittedModel
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage
from deeplfm.statespace import StateSpaceLFM

X = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]
NEW = torch.linspace(0.2, 1.4, 17, dtype=torch.float64)[:, None]
Y = torch.cat([torch.sin(9 * X) + X, torch.cos(5 * X)], 1)
SEASON = BlockConfig(
    "eq", "original", n_forces=2, n_features=4, frequencies="prior-fixed", name="season"
)
TREND = replace(SEASON, n_forces=1, n_features=1, extras=("constant", "trend"), name="trend")
LEVEL = replace(SEASON, system="ode1", n_features=5, name="level")
SCALE, SHIFT = torch.tensor([[3.0, 0.2], [5.0, 2.0]], dtype=torch.float64)
UNNAMED = replace(LEVEL, name="")


def make(*blocks: BlockConfig, weights: str = "exact", hidden: int = 0, **layer: object) -> DeepLFM:
    """A model of two outputs with named blocks, conditioned on the rows."""
    layers = [LayerConfig(hidden, (replace(LEVEL, inputs="all"),))] if hidden else []
    layers.append(LayerConfig(2, blocks, weights, **layer))
    model = DeepLFM(ModelConfig(1, tuple(layers), n_samples=2, n_paths=3 if hidden else 1), seed=1)
    model = model.double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).double())
        model.gaussian.log_variance.fill_(math.log(0.01))
    if weights == "exact":
        model.condition(X, Y)
    return model


def fitted(average: ModelAverage, *names: str, is_log: bool = False) -> FittedModel:
    """Units in which a standardised 0 is 5 and 2, and 1 is 3 and 0.2 more."""
    units = (1.0, SCALE.numpy(), SHIFT.numpy(), np.array([False, is_log]))
    return FittedModel(average, names, ["a", "b"], *units)


def forecast(average: ModelAverage) -> torch.Tensor:
    return average.posterior(NEW).mean * SCALE + SHIFT


def total(found: dict) -> torch.Tensor:
    return sum(component.mean for component in found.values())


@torch.no_grad()
@pytest.mark.parametrize("weights", ["exact", "full", "mean-field"])
@pytest.mark.parametrize(
    "layer", [{}, {"own_features": True}, {"shared_weights": True}], ids=["", "own", "shared"]
)
def test_components_have_the_moments_of_draws_of_the_weights(weights: str, layer: dict) -> None:
    """Declared failure rate: 1e-6 for each of 68 comparisons of a mean, less for variances."""
    model, n_draws = make(SEASON, TREND, weights=weights, **layer), 4000
    found = member_moments(model, "only", NEW)
    assert list(found) == ["season", "trend"]
    output = model.output_layer
    noise = output.path_noise(n_draws, torch.Generator().manual_seed(0))
    drawn = output.weights.draw(noise)  # S G K U
    slices = {
        b.name: columns for b, columns in zip(output.blocks, output.column_slices(), strict=True)
    }
    for name, (mean, variance) in found.items():
        columns = slices[name]
        alone = torch.zeros_like(drawn)
        alone[:, :, columns] = drawn[:, :, columns]
        features = torch.cat(list(output.features(NEW, 1).whole()), -1)  # G N K
        values = output.by_output(features @ alone)  # S N D
        error = (values.mean(0) - mean) / (variance / n_draws).sqrt()
        assert float(error.abs().max()) < norm.isf(5e-7)
        assert values.var(0).numpy() == pytest.approx(variance.numpy(), rel=0.15)


@pytest.mark.parametrize("hidden", [0, 2])
@pytest.mark.parametrize("weights", ["exact", "mean-field"])
def test_they_add_up_to_the_forecast_in_the_units_of_the_user(hidden: int, weights: str) -> None:
    deep = replace(LEVEL, inputs="all", name="deep")
    average = ModelAverage.of(make(TREND, SEASON, deep, weights=weights, hidden=hidden))
    found = components(fitted(average, "only"), NEW)
    assert list(found) == ["trend", "season", "deep"]
    assert total(found).numpy() == pytest.approx(forecast(average).numpy(), abs=1e-9)


def test_paths_of_hidden_layers_are_mixed() -> None:
    """The only block depends on the hidden layer: its component has the moments of the forecast."""
    model = make(replace(LEVEL, inputs="hidden", name="deep"), hidden=2)
    ((name, (mean, variance)),) = member_moments(model, "only", NEW).items()
    posterior = model.posterior(NEW)
    assert name == "deep"
    assert torch.allclose(mean, posterior.mean)
    assert torch.allclose(variance, posterior.variance(latent=True))


@pytest.mark.parametrize(
    ("blocks", "carrier"),
    [
        ((SEASON, TREND, LEVEL), "trend"),
        ((SEASON, LEVEL), "level"),
        ((SEASON,), "mean"),
        ((UNNAMED,), "mean"),
    ],
)
def test_one_component_includes_the_mean_of_the_targets(
    blocks: tuple[BlockConfig, ...], carrier: str
) -> None:
    average = ModelAverage.of(make(*blocks))
    found = components(fitted(average, "only"), NEW)
    plain = components(replace(fitted(average, "only"), output_shift=np.zeros(2)), NEW)
    assert next(iter(found)) == carrier
    for name, component in found.items():
        for value, other in zip(component, plain[name], strict=True):
            assert torch.allclose(value, other + SHIFT * (name == carrier))
    assert total(found).numpy() == pytest.approx(forecast(average).numpy(), abs=1e-9)


def test_blocks_of_one_name_are_one_component_and_unnamed_ones_have_that_of_their_system() -> None:
    second = replace(LEVEL, name="season")
    model = make(SEASON, UNNAMED, second)
    found = member_moments(model, "only", NEW)
    assert list(found) == ["season", "ode1"]
    assert torch.allclose(sum(mean for mean, _ in found.values()), model.posterior(NEW).mean)


def test_an_average_mixes_components_by_name_and_absent_ones_are_zero() -> None:
    one, other = make(TREND, SEASON), make(SEASON, LEVEL)
    weight = torch.tensor([[0.7, 0.2], [0.3, 0.8]]).double()
    average = ModelAverage([one, other], weight)
    model = fitted(average, "one", "other")
    found = components(model, NEW, coverage=0.9)
    assert set(found) == {"trend", "season", "level"}
    assert total(found).numpy() == pytest.approx(forecast(average).numpy(), abs=1e-9)
    first, second = (member_moments(member, "", NEW) for member in (one, other))
    zero = torch.zeros(17, 2).double()
    for name, component in found.items():
        (m1, v1), (m2, v2) = first.get(name, (zero, zero)), second.get(name, (zero, zero))
        mean = weight[0] * m1 + weight[1] * m2
        variance = weight[0] * (v1 + (m1 - mean) ** 2) + weight[1] * (v2 + (m2 - mean) ** 2)
        reach = norm.ppf(0.95) * variance.sqrt() * SCALE
        assert torch.allclose(component.high - component.mean, reach)
        assert torch.allclose(component.mean - component.low, reach)


def test_weights_may_differ_by_row_where_a_series_has_gaps() -> None:
    one, other = make(TREND, SEASON), make(LEVEL)
    ahead = torch.tensor([[1.0, 0.5], [0.0, 0.5]]).double()
    span = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    average = ModelAverage([one, other], ahead, ahead.flip(0), span)
    found = components(fitted(average, "one", "other"), NEW)
    assert total(found).numpy() == pytest.approx(forecast(average).numpy(), abs=1e-9)
    is_beyond = NEW[:, 0] > 1
    assert (found["level"].mean[is_beyond, 0] == 0).all()
    assert (found["level"].mean[~is_beyond, 0] != 0).all()


def test_components_of_a_logarithm_multiply_to_the_median() -> None:
    average = ModelAverage.of(make(TREND, SEASON))
    model = fitted(average, "only", is_log=True)
    found = components(model, NEW)
    product = math.prod(component.mean for component in found.values())[:, 1]
    median = torch.exp(average.posterior(NEW).quantile(0.5) * 0.2 + 2)[:, 1]
    assert product.numpy() == pytest.approx(median.numpy(), rel=1e-9)
    mean, variance = member_moments(average.members[0], "", NEW)["season"]
    factor = found["season"]
    assert torch.allclose(factor.mean[:, 1], torch.exp(0.2 * mean[:, 1]))
    high = torch.exp(0.2 * (mean + norm.ppf(0.975) * variance.sqrt()))[:, 1]
    assert torch.allclose(factor.high[:, 1], high)
    assert torch.allclose(total(found)[:, 0], forecast(average)[:, 0])


def test_the_factors_of_several_models_multiply_to_the_median_of_their_mixture() -> None:
    weight = torch.tensor([[0.7, 0.2], [0.3, 0.8]]).double()
    average = ModelAverage([make(TREND, SEASON), make(SEASON, LEVEL)], weight)
    found = components(fitted(average, "one", "other", is_log=True), NEW)
    product = math.prod(component.mean for component in found.values())[:, 1]
    median = torch.exp(average.posterior(NEW).quantile(0.5) * 0.2 + 2)[:, 1]
    assert product.numpy() == pytest.approx(median.numpy(), rel=1e-9)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 95])
def test_a_coverage_that_is_no_probability_is_refused(coverage: float) -> None:
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        components(fitted(ModelAverage.of(make(TREND)), "only"), NEW, coverage)


def means(table: pd.DataFrame) -> pd.DataFrame:
    return table.xs("mean", axis=1, level="value")


HOURS = pd.date_range("2024-01-01", periods=72, freq="h", tz="Europe/Berlin", name="hour")
WAVES = 20 + 5 * np.sin(np.arange(72) * 2 * np.pi / 12)
FRAME = pd.DataFrame({"load": WAVES, "price": 1 + 0.1 * WAVES}, index=HOURS)


@pytest.fixture(scope="module")
def forecaster() -> DeepLFMForecaster:
    return DeepLFMForecaster(n_steps=3, time_limit=60).fit(FRAME)


def test_components_of_a_forecaster_add_up_to_its_forecast(forecaster: DeepLFMForecaster) -> None:
    table = forecaster.components(12, coverage=0.8)
    assert table.columns.names == ["target", "component", "value"]
    assert list(table.columns.unique("target")) == ["load", "price"]
    forecast = forecaster.forecast(12)
    assert table.index.equals(forecast.index)
    for target in ("load", "price"):
        assert means(table[target]).sum(axis=1).to_numpy() == pytest.approx(
            forecast[target].to_numpy(), abs=1e-9
        )
        for name in table[target].columns.unique("component"):
            part = table[target][name]
            assert ((part["low"] <= part["mean"]) & (part["mean"] <= part["high"])).all()
    past = forecaster.components(times=HOURS[10:20])
    assert past.index.equals(HOURS[10:20])
    expected = forecaster.forecast(times=HOURS[10:20])
    assert means(past["load"]).sum(axis=1).to_numpy() == pytest.approx(
        expected["load"].to_numpy(), abs=1e-9
    )


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("trend + season(12h) + level(damped)", ["trend", "level", "season"]),
        ("sinusoids(4) + broadband", ["mean", "sinusoids", "broadband"]),
        ("deep(2) + broadband", ["mean", "deep", "broadband"]),
        ("warped + broadband", ["mean", "warped season", "broadband"]),
        ("composition", ["mean", "composition"]),
        ("lfm", ["level", "shared forces"]),
    ],
)
def test_every_term_is_a_component(model: str, names: list[str]) -> None:
    forecaster = DeepLFMForecaster(model=model, n_steps=2).fit(FRAME[["load"]])
    table = forecaster.components(6)["load"]
    assert list(table.columns.unique("component")) == names
    assert means(table).sum(axis=1).to_numpy() == pytest.approx(
        forecaster.forecast(6)["load"].to_numpy(), abs=1e-9
    )


def test_members_that_are_no_sum_of_terms_are_one_component_each(
    forecaster: DeepLFMForecaster,
) -> None:
    average, names = forecaster.regressor_.model_, forecaster.regressor_.fit_result_.names
    x = torch.tensor([[1.02], [1.1]], dtype=torch.float64)
    own = {
        name
        for name, member in zip(names, average.members, strict=True)
        if not isinstance(member, DeepLFM | StateSpaceLFM)
    }
    for name, member in zip(names, average.members, strict=True):
        found = member_moments(member, name, x)
        mean = sum(mean for mean, _ in found.values())
        assert torch.allclose(mean, member.posterior(x).mean)
        assert (list(found) == [name]) == (name in own)


def test_logarithms_and_rows_of_a_table_in_the_form_of_the_question() -> None:
    x = pd.DataFrame(np.random.default_rng(0).uniform(size=(40, 2)), index=range(3, 43))
    y = pd.Series(np.exp(x[0] - x[1]), name="yield", index=x.index)
    model = DeepLFMRegressor(model="table", n_steps=3, log_targets=True).fit(x, y)
    table = model.components(x)
    assert table.index.equals(x.index)
    product = means(table["yield"]).prod(axis=1)
    assert product.to_numpy() == pytest.approx(model.predict(x).to_numpy(), rel=1e-9)


def test_times_of_an_array_are_the_index() -> None:
    time = np.linspace(3, 9, 50)
    model = DeepLFMRegressor(model="sinusoids + broadband", n_steps=2).fit(time, np.sin(3 * time))
    table = model.components(time[:7])
    assert table.index.to_numpy() == pytest.approx(time[:7])
    assert means(table["y"]).sum(axis=1).to_numpy() == pytest.approx(
        model.predict(time[:7]), abs=1e-9
    )


def test_the_paper_sums_to_rounding_of_its_float32() -> None:
    time = np.linspace(0, 6, 60)
    model = DeepLFMRegressor(model="paper", n_steps=3).fit(time, np.sin(3 * time))
    table = model.components(time)
    assert means(table["y"]).sum(axis=1).to_numpy() == pytest.approx(model.predict(time), abs=1e-5)
