"""A force and the response to it satisfy their differential equation, mean by mean and draw by draw.

The reference differentiates the response numerically: central differences of fourth order, f' + γf.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.stats import chi2, norm

import deeplfm
from deeplfm import ConfigError, DeepLFMRegressor
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.inspection.fitted import FittedModel
from deeplfm.inspection.forces import Curve, forces
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage

TIME_SCALE = 40.0
OUTPUT_SCALE = np.array([3.0, 0.2])
TIME = torch.linspace(0.1, 1.2, 12, dtype=torch.float64)[:, None]
STEP = 1e-3


def make(
    lower_limit: float,
    frequencies: str = "prior-fixed",
    extras: tuple[str, ...] = (),
    hidden: int = 0,
    weights: str = "exact",
    **layer: object,
) -> DeepLFM:
    """Two outputs of equations with two forces, every parameter off its default."""
    block = BlockConfig(
        n_forces=2,
        n_features=5,
        frequencies=frequencies,
        extras=extras,
        options={"lower_limit": lower_limit},
    )
    layers = [LayerConfig(hidden, (block,))] if hidden else []
    layers.append(LayerConfig(2, (block,), weights, **layer))
    model = DeepLFM(ModelConfig(1, tuple(layers), n_samples=2, n_paths=3), seed=1).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).double())
        for block in (block for part in model.layers for block in part.blocks):
            block.features.log_lengthscale.sub_(2.0)
        model.likelihood.log_variance.fill_(math.log(0.01))
    rows = torch.linspace(0, 1, 30, dtype=torch.float64)[:, None]
    if weights == "exact":
        model.condition(rows, torch.cat([torch.sin(9 * rows), torch.cos(5 * rows)], 1))
    return model


def forces_of(model: DeepLFM) -> list[Curve]:
    units = (TIME_SCALE, OUTPUT_SCALE, np.zeros(2), np.zeros(2, dtype=bool))
    return forces(FittedModel(ModelAverage.of(model), ["only"], ["a", "b"], *units), TIME)


def driven(
    response: Callable[[torch.Tensor], torch.Tensor], decay: torch.Tensor, scale: object
) -> np.ndarray:
    """f' + γf in the user's units; the last two dimensions are rows and outputs."""
    slope = sum(
        weight * (response(TIME + k * STEP) - response(TIME - k * STEP))
        for k, weight in ((1, 2 / 3), (2, -1 / 12))
    )
    rate = slope / STEP + decay * response(TIME)
    return rate.detach().numpy() * np.asarray(scale) / TIME_SCALE


def decay_of(model: DeepLFM, layer: int = -1) -> torch.Tensor:
    return model.layers[layer].blocks[0].features.decay[:, 0]


@pytest.mark.parametrize("lower_limit", [-math.inf, 0.0])
@pytest.mark.parametrize(
    ("frequencies", "extras", "weights"),
    [
        ("prior-fixed", (), "exact"),
        ("nodes", (), "exact"),
        ("var-fixed", (), "exact"),
        ("prior-fixed", ("initial_state",), "exact"),
        ("var-fixed", (), "mean-field"),
        ("prior-fixed", (), "full"),
    ],
)
@pytest.mark.parametrize("own_features", [True, False])
def test_the_mean_response_is_driven_by_the_mean_force(
    lower_limit: float, frequencies: str, extras: tuple[str, ...], weights: str, own_features: bool
) -> None:
    model = make(lower_limit, frequencies, extras, weights=weights, own_features=own_features)
    found = forces_of(model)
    assert [curve.label for curve in found] == ["a", "b"]
    expected = driven(lambda x: model.posterior(x).mean, decay_of(model), OUTPUT_SCALE)
    assert expected.std(0).min() > 1e-4
    for d, curve in enumerate(found):
        assert curve.mean == pytest.approx(expected[:, d], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("lower_limit", [-math.inf, 0.0])
def test_outputs_that_share_forces_respond_to_their_sum(lower_limit: float) -> None:
    model = make(lower_limit, shared_weights=True)
    found = forces_of(model)
    assert [curve.label for curve in found] == ["force 1", "force 2"]
    sensitivity = model.output_layer.blocks[0].features.sensitivity[:, 0].detach().numpy()
    entering = np.stack([curve.mean for curve in found], 1) @ sensitivity.T
    expected = driven(lambda x: model.posterior(x).mean, decay_of(model), OUTPUT_SCALE)
    assert entering * OUTPUT_SCALE / TIME_SCALE == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_hidden_units_have_forces_too() -> None:
    model = make(0.0, hidden=3)
    found = forces_of(model)
    assert [curve.label for curve in found] == [f"layer 1, unit {unit}" for unit in (1, 2, 3)]
    layer = model.layers[0]

    def response(x: torch.Tensor) -> torch.Tensor:
        return layer.moments(layer.features(x, 1))[0]

    expected = driven(response, decay_of(model, 0), 1.0)
    for unit, curve in enumerate(found):
        assert curve.mean == pytest.approx(expected[:, unit], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("lower_limit", [-math.inf, 0.0])
@pytest.mark.parametrize("weights", ["exact", "mean-field"])
def test_the_spread_of_a_force_is_that_of_draws_of_the_weights(
    lower_limit: float, weights: str
) -> None:
    """Declared failure rate: 1e-6 for each comparison of a mean or a variance, 192 of them."""
    model, n_draws = make(lower_limit, weights=weights, own_features=True), 2000
    draws = driven(lambda x: model.draw(x, n_draws, seed=0), decay_of(model), OUTPUT_SCALE)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], n_draws - 1) / (n_draws - 1)
    for d, curve in enumerate(forces_of(model)):
        ratio = draws[:, :, d].var(0, ddof=1) / curve.std**2
        assert (ratio > low).all() and (ratio < high).all()
        error = (draws[:, :, d].mean(0) - curve.mean) / curve.std * math.sqrt(n_draws)
        assert np.abs(error).max() < norm.ppf(1 - 5e-7)


def true_force(time: np.ndarray) -> np.ndarray:
    bumps = 2 * np.exp(-((time - 3) ** 2) / 2) - 1.5 * np.exp(-((time - 7) ** 2))
    return bumps + 0.6 * np.sin(2 * time)


def test_a_shared_force_and_its_decays_are_recovered_from_three_outputs(tmp_path: Path) -> None:
    decay, sensitivity = np.array([0.3, 2.0, 0.8]), np.array([1.0, 3.0, -1.0])
    time = np.linspace(0, 10, 150)
    solution = solve_ivp(
        lambda t, f: sensitivity * true_force(t) - decay * f,
        (0, 10),
        np.zeros(3),
        t_eval=time,
        rtol=1e-8,
        atol=1e-10,
    )
    values = solution.y.T
    noise = np.random.default_rng(0).normal(size=values.shape)
    model = DeepLFMRegressor(model="shared_forces(n_features=40)", n_steps=200, random_state=0)
    model.fit(time, values + 0.03 * values.std(0) * noise)
    (force,) = model.forces(time)
    assert abs(np.corrcoef(force.mean, true_force(time))[0, 1]) > 0.98
    (member,) = model.model_.members
    found = decay_of(member).detach().numpy() / model.scaling_.x_scale[0]
    assert found == pytest.approx(decay, rel=0.2)
    shares = member.output_layer.blocks[0].features.sensitivity[:, 0, 0].detach().numpy()
    ratio = shares * model.scaling_.y_scale
    assert ratio / ratio[0] == pytest.approx(sensitivity, rel=0.2)

    # The band includes the uncertainty of decays and sensitivities: about three times that of q(W).
    unit, zero = np.polyfit(force.mean, true_force(time), 1)
    error = np.abs(zero + unit * force.mean - true_force(time)) / abs(unit)
    assert 0.9 <= (error < 1.96 * force.std).mean() <= 0.99
    model.save(tmp_path / "model")
    (loaded,) = deeplfm.load(tmp_path / "model").forces(time)
    assert loaded.std == pytest.approx(force.std, rel=1e-12)
    member.output_layer.parameter_spread.zero_()
    (given,) = model.forces(time)
    assert (error < 1.96 * given.std).mean() < 0.8


@pytest.mark.parametrize(
    "options",
    [
        {"model": "sinusoids(system=eq) + broadband(system=eq)"},
        {"model": "shared_forces(system=eq)"},
        {"model": "table"},
    ],
)
def test_where_there_is_no_equation_in_time_there_is_no_force(options: dict[str, object]) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2 if options["model"] == "table" else 1))
    model = DeepLFMRegressor(n_steps=1, **options).fit(x, x[:, 0])
    with pytest.raises(ConfigError, match=r"no layer .* is a differential equation in time"):
        model.forces(x)
