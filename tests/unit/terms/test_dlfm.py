"""One deep model of a series: clocks where it has a cycle, the paper's hidden layers where not."""

import numpy as np
import pytest

from deeplfm import DeepLFMRegressor
from deeplfm.terms import Dlfm, parse

TIME = np.arange(240.0)


def names(model: DeepLFMRegressor) -> list[str]:
    return [block.name for block in model.model_.members[0].output_layer.blocks]


def test_a_cycle_is_forecast_through_the_hidden_layer() -> None:
    """A sharp pulse of 21 rows, 0.05 of noise; beside the clock is nothing that could repeat it."""
    rng = np.random.default_rng(0)
    values = np.exp(2 * np.cos(2 * np.pi * TIME / 21)) + 0.05 * rng.normal(size=len(TIME))
    model = DeepLFMRegressor("dlfm", n_steps=20, progress=False).fit(TIME[:180], values[:180])
    assert model.model_.members[0].components == ["warped season", "level"]
    ahead = TIME[180:]
    error = np.mean((model.predict(ahead) - values[180:]) ** 2) / np.var(values[180:])
    assert error < 0.02
    assert model.hidden_share(ahead)["y"] > 0.95


def test_without_a_cycle_it_has_the_hidden_layers_of_the_paper() -> None:
    rng = np.random.default_rng(1)
    values = np.cumsum(rng.normal(size=len(TIME)))[:60]
    model = DeepLFMRegressor(Dlfm(n_features=10), n_steps=3, progress=False)
    model.fit(TIME[:60], rng.permutation(values))
    assert names(model) == ["deep", "broadband"]
    assert len(model.model_.members[0].layers) == 2


@pytest.mark.parametrize("text", ["dlfm", "dlfm(3, 3)", "dlfm(hidden=(3,), n_forces=2)"])
def test_it_can_be_written_as_text(text: str) -> None:
    declared = parse(text)
    assert isinstance(declared, Dlfm)
    assert parse(str(declared)) == declared


@pytest.mark.parametrize("seed", [0, 1])
def test_a_pulse_that_breath_modulates_has_two_clocks(seed: int) -> None:
    """Amplitude and level of a pulse of 21 rows vary with a period of 130 rows, in one output."""
    rng = np.random.default_rng(seed)
    time = np.arange(500.0)
    breath = 2 * np.pi * time / 130
    pulse = np.exp(1.2 * np.cos(2 * np.pi * time / 21)) * (1 + 0.15 * np.cos(breath))
    values = pulse + 0.8 * np.sin(breath) + 0.05 * rng.normal(size=len(time))
    model = DeepLFMRegressor("warped", progress=False).fit(time[:380], values[:380])
    assert len(model.model_.members[0].config.clocks) == 2
    ahead = time[380:]
    assert np.mean((model.predict(ahead) - values[380:]) ** 2) < 0.02 * np.var(values[380:])


def test_a_slower_clock_is_followed_through_a_long_record() -> None:
    """2000 rows determine the clocks. Both rates vary, so that phases must be followed before them."""
    time = np.arange(2400.0)
    pulse = 2 * np.pi * np.cumsum(1 + 0.02 * np.sin(time / 300)) / 21
    breath = 2 * np.pi * np.cumsum(1 + 0.05 * np.sin(time / 400)) / 130
    values = np.exp(1.2 * np.cos(pulse)) * (1 + 0.15 * np.cos(breath)) + 0.8 * np.sin(breath)
    values += 0.05 * np.random.default_rng(0).normal(size=len(time))
    model = DeepLFMRegressor("warped", progress=False).fit(time[:2300], values[:2300])
    assert len(model.model_.members[0].config.clocks) == 2
    for some in (slice(0, 300), slice(2300, 2360)):  # far before, and ahead
        error = np.mean((model.predict(time[some]) - values[some]) ** 2)
        assert error < 0.05 * np.var(values)
