"""The classical latent force model: outputs of different systems that share their forces."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from deeplfm import ConfigError, DeepLFMRegressor
from deeplfm.terms import BuildContext, SharedForces, Sum
from deeplfm.terms.shared_forces import bandwidth_of
from deeplfm.training import Rows

TIME = np.linspace(0, 10, 100)


def force(time: np.ndarray) -> np.ndarray:
    return np.sin(2 * time) + 2 * np.exp(-((time - 6) ** 2))


def responses(decay: list[float], sensitivity: list[float]) -> np.ndarray:
    """Outputs of known systems, by an integrator of differential equations."""
    system = np.array(sensitivity), np.array(decay)
    solution = solve_ivp(
        lambda t, f: system[0] * force(t) - system[1] * f,
        (0, 10),
        np.zeros(len(decay)),
        t_eval=TIME,
        rtol=1e-8,
    )
    noise = np.random.default_rng(0).normal(size=(len(decay), 100))
    return (solution.y + 0.02 * noise).T


def quick(**options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(**{"model": "lfm", "n_steps": 60} | options)


@pytest.mark.parametrize(
    ("decay", "sensitivity"),
    [([0.5, 3.0], [1.0, -2.0]), ([0.3, 1.0, 3.0], [-1.0, 1.0, 1.0])],
)
def test_an_output_is_predicted_from_the_others_where_it_is_missing(
    decay: list[float], sensitivity: list[float]
) -> None:
    values = responses(decay, sensitivity)
    values += [5.0, -3.0, 0.5][: len(decay)]  # levels that no shared force explains
    hidden = values.copy()
    hidden[50:75, 1] = np.nan  # the bump, and a wave
    model = quick(n_steps=120).fit(TIME, hidden)
    error = model.predict(TIME[50:75])[:, 1] - values[50:75, 1]
    assert np.square(error).mean() < 0.03 * values[:, 1].var()
    (curve,) = model.forces(TIME)
    assert abs(np.corrcoef(curve.mean, force(TIME))[0, 1]) > 0.98


def test_outputs_share_weights_and_forces_but_not_systems() -> None:
    (member,) = (
        quick(model="shared_forces(2, 40)", n_steps=1)
        .fit(TIME, responses([1, 2], [1, 1]))
        .model_.members
    )
    block, level = member.output_layer.blocks
    assert len(member.layers) == 1
    assert member.exact_weights.mean.shape == (1, 2 * 2 * 40 + 2 * 2, 1)
    assert torch.equal(level.features.sensitivity[:, 0] != 0, torch.eye(2, dtype=torch.bool))
    assert block.features.decay.shape == (2, 1)
    assert block.features.lengthscale.shape == (1, 1, 2)


def test_forces_begin_with_the_signs_of_the_outputs_and_different_from_each_other() -> None:
    values = torch.as_tensor(responses([1, 1.1, 1.2], [1, -1, 1]))
    values[3:30, 0] = torch.nan
    rows = Rows(torch.linspace(0, 1, 100, dtype=torch.float64)[:, None], values)
    for n_forces in (1, 2, 5):
        model = Sum((SharedForces(n_forces, 5),)).build(rows, BuildContext())
        sensitivity = model.output_layer.block("shared forces").features.sensitivity[:, 0].detach()
        assert sensitivity.abs().min() > 0
        sign = sensitivity[:, 0].sign() * sensitivity[0, 0].sign()
        assert sign.tolist() == [1, -1, 1]
        assert torch.linalg.matrix_rank(sensitivity) == min(n_forces, 3)


@pytest.mark.parametrize("system", ["ode1", "eq"])
def test_one_output_is_fitted_too(system: str) -> None:
    values = responses([1.0], [1.0])[:, 0]
    model = quick(model=f"shared_forces(system={system})", n_steps=30).fit(TIME, values)
    assert model.score(TIME, values) > 0.98


def test_the_band_holds_nine_tenths_of_the_power() -> None:
    time = torch.linspace(0, 1, 200, dtype=torch.float64)[:, None]
    slow, fast = torch.sin(20 * time), torch.sin(90 * time)
    assert bandwidth_of(Rows(time, slow)) == pytest.approx(20, rel=0.25)
    assert bandwidth_of(Rows(time, torch.cat([slow, fast], 1))) == pytest.approx(90, rel=0.1)
    assert bandwidth_of(Rows(time, torch.full_like(time, torch.nan))) > 0


def test_a_table_has_no_shared_forces() -> None:
    with pytest.raises(ConfigError, match="is a model of time"):
        quick().fit(np.ones((20, 2)), np.ones(20))
