"""Equations, gains, forces and spectra of any linear system, in the user's units."""

import math

import numpy as np
import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.inspection.fitted import FittedModel
from deeplfm.inspection.forces import forces
from deeplfm.inspection.spectra import equations, filters, spectrum
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage

HOUR = 5.0  # one unit of the model's time
COEFFICIENTS = {"ode1": [2.5], "ode2": [2 * 0.2 * 8.0, 8.0**2]}


def model(system: str, lower_limit: float = -math.inf) -> DeepLFM:
    """One output whose system has the coefficients above, in the model's units of time."""
    block = BlockConfig(
        system,
        n_forces=2,
        n_features=6,
        frequencies="nodes",
        options={} if system == "eq" else {"lower_limit": lower_limit},
    )
    config = ModelConfig(1, (LayerConfig(1, (block,), "exact"),), n_samples=1, n_paths=1)
    made = DeepLFM(config, seed=0).double()
    features = made.output_layer.blocks[0].features
    with torch.no_grad():
        features.center.copy_(torch.tensor([20.0, 50.0]))
        if system == "ode1":
            features.log_decay.fill_(math.log(2.5))
        elif system == "ode2":
            features.log_natural_frequency.fill_(math.log(8.0))
            features.log_damping.fill_(math.log(0.2))
        features.set_sensitivity(1 / features.gain(features.center[0, 0]))  # so that it can respond
    rows = torch.linspace(0, 1, 80, dtype=torch.float64)[:, None]
    made.condition(rows, torch.sin(20 * rows + 1) + 0.5 * torch.cos(50 * rows))
    return made


def fitted(system: str, lower_limit: float = -math.inf) -> FittedModel:
    average = ModelAverage.of(model(system, lower_limit))
    units = (HOUR, np.array([3.0]), np.zeros(1), np.array([False]))
    return FittedModel(average, ["m"], ["y"], *units)


@pytest.mark.parametrize("system", COEFFICIENTS)
def test_equations_have_their_coefficients_in_the_units_of_the_user(system: str) -> None:
    (equation,) = equations(fitted(system))
    expected = np.array(COEFFICIENTS[system])
    assert equation.coefficients == pytest.approx(
        expected / HOUR ** np.arange(1, 1 + len(expected))
    )
    decay = {"ode1": 2.5, "ode2": 0.2 * 8.0}[system]
    assert equation.time_constant == pytest.approx(HOUR / decay)


@pytest.mark.parametrize("system", COEFFICIENTS)
def test_filters_have_the_gain_of_the_equation(system: str) -> None:
    (found,) = filters(fitted(system))
    (equation,) = equations(fitted(system))
    omega = 2 * np.pi * found.frequency
    gain = 1 / np.abs(np.polyval([1.0, *equation.coefficients], 1j * omega))
    assert found.value == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("system", [*COEFFICIENTS, "eq"])
def test_powers_of_the_spectrum_add_up_to_the_mean_square(system: str) -> None:
    subject = fitted(system)
    (found,) = spectrum(subject)
    assert found.frequency == pytest.approx(np.array([20, 50]) / (2 * np.pi * HOUR))
    middles = (torch.arange(4000, dtype=torch.float64)[:, None] + 0.5) / 4000
    mean_square = subject.average.posterior(middles).mean.square().mean().item()
    assert found.value.sum() == pytest.approx(9 * mean_square, rel=1e-5)


@pytest.mark.parametrize("lower_limit", [-math.inf, 0.0])
@pytest.mark.parametrize("system", COEFFICIENTS)
def test_a_force_drives_the_response_by_the_equation(system: str, lower_limit: float) -> None:
    subject = fitted(system, lower_limit)
    time, step = torch.linspace(0.1, 1.2, 12, dtype=torch.float64)[:, None], 1e-3
    values = [3 * subject.average.posterior(time + k * step).mean for k in range(-3, 4)]
    response = torch.stack(values)[..., 0].numpy()
    slope = [-1 / 60, 3 / 20, -3 / 4, 0, 3 / 4, -3 / 20, 1 / 60] @ response / (HOUR * step)
    bend = [1 / 90, -3 / 20, 3 / 2, -49 / 18, 3 / 2, -3 / 20, 1 / 90] @ response
    derivatives = [response[3], slope, bend / (HOUR * step) ** 2]
    (equation,) = equations(subject)
    order = len(equation.coefficients)
    expected = derivatives[order] + sum(
        p * derivatives[order - i] for i, p in enumerate(equation.coefficients, 1)
    )
    (force,) = forces(subject, time)
    assert force.mean == pytest.approx(expected, rel=1e-4, abs=1e-5 * np.abs(expected).max())
