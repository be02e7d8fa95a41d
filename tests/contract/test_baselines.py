"""What every comparator promises, checked for each of the registry, and a problem it must solve."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from deeplfm.baselines import BASELINES
from deeplfm.baselines.base import Baseline
from deeplfm.data.simulated import fitzhugh_nagumo
from deeplfm.errors import ConfigError, InputError
from deeplfm.predictive.mixture import coverage, nmse


def waves() -> tuple[np.ndarray, ...]:
    """Two smooth outputs of time, to be told between the rows."""
    rng = np.random.default_rng(0)
    x = np.linspace(3, 9, 50)
    new = (x[:-1] + x[1:]) / 2

    def y(t: np.ndarray) -> np.ndarray:
        return np.column_stack([5 + 2 * np.sin(2 * t), np.cos(2 * t) + np.sin(t)])

    return x, y(x) + 0.05 * rng.normal(size=(50, 2)), new, y(new)


def beats() -> tuple[np.ndarray, ...]:
    """Two periodic outputs at regular steps, to be forecast."""
    rng = np.random.default_rng(0)
    t = np.arange(150) * 0.1
    y = np.column_stack([np.sin(2 * np.pi * t / 2.5) ** 3, 10 + np.cos(2 * np.pi * t / 1.7)])
    y += 0.02 * rng.normal(size=y.shape)
    return t[:120], y[:120], t[120:], y[120:]


def table() -> tuple[np.ndarray, ...]:
    """Three columns of which two matter, one of them for the noise of the second output."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (500, 3))
    y = np.column_stack([x[:, 0] * x[:, 1], 3 + np.sin(2 * x[:, 0])])
    y += rng.normal(size=y.shape) * np.column_stack(
        [np.full(500, 0.05), 0.05 + 0.1 * (x[:, 1] > 0)]
    )
    return x[:300], y[:300], x[300:], y[300:]


def spikes() -> tuple[np.ndarray, ...]:
    """States of a nerve, seen through noise, to be told between the rows."""
    data = fitzhugh_nagumo(seed=0, n_rows=241, noise_variance=0.04)
    return data.time[::3], data.value[::3], data.time[1::3], data.clean[1::3]


@dataclass(frozen=True)
class Easy:
    """A problem on which a comparator is known to work.

    Attributes:
        problem: training rows and targets, rows to predict and their targets.
        error: NMSE that it stays below, for each output.
        settings: quick ones.
        fixed_outputs: it takes these two outputs and no others.
    """

    problem: Any
    error: float
    settings: dict[str, Any] = field(default_factory=dict)
    fixed_outputs: bool = False


EASY = {
    "GP": Easy(waves, 0.01, {"n_steps": 30}),
    "VAR-GP": Easy(waves, 0.02, {"n_inducing": 15, "n_steps": 150, "learning_rate": 0.1}),
    "LFM": Easy(waves, 0.01, {"n_steps": 30}),
    "LFM-RFF": Easy(waves, 0.05, {"n_steps": 40}),
    "DGP-EQ": Easy(waves, 0.05, {"follows_paper": False, "n_features": 20, "n_steps": 25}),
    "DGP-ARC": Easy(table, 0.2, {"follows_paper": False, "n_features": 15, "n_steps": 25}),
    "hybrid kernel": Easy(table, 0.2, {"hidden": (5,), "n_features": 20, "n_steps": 30}),
    "C-DGP": Easy(spikes, 0.02, {"n_grid": 80}, fixed_outputs=True),
    "DNN": Easy(table, 0.2, {"n_steps": 300, "n_masks": 30}),
    "Conv-CNP": Easy(beats, 0.6, {"channels": (16,) * 4, "n_steps": 120, "learning_rate": 3e-3}),
    "GNP": Easy(beats, 0.6, {"channels": (16,) * 4, "n_steps": 120, "learning_rate": 3e-3}),
    "boosted trees": Easy(table, 0.15, {"max_iter": 60, "learning_rate": 0.2, "n_folds": 3}),
    "ridge on lags": Easy(beats, 0.02, {"n_lags": 30}),
    "last period": Easy(beats, 0.05),
}
needs_package = pytest.mark.skipif(
    find_spec("neuralprocesses") is None, reason="neuralprocesses is not installed"
)
every_baseline = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[needs_package] if name in ("Conv-CNP", "GNP") else [])
        for name in EASY
    ],
)


def make(name: str) -> Baseline:
    return BASELINES[name](**EASY[name].settings)


@cache
def fitted(name: str) -> Baseline:
    x, y, *_ = EASY[name].problem()
    return make(name).fit(x, y)


@cache
def prediction(name: str) -> Any:
    return fitted(name).posterior(EASY[name].problem()[2])


def test_every_comparator_has_an_easy_problem() -> None:
    assert set(EASY) == set(BASELINES)
    assert len(BASELINES) == len(list(BASELINES))
    assert all(issubclass(BASELINES[name], Baseline) for name in BASELINES)


@every_baseline
def test_it_solves_its_easy_problem(name: str) -> None:
    target = torch.as_tensor(EASY[name].problem()[3])
    assert nmse(prediction(name).mean, target).max() < EASY[name].error
    assert coverage(prediction(name), target, 0.95).min() > 0.8


