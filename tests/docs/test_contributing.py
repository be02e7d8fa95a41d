"""The examples of CONTRIBUTING work as they stand: a differential equation and a term."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import solve_ivp

from deeplfm import DeepLFMForecaster
from deeplfm.features import SYSTEMS
from deeplfm.terms import TERMS, Season, parse

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
DECAY, TIME = 1.7, np.linspace(0, 6, 50)


@pytest.fixture(scope="module")
def equation() -> dict[str, Any]:
    return run(0)


def run(index: int, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Names that a block of the page defines."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {"__name__": "contributed"} if names is None else names
    exec(compile(code[index], PAGE.name, "exec", dont_inherit=True), names)
    return names


def hourly() -> pd.DataFrame:
    hour = np.arange(72.0)
    noise = 0.1 * np.random.default_rng(0).normal(size=72)
    return pd.DataFrame({"y": 5 * np.exp(-hour / 10) + np.sin(2 * np.pi * hour / 12) + noise})


@pytest.mark.parametrize("frequency", [0.5, 3.0])
@pytest.mark.parametrize("part", [0, 1], ids=["cosine", "sine"])
def test_the_equation_solves_itself(equation: dict[str, Any], frequency: float, part: int) -> None:
    wave = (math.cos, math.sin)[part]
    solution = solve_ivp(
        lambda t, f: [f[1], wave(frequency * t) - 2 * DECAY * f[1] - DECAY**2 * f[0]],
        (0, TIME[-1]),
        [0, 0],
        t_eval=TIME,
        rtol=1e-10,
        atol=1e-12,
    )
    features = equation["CriticallyDamped"](1, 1, 1).double()
    features.set_bandwidth(DECAY)
    x, ones = torch.as_tensor(TIME)[:, None], torch.ones(1, dtype=torch.float64)
    columns = features(x, torch.full((1, 1, 1, 1), frequency, dtype=torch.float64), ones)
    np.testing.assert_allclose(columns[0, :, part].detach(), solution.y[0], atol=1e-9)


def test_a_registered_equation_is_fitted_by_name(
    equation: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deeplfm.features.SYSTEMS", dict(SYSTEMS))
    model = run(1, dict(equation))["model"].set_params(n_steps=3, random_state=0)
    assert np.isfinite(model.fit(hourly()).forecast(5)["y"]).all()


def test_the_term_is_a_component_and_dies_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TERMS, "transient", None)  # to be forgotten after the test
    transient = run(2)["Transient"]()
    assert parse("transient + season(12)") == transient + Season(12)
    forecaster = DeepLFMForecaster(model=transient + Season(12), n_steps=20, random_state=0)
    parts = forecaster.fit(hourly()).components(times=[0.0, 60.0])["y"]["transient"]["mean"]
    assert parts.iloc[0] > 3 > 0.2 > abs(parts.iloc[1])
