"""The regressor keeps scikit-learn's contract, and works with its tools."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deeplfm import DeepLFMRegressor, InputError

# All checks, in a process of their own: those of the array API run only where SciPy was told so before
# it was imported. A check that would be skipped is an error.
CONTRACT = """
import warnings
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator
from deeplfm import DeepLFMRegressor

warnings.simplefilter("error", SkipTestWarning)
print(len(check_estimator(DeepLFMRegressor(effort="fast", n_steps=1))))
"""


def table(n_rows: int = 40) -> tuple[pd.DataFrame, pd.Series]:
    values = np.random.default_rng(0).normal(size=(n_rows, 2))
    frame = pd.DataFrame(values, columns=["width", "height"])
    return frame, pd.Series(frame["width"] - 2 * frame["height"], name="price")


def quick(**options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(**{"model": "table", "n_steps": 2} | options)


def test_every_check_of_scikit_learn_passes() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", CONTRACT],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) >= 50


def test_names_of_columns_are_stored_and_must_agree() -> None:
    x, y = table()
    model = quick().fit(x, y)
    assert list(model.feature_names_in_) == ["width", "height"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(x.rename(columns={"height": "depth"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        model.update(x[["height", "width"]], y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(x.to_numpy())
    assert not hasattr(model.fit(x.to_numpy(), y), "feature_names_in_")


def test_a_clone_has_the_parameters_and_nothing_that_was_learned() -> None:
    x, y = table()
    model = quick(random_state=3).fit(x, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]
    assert np.array_equal(copy.fit(x, y).predict(x), model.predict(x))


def test_a_pipeline_scales_what_the_model_sees() -> None:
    x, y = table()
    scaled = StandardScaler().fit_transform(x)
    line = make_pipeline(StandardScaler(), quick()).fit(x, y)
    assert np.array_equal(line.predict(x), quick().fit(scaled, y).predict(scaled))
    # the regressor standardises too: a scaler before it changes rounding alone
    assert line.predict(x) == pytest.approx(quick().fit(x, y).predict(x).to_numpy(), abs=1e-6)


def test_a_grid_search_finds_the_setting_that_predicts() -> None:
    time = np.linspace(0, 20, 80)[:, None]
    rows = [(np.arange(60), np.arange(60, 80))]
    search = GridSearchCV(
        DeepLFMRegressor(), {"model": ["sinusoids + broadband", "paper"], "n_steps": [3]}, cv=rows
    ).fit(time, np.sin(3 * time[:, 0]))
    assert search.best_params_ == {"model": "sinusoids + broadband", "n_steps": 3}
    assert search.best_score_ > 0.95


def test_a_vector_is_times_and_never_a_table() -> None:
    time = np.linspace(0, 5, 30)
    with pytest.raises(InputError, match=r"is_series=False asks for a table.*reshape\(-1, 1\)"):
        quick(is_series=False).fit(time, time)
    assert quick().fit(time, time).is_series_
    mixed = time[::-1]
    with pytest.raises(InputError, match=r"values do not increase .*is_series=True.*reshape"):
        quick().fit(mixed, time)
    assert quick(is_series=True).fit(mixed, time).is_series_
    assert quick().fit(mixed[:, None], time).is_series_
    assert not quick(is_series=False).fit(time[:, None], time).is_series_


@pytest.mark.parametrize("is_series", [True, False])
def test_a_weight_of_two_is_a_row_given_twice(is_series: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    y[::5, 1] = np.nan
    weight, order = rng.integers(0, 4, 40), rng.permutation(40)
    options = {
        "model": "sinusoids + broadband" if is_series else "ensemble",
        "is_series": is_series,
    }
    twice = quick(**options).fit(x.repeat(weight, axis=0), y.repeat(weight, axis=0))
    heavy = quick(**options).fit(x[order], y[order], sample_weight=weight[order])
    assert np.array_equal(twice.predict(x, return_std=True), heavy.predict(x, return_std=True))


def test_weights_shape_the_scale_of_the_targets() -> None:
    x, y = table()
    weight = np.random.default_rng(1).uniform(0.1, 3, len(y))
    model = quick().fit(x, y, sample_weight=weight)
    mean = np.average(y, weights=weight)
    std = np.sqrt(np.average((y - mean) ** 2, weights=weight))
    assert model.scaling_.y_shift == pytest.approx([mean])
    assert model.scaling_.y_scale == pytest.approx([std])


def test_a_constant_column_has_no_scale_even_where_its_mean_is_rounded() -> None:
    x, y = table()
    x = np.ascontiguousarray(x.assign(depth=0.1))
    assert x.std(0)[2] > 0
    model = quick().fit(x, y.to_numpy())
    assert model.scaling_.x_scale[2] == 1
    moved = x + np.array([0, 0, 1e-9])
    assert model.predict(moved) == pytest.approx(model.predict(x), abs=1e-6)