@every_baseline
def test_predictions_have_the_shape_of_the_inputs(name: str) -> None:
    model, new = fitted(name), EASY[name].problem()[2]
    posterior = prediction(name)
    assert posterior.mean.shape == (len(new), 2)
    assert posterior.mean.dtype == torch.float64
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_array_equal(mean, posterior.mean)
    np.testing.assert_array_equal(std, posterior.std())
    low, high = model.predict_interval(new, 0.5)
    assert ((low < high) & (low < mean) & (mean < high)).mean() > 0.95
    assert posterior.sample(3).shape == (3, len(new), 2)
    assert model.score(new, EASY[name].problem()[3]) > 1 - EASY[name].error


@every_baseline
def test_prediction_is_a_density_and_draws_are_from_it(name: str) -> None:
    posterior = prediction(name)
    centre, std = posterior.mean, posterior.std()
    offset = torch.linspace(-30, 30, 1501, dtype=torch.float64)
    values = centre + offset[:, None, None] * std
    density = torch.stack([posterior.log_prob(value) for value in values]).exp()
    torch.testing.assert_close(
        torch.trapezoid(density, offset, dim=0) * std, torch.ones_like(std), atol=2e-3, rtol=0
    )
    draws = posterior.sample(2000, seed=1)
    position = torch.stack([posterior.cdf(draw) for draw in draws])
    for level in (0.1, 0.5, 0.9):  # each row and output: 5 standard errors of 2000 draws
        below = (position < level).double().mean(0)
        assert ((below - level).abs() < 5 * (level * (1 - level) / 2000) ** 0.5 + 1e-9).all()


@every_baseline
def test_same_seed_same_bits(name: str) -> None:
    x, y, new, _ = EASY[name].problem()
    again = clone(make(name)).fit(x, y).posterior(new)
    assert torch.equal(again.mean, prediction(name).mean)
    assert torch.equal(again.std(), prediction(name).std())
    assert torch.equal(again.sample(2, seed=3), prediction(name).sample(2, seed=3))


@every_baseline
def test_missing_targets_and_frames(name: str) -> None:
    """A gap in one output leaves the fit usable, and names come back as they went in."""
    x, y, new, target = EASY[name].problem()
    y = y.copy()
    y[40:46, 0] = np.nan
    columns = [f"x{i}" for i in range(np.atleast_2d(x.T).shape[0])]
    frame = pd.DataFrame(x, columns=columns)
    model = make(name).fit(frame, pd.DataFrame(y, columns=["a", "b"]))
    mean = model.predict(pd.DataFrame(new, columns=columns, index=np.arange(len(new)) + 7))
    assert list(mean.columns) == ["a", "b"] and mean.index[0] == 7
    assert np.isfinite(mean).all(axis=None)
    error = nmse(torch.tensor(mean.to_numpy()), torch.as_tensor(target))
    assert error.max() < 3 * EASY[name].error


@every_baseline
def test_one_output_is_a_vector_and_a_vector_of_times_a_column(name: str) -> None:
    x, y, new, _ = EASY[name].problem()
    if EASY[name].fixed_outputs:
        pytest.skip("its outputs are the states of a system")
    model = make(name).fit(x.reshape(len(x), -1), y[:, 1])
    assert model.predict(new.reshape(len(new), -1)).shape == (len(new),)
    if x.ndim == 1:
        np.testing.assert_array_equal(model.predict(new), model.predict(new[:, None]))


@every_baseline
def test_bad_input_is_refused_in_plain_words(name: str) -> None:
    x, y, *_ = EASY[name].problem()
    holed = x.copy()
    holed.flat[3] = np.nan
    bad = [
        (holed, y, "X: 1 values are NaN"),
        (x, y[:-1], "y: .* rows, but X has"),
        (x, y * [np.nan, 1], "column 0 has 0 known"),
        (x, np.where(y == y[5], np.inf, y), "infinite"),
    ]
    for inputs, targets, message in bad:
        with pytest.raises(InputError, match=message):
            make(name).fit(inputs, targets)
    with pytest.raises(InputError, match="features"):
        fitted(name).posterior(np.zeros((4, 7)))
    with pytest.raises(NotFittedError):
        make(name).posterior(x)
    with pytest.raises(ConfigError, match="random_state: -1"):
        make(name).set_params(random_state=-1).fit(x, y)


@every_baseline
def test_settings_that_are_counts_must_be(name: str) -> None:
    x, y, *_ = EASY[name].problem()
    for count in BASELINES[name].counts:
        with pytest.raises(ConfigError, match=f"{count}: 0 found"):
            make(name).set_params(**{count: 0}).fit(x, y)


@every_baseline
def test_a_series_has_one_column(name: str) -> None:
    x, y, *_ = EASY[name].problem()
    if not BASELINES[name].is_series:
        pytest.skip("it takes tables too")
    with pytest.raises(InputError, match="X: 2 columns"):
        make(name).fit(np.column_stack([x, x]), y)
