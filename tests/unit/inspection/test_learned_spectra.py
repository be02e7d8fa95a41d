"""Spectra and hidden layers of a fitted model, against known signals."""

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.inspection.forces import Curve
from deeplfm.inspection.spectra import Spectrum

SPAN = 60.0
TIME = np.linspace(0, SPAN, 120)
NOISE = 0.05 * np.random.default_rng(0).normal(size=(120, 2))
# two outputs, in units of their own: waves of power 4.5 at 0.2, and of 800 at 0.35 cycles a unit
PAIR = np.stack(
    [
        5 + 3 * np.sin(2 * np.pi * 0.2 * TIME),
        40 * np.cos(2 * np.pi * 0.35 * TIME + 1),
    ],
    axis=1,
)


def quick(**options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(**{"model": "sinusoids + broadband", "n_steps": 3} | options)


@pytest.fixture(scope="module")
def lines() -> DeepLFMRegressor:
    return quick().fit(TIME, PAIR + NOISE)


@pytest.fixture(scope="module")
def deep() -> DeepLFMRegressor:
    return quick(model="deep(3, 2) + sinusoids(8) + broadband").fit(TIME, PAIR + NOISE)


def band(spectrum: Spectrum, frequency: float, width: float = 1.5 / SPAN) -> float:
    return float(spectrum.value[np.abs(spectrum.frequency - frequency) < width].sum())


@pytest.mark.parametrize(
    "model",
    [
        "sinusoids + broadband",
        "sinusoids(system=eq) + broadband(system=eq)",
        "sinusoids(system=ode2) + broadband(system=ode2)",
        "deep(1) + sinusoids(8) + broadband",
    ],
)
def test_a_sinusoid_has_half_its_squared_amplitude_at_its_frequency(model: str) -> None:
    model = quick(model=model).fit(TIME, PAIR + NOISE)
    first, second = model.spectrum()
    assert [first.label, second.label] == ["y0", "y1"]
    assert first.member in model.fit_result_.names
    assert band(first, 0.2) == pytest.approx(4.5, rel=0.1)
    assert band(second, 0.35) == pytest.approx(800, rel=0.1)
    for spectrum, total in ((first, 4.5), (second, 800)):
        assert (spectrum.value >= 0).all()
        assert (np.diff(spectrum.frequency) >= 0).all()
        strong = spectrum.frequency > 1 / SPAN  # the level has no frequency
        assert spectrum.value[strong].sum() == pytest.approx(total, rel=0.2)


def test_a_line_stands_where_its_wave_is(lines: DeepLFMRegressor) -> None:
    for spectrum, frequency in zip(lines.spectrum(), (0.2, 0.35), strict=True):
        strongest = spectrum.frequency[spectrum.value.argmax()]
        assert strongest == pytest.approx(frequency, abs=0.1 / SPAN)


def test_a_longer_unit_of_time_has_lower_frequencies(lines: DeepLFMRegressor) -> None:
    slow = quick().fit(60 * TIME, PAIR + NOISE)
    for fast, found in zip(lines.spectrum(), slow.spectrum(), strict=True):
        assert found.frequency == pytest.approx(fast.frequency / 60, rel=1e-9, abs=1e-15)
        assert found.value == pytest.approx(fast.value, rel=1e-6, abs=1e-9)
    for fast, found in zip(lines.filters(), slow.filters(), strict=True):
        assert found.frequency == pytest.approx(fast.frequency / 60, rel=1e-9)
        assert found.value == pytest.approx(60 * fast.value, rel=1e-6)
    for fast, found in zip(lines.forces(TIME), slow.forces(60 * TIME), strict=True):
        assert found.mean == pytest.approx(fast.mean / 60, rel=1e-5, abs=1e-7)
        assert found.std == pytest.approx(fast.std / 60, rel=1e-5)


def test_larger_outputs_have_more_power(lines: DeepLFMRegressor) -> None:
    large = quick().fit(TIME, 10 * (PAIR + NOISE))
    for small, found in zip(lines.spectrum(), large.spectrum(), strict=True):
        assert found.value == pytest.approx(100 * small.value, rel=1e-5, abs=1e-7)


def test_filters_have_the_gain_of_their_equation(lines: DeepLFMRegressor) -> None:
    filters = lines.filters()
    assert [item.label for item in filters] == [
        f"layer 1, {output}, {kind}"
        for kind in ("sinusoids", "broadband")
        for output in ("y0", "y1")
    ]
    blocks = lines.model_.members[0].output_layer.blocks
    decays = [block.features.decay[d, 0].item() / SPAN for block in blocks for d in (0, 1)]
    for item, decay in zip(filters, decays, strict=True):
        omega = 2 * np.pi * item.frequency
        assert item.value == pytest.approx(1 / np.sqrt(decay**2 + omega**2), rel=1e-6)
        assert omega[0] < decay < omega[-1]


def test_where_there_is_no_equation_nothing_is_filtered() -> None:
    model = quick(model="sinusoids(system=eq) + broadband(system=eq)").fit(TIME, PAIR)
    assert model.filters() == []
    assert model.equations() == []


def test_hidden_layers_are_what_prediction_makes_of_time(deep: DeepLFMRegressor) -> None:
    asked = np.linspace(0, 70, 25)
    curves = deep.hidden_layers(asked)
    assert [curve.label for curve in curves] == [
        "layer 1, unit 1",
        "layer 1, unit 2",
        "layer 1, unit 3",
        "layer 2, unit 1",
        "layer 2, unit 2",
    ]
    assert {curve.member for curve in curves} == set(deep.fit_result_.names)
    (member,) = deep.model_.members
    values = member.hidden_values(torch.as_tensor(asked[:, None] / SPAN))
    paths = torch.cat(values, dim=-1).numpy()  # S N H
    for curve, unit in zip(curves, paths.transpose(2, 0, 1), strict=True):
        assert curve.mean == pytest.approx(unit.mean(0))
        assert curve.std == pytest.approx(unit.std(0))
        assert curve.std.max() > 0


def test_hidden_values_are_those_that_the_output_layer_sees(deep: DeepLFMRegressor) -> None:
    """With the output weights that see nothing but the input set to zero, they make the prediction."""
    (member,) = deep.model_.members
    x = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    hidden = member.hidden_values(x)[-1]
    columns = member.output_layer.features(x, member.config.n_paths, hidden=hidden)
    mean, _ = member.output_layer.moments(columns)
    assert torch.allclose(mean, member.posterior(x).component_mean)


def test_shallow_models_have_no_hidden_layers(lines: DeepLFMRegressor) -> None:
    assert lines.hidden_layers(TIME) == []


def test_blocks_have_names_even_where_no_line_was_found() -> None:
    model = quick().fit(TIME, NOISE[:, 0])
    labels = [curve.label for curve in model.forces(TIME)]
    assert labels == ["y, sinusoids", "y, broadband"]


def test_a_covariate_is_not_taken_for_time() -> None:
    x = np.column_stack([TIME, NOISE[:, 0]])
    model = quick(is_series=True).fit(x, PAIR[:, 0] + 20 * NOISE[:, 0])
    (spectrum,) = model.spectrum()
    layer = model.model_.members[0].output_layer
    n_waves = layer.block("sinusoids").features.n_forces
    n_waves += layer.block("broadband").features.n_features
    assert len(spectrum.frequency) <= n_waves
    assert band(spectrum, 0.2) == pytest.approx(4.5, rel=0.1)
    forces = model.forces(x)
    assert all(isinstance(curve, Curve) and len(curve.mean) == 120 for curve in forces)


def test_tables_have_neither_spectrum_nor_filters() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    model = quick(model="table(hidden=2)").fit(x, x[:, 0])
    assert model.spectrum() == []
    assert model.filters() == []
    assert [curve.label for curve in model.hidden_layers(x)] == [
        "layer 1, unit 1",
        "layer 1, unit 2",
    ]
