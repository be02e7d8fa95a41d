"""A system registered from outside the package goes everywhere that a built-in one goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import deeplfm
from deeplfm.cli import main
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig, from_dict, to_dict
from deeplfm.errors import ConfigError
from deeplfm.features import SYSTEMS, Response, register
from deeplfm.model import DeepLFM
from deeplfm.terms import Sinusoids

NAME = "two-tanks"


class TwoTanks(Response):
    """Two tanks in a row that empty at the same rate: f'' + 2γf' + γ²f = u."""

    n_states = 2

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.log_rate = torch.nn.Parameter(torch.zeros(self.n_groups, self.n_inputs))

    @property
    def polynomial(self) -> Tensor:
        rate = self.log_rate.exp()
        return torch.stack([2 * rate, rate**2], -1)

    @torch.no_grad()
    def set_bandwidth(self, width: float | Tensor) -> None:
        self.log_rate.copy_(torch.as_tensor(width).log())

    def free_response(self, time: Tensor, polynomial: Tensor) -> tuple[Tensor, ...]:
        rate = polynomial[..., :1] / 2
        decay = torch.exp(-rate * time)
        return decay * (1 + rate * time), decay * time


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(NAME, TwoTanks)
    yield
    del SYSTEMS[NAME]


@pytest.fixture
def frame() -> pd.DataFrame:
    time = 0.1 * np.arange(60)
    noise = 0.1 * np.random.default_rng(0).normal(size=60)
    return pd.DataFrame({"t": time.round(1), "level": np.sin(3 * time) + noise})


def test_it_responds_as_the_second_order_of_critical_damping() -> None:
    own, known = (SYSTEMS[name](1, 2, 3).double() for name in (NAME, "ode2"))
    for features in (own, known):
        features.set_bandwidth(1.7)
    x = torch.linspace(-0.5, 3, 9, dtype=torch.float64)[:, None]
    frequency = torch.linspace(-2, 2, 6, dtype=torch.float64).view(1, 1, 2, 3)
    columns = [features(x, frequency, torch.ones(3)) for features in (own, known)]
    torch.testing.assert_close(*columns)


def test_a_model_written_by_hand_predicts_and_is_restored() -> None:
    block = BlockConfig(NAME, n_features=5, extras=("initial_state",))
    config = ModelConfig(1, (LayerConfig(2, (block,)), LayerConfig(1, (block,), "exact")))
    model = DeepLFM(config, seed=0)
    x = torch.linspace(0, 1, 20)[:, None]
    model.condition(x, x.sin())
    restored = DeepLFM(from_dict(to_dict(config)), seed=0)
    for parameter in restored.parameters():
        parameter.data.zero_()
    restored.load_state_dict(model.state_dict())
    found, expected = (item.posterior(x) for item in (restored, model))
    assert torch.equal(found.mean, expected.mean)
    assert expected.std().isfinite().all()


TEXTS = [f"sinusoids(3, system='{NAME}')", f"deep(2, system='{NAME}', n_features=8)"]


@pytest.mark.parametrize("model", TEXTS)
def test_an_estimator_fits_forecasts_and_is_saved(
    model: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    estimator = deeplfm.DeepLFMForecaster(model=model, n_steps=3).fit(frame, time="t")
    forecast = estimator.forecast(horizon=5)
    assert np.isfinite(forecast.select_dtypes("number").to_numpy()).all()
    estimator.save(tmp_path / "model")
    again = deeplfm.load(tmp_path / "model").forecast(horizon=5)
    pd.testing.assert_frame_equal(again, forecast)


def test_forces_and_spectra_follow_its_transfer_function(frame: pd.DataFrame) -> None:
    """The power of the spectrum is that of the series, whatever the system."""
    time, level = frame["t"].to_numpy(), frame["level"].to_numpy()
    model = Sinusoids(3, system=NAME)
    estimator = deeplfm.DeepLFMRegressor(model=model, n_steps=20).fit(time, level)
    (spectrum,) = estimator.spectrum()
    assert 0.5 < spectrum.value.sum() / level.var() < 2
    (force,) = estimator.forces(time)
    assert np.isfinite(force.mean).all()


def test_the_command_line_takes_its_name(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame.to_csv("tank.csv", index=False)
    text = f"sinusoids(3, system='{NAME}') + broadband(system='{NAME}')"
    for command in (
        ["fit", "tank.csv", "--model", text, "--n-steps", "3", "-o", "tank"],
        ["forecast", "tank", "--horizon", "5", "-o", "forecast.csv", "--plot", "forecast.png"],
        ["forces", "tank", "-o", "forces.csv"],
        ["plot", "tank", "filters", "-o", "filters.png"],
    ):
        with pytest.raises(SystemExit) as done:
            main(command)
        assert done.value.code == 0, command
    assert len(pd.read_csv("forecast.csv")) == 5
    assert len(pd.read_csv("forces.csv"))


def test_an_incomplete_response_is_refused_when_it_is_defined() -> None:
    with pytest.raises(ConfigError, match="Half is no complete response"):

        class Half(Response):
            n_states = 1

    with pytest.raises(ConfigError, match="is no feature map"):
        register("dictionary", dict)
