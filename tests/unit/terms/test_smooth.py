"""The model of small tables."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from deeplfm import DeepLFMRegressor
from deeplfm.estimators.candidates import FEWEST_TO_COMPARE, models_of
from deeplfm.terms import Smooth, parse, to_json


def test_small_tables_have_one_candidate_and_larger_ones_three():
    assert models_of("auto", False, n_rows=FEWEST_TO_COMPARE - 1) == {"smooth": Smooth()}
    assert models_of("auto", False, "fast", n_rows=10**6) == {"smooth": Smooth()}
    assert set(models_of("auto", False, n_rows=FEWEST_TO_COMPARE)) == {
        "smooth",
        "nearest-neighbour GP",
        "mixture density",
    }
    assert parse("smooth(50)") == Smooth(50) and to_json(Smooth(50))


def test_on_diabetes_two_seeds_are_near_ridge():
    x, y = load_diabetes(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
    ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(x_train, y_train).score(x_test, y_test)
    scores = [
        DeepLFMRegressor(random_state=seed, n_jobs=1).fit(x_train, y_train).score(x_test, y_test)
        for seed in (0, 1)
    ]
    assert min(scores) > ridge - 0.05


@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_a_linear_table_is_linear(noise):
    x, y = make_regression(200, 5, n_informative=2, noise=noise, random_state=0)
    model = DeepLFMRegressor(n_jobs=1).fit(x[:100], y[:100])
    assert model.score(x[100:], y[100:]) > 0.98
