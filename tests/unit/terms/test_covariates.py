"""Series with known covariates: the first column is time, the others are what else is known."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import deeplfm
from deeplfm import ConfigError, DeepLFMRegressor
from deeplfm.terms import Covariates
from deeplfm.training import Rows

TIME = np.linspace(0, 12, 120)
KNOWN = np.random.default_rng(0).normal(size=(120, 2))
X = np.column_stack([TIME, KNOWN])
EFFECT = 0.8 * KNOWN[:, 0] + 1.5 * np.tanh(KNOWN[:, 1])
Y = np.sin(3 * TIME) + EFFECT + 0.1 * np.random.default_rng(1).normal(size=120)
PAST, FUTURE = slice(0, 90), slice(90, 120)


def quick(**options: object) -> DeepLFMRegressor:
    given = {
        "model": "sinusoids + broadband",
        "n_steps": 10,
        "is_series": True,
    }
    return DeepLFMRegressor(**given | options)


@pytest.fixture(scope="module")
def fitted() -> DeepLFMRegressor:
    return quick().fit(X[PAST], Y[PAST])


def test_a_series_is_forecast_where_its_covariates_are_known(fitted: DeepLFMRegressor) -> None:
    assert fitted.score(X[FUTURE], Y[FUTURE]) > 0.9
    alone = quick().fit(TIME[PAST, None], Y[PAST])
    assert alone.score(TIME[FUTURE, None], Y[FUTURE]) < 0.3


def test_the_effect_of_a_covariate_has_its_shape(fitted: DeepLFMRegressor) -> None:
    value = np.linspace(-1.5, 1.5, 13)
    at = np.column_stack([np.full(13, 6.0), np.zeros(13), value])
    moved = fitted.predict(at) - fitted.predict(at[6:7])
    assert moved == pytest.approx(1.5 * np.tanh(value), abs=0.3)


def test_gaps_of_the_targets_are_fine() -> None:
    gaps = Y[PAST].copy()
    gaps[np.random.default_rng(2).random(90) < 0.2] = np.nan
    assert quick().fit(X[PAST], gaps).score(X[FUTURE], Y[FUTURE]) > 0.85


@pytest.mark.parametrize("declared", ["sinusoids + broadband", "lfm", "table"])
def test_a_single_column_is_time_either_way(declared: str) -> None:
    said, default = (
        quick(model=declared, n_steps=2, is_series=is_series).fit(TIME, Y).predict(TIME)
        for is_series in (True, None)
    )
    assert np.array_equal(said, default)


@pytest.mark.parametrize(
    "declared", ["ensemble", "dlfm", "deep + broadband", "composition", "lfm", "paper", "table"]
)
def test_every_model_takes_covariates(declared: str) -> None:
    both = np.column_stack([Y, Y[::-1]])
    both[:40, 1] = np.nan
    model = quick(model=declared, n_steps=2).fit(X, both)
    assert model.is_series_
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    if declared != "paper":
        moved = model.predict(X + np.array([0, 1, 0])) - mean
        assert np.abs(moved).max(0).min() > 1e-4


def test_several_columns_are_a_table_unless_the_user_says_otherwise() -> None:
    with pytest.raises(ConfigError, match="is_series=True where the first input is time"):
        quick(is_series=None).fit(X, Y)


def test_an_output_known_only_at_the_end_does_not_stop_the_others() -> None:
    both = np.column_stack([Y, Y])
    both[:110, 1] = np.nan
    model = quick(n_steps=2).fit(X, both)
    assert model.fit_result_.failed == {}
    assert np.isfinite(model.predict(X)).all()


def test_the_order_of_the_rows_does_not_matter(fitted: DeepLFMRegressor) -> None:
    order = np.random.default_rng(3).permutation(90)
    mixed = quick().fit(X[PAST][order], Y[PAST][order])
    assert np.array_equal(mixed.predict(X), fitted.predict(X))


def test_the_units_of_covariates_do_not_matter(fitted: DeepLFMRegressor) -> None:
    other = X * [1, 1000, 1e-3] + [0, 50, -2]
    model = quick().fit(other[PAST], Y[PAST])
    assert model.predict(other) == pytest.approx(fitted.predict(X), abs=1e-4)


def test_names_and_covariates_survive_saving(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["time", "load", "heat"])
    model = quick(n_steps=2).fit(frame[PAST], pd.Series(Y[PAST], name="power"))
    model.save(tmp_path / "model")
    loaded = deeplfm.load(tmp_path / "model")
    pd.testing.assert_series_equal(loaded.predict(frame[FUTURE]), model.predict(frame[FUTURE]))
    assert loaded.is_series_ and loaded.is_series


def test_terms_read_what_straight_lines_leave() -> None:
    rows = Rows(torch.as_tensor(X), torch.as_tensor(np.column_stack([Y, EFFECT])))
    rows.y[::6, 0] = torch.nan
    left = Covariates().unexplained(rows)
    assert torch.equal(left.x, rows.x)
    assert torch.equal(left.y.isnan(), rows.y.isnan())
    design = np.column_stack([np.ones(120), KNOWN])
    for d in (0, 1):
        known = ~rows.y[:, d].isnan().numpy()
        target = rows.y[known, d].numpy()
        slope, *_ = np.linalg.lstsq(design[known], target, rcond=None)
        expected = target - design[known] @ slope
        assert left.y[known, d].numpy() == pytest.approx(expected, abs=0.01)
    time_only = Rows(rows.x[:, :1], rows.y)
    assert Covariates().unexplained(time_only) is time_only


def test_outputs_that_share_a_force_have_effects_of_their_own() -> None:
    both = np.column_stack([np.sin(3 * TIME) + KNOWN[:, 0], np.cos(3 * TIME) - KNOWN[:, 1]])
    model = quick(model="lfm", n_steps=60).fit(X, both)
    moves = [model.predict(X + step) - model.predict(X) for step in ([0, 1, 0], [0, 0, 1])]
    inside = (np.abs(KNOWN) < 1).all(1) & (KNOWN < 0).all(1)
    effect = np.array([move[inside].mean(0) for move in moves])  # covariate output
    assert effect == pytest.approx(np.array([[1, 0], [0, -1]]), abs=0.35)
