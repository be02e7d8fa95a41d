"""New observations without training: as if the last layer had been solved on all rows at once."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import deeplfm
from deeplfm import ConfigError, DeepLFMRegressor, InputError
from deeplfm.training import Rows
from deeplfm.training.rows import condition

TIME = np.linspace(0, 10, 90)
WAVES = np.stack([np.sin(3 * TIME), 5 + np.cos(2 * TIME) * TIME], axis=1)
WAVES += 0.1 * np.random.default_rng(0).normal(size=WAVES.shape)
GAPS = WAVES.copy()
GAPS[5:20, 0] = GAPS[65:80, 1] = GAPS[85] = np.nan
WEIGHT = np.random.default_rng(1).uniform(0.2, 3, 90)
ASKED = np.linspace(0, 12, 50)
FIRST, THEN = slice(0, 60), slice(60, 90)


def quick(**options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(**{"model": "sinusoids + broadband", "n_steps": 3} | options)


def conditioned(
    model: DeepLFMRegressor, y: np.ndarray, weight: np.ndarray | None
) -> DeepLFMRegressor:
    """The same model with its last layer solved on all rows."""
    model = copy.deepcopy(model)
    dtype = next(model.model_.parameters()).dtype
    rows = Rows(
        torch.as_tensor(model.scaling_.inputs(TIME[:, None]), dtype=dtype),
        torch.as_tensor(model.scaling_.outputs(y.reshape(90, -1)), dtype=dtype),
        None if weight is None else torch.as_tensor(weight, dtype=dtype),
    )
    for member in model.model_.members:
        condition(member, rows)
    return model


@pytest.mark.parametrize(
    ("declared", "y", "weight"),
    [
        ("sinusoids + broadband", WAVES[:, 0], None),
        ("sinusoids + broadband", WAVES, WEIGHT),
        ("sinusoids + broadband", GAPS, None),
        ("warped + broadband", GAPS, WEIGHT),
        ("lfm", WAVES[:, 0], None),
        ("lfm", WAVES, None),
        ("lfm", GAPS, WEIGHT),
    ],
)
def test_an_update_is_the_solution_on_all_rows(
    declared: str, y: np.ndarray, weight: np.ndarray | None
) -> None:
    first, then = (None if weight is None else weight[part] for part in (FIRST, THEN))
    model = quick(model=declared).fit(TIME[FIRST], y[FIRST], first)
    before = model.predict(ASKED)
    expected = conditioned(model, y, weight)
    assert model.update(TIME[THEN], y[THEN], then) is model
    assert np.abs(model.predict(ASKED) - before).max() > 0.01
    for found, wanted in zip(
        model.predict(ASKED, return_std=True, latent=True),
        expected.predict(ASKED, return_std=True, latent=True),
        strict=True,
    ):
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-8)


def test_all_members_are_updated() -> None:
    model = quick(model="ensemble", n_steps=1).fit(TIME[FIRST], WAVES[FIRST])
    assert len(model.model_.members) > 1
    expected = conditioned(model, WAVES, None)
    model.update(TIME[THEN], WAVES[THEN])
    assert model.predict(ASKED) == pytest.approx(expected.predict(ASKED), rel=1e-7, abs=1e-8)


def test_two_portions_in_any_order_are_one() -> None:
    fitted = quick().fit(TIME[FIRST], GAPS[FIRST])
    at_once = copy.deepcopy(fitted).update(TIME[THEN], GAPS[THEN])
    rows = np.random.default_rng(2).permutation(np.arange(60, 90))
    for part in (rows[:11], rows[11:]):
        fitted.update(TIME[part], GAPS[part])
    asked = np.linspace(0, 10, 40)
    for found, wanted in zip(
        fitted.predict(asked, return_std=True),
        at_once.predict(asked, return_std=True),
        strict=True,
    ):
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-8)


def test_new_rows_reduce_the_uncertainty() -> None:
    later = np.linspace(10, 14, 40)
    truth = np.sin(3 * later) + 2
    model = quick().fit(TIME, WAVES[:, 0])
    mean, std = model.predict(later, return_std=True, latent=True)
    assert np.abs(mean - truth).min() > 0.5
    updated, less = model.update(later, truth).predict(later, return_std=True, latent=True)
    assert np.abs(updated - truth).mean() < 0.3 * np.abs(mean - truth).mean()
    assert (less < std).all()


def test_rows_without_any_target_add_nothing() -> None:
    model = quick().fit(TIME, WAVES)
    before = model.predict(ASKED, return_std=True)
    model.update([20.0, 21.0], np.full((2, 2), np.nan))
    assert np.array_equal(model.predict(ASKED, return_std=True), before)


def test_an_updated_model_is_saved_as_it_is(tmp_path: Path) -> None:
    model = quick().fit(TIME[FIRST], GAPS[FIRST]).update(TIME[THEN], GAPS[THEN])
    model.save(tmp_path / "model")
    loaded = deeplfm.load(tmp_path / "model")
    expected = model.predict(ASKED, return_std=True)
    assert np.array_equal(loaded.predict(ASKED, return_std=True), expected)
    for later in (loaded, model):  # and can be updated further
        later.update(ASKED[-3:], np.zeros((3, 2)))
    assert np.array_equal(loaded.predict(ASKED), model.predict(ASKED))


def test_frames_are_updated_by_frames() -> None:
    frame = pd.DataFrame(WAVES, columns=["a", "b"])
    time = pd.DataFrame({"t": TIME})
    named = quick(model="lfm").fit(time[FIRST], frame[FIRST]).update(time[THEN], frame[THEN])
    plain = quick(model="lfm").fit(TIME[FIRST], WAVES[FIRST]).update(TIME[THEN], WAVES[THEN])
    assert np.array_equal(named.predict(time), plain.predict(TIME))
    with pytest.raises(InputError, match="'b', 'a'"):
        named.update(time[THEN], frame.loc[THEN, ["b", "a"]])


def test_a_table_is_updated_too() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = x[:, 0] * x[:, 1]
    model = quick(model="table").fit(x[:40], y[:40])
    before = np.abs(model.predict(x[40:]) - y[40:]).mean()
    assert np.abs(model.update(x[40:], y[40:]).predict(x[40:]) - y[40:]).mean() < before


def test_without_an_exact_last_layer_an_update_is_refused() -> None:
    model = DeepLFMRegressor("paper", n_steps=1).fit(TIME, WAVES)
    with pytest.raises(
        ConfigError, match=r"update: model=paper has no exact output layer.*fit again"
    ):
        model.update(TIME, WAVES)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (TIME, WAVES[:, 0], "1 columns, but the model was fitted on 2"),
        (TIME, np.ones((90, 3)), "3 columns, but the model was fitted on 2"),
        (TIME[:5], WAVES, "90 rows, but X has 5"),
        (np.ones((90, 2)), WAVES, "X has 2 features, but DeepLFMRegressor is expecting 1"),
        (np.r_[np.nan, TIME[1:]], WAVES, "1 values are NaN or infinite"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_change_nothing(
    x: np.ndarray, y: np.ndarray, message: str
) -> None:
    model = quick(model="lfm", n_steps=1).fit(TIME, WAVES)
    before = model.predict(ASKED)
    with pytest.raises(InputError, match=message):
        model.update(x, y)
    assert np.array_equal(model.predict(ASKED), before)
