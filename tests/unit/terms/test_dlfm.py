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
