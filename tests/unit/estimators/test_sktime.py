"""The forecaster keeps sktime's contract, and works in its pipelines and backtests."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sktime")

from sktime.forecasting.compose import TransformedTargetForecaster
from sktime.forecasting.model_evaluation import evaluate
from sktime.split import ExpandingWindowSplitter
from sktime.transformations.series.detrend import Detrender
from sktime.utils.estimator_checks import check_estimator

from deeplfm.estimators.sktime import SktimeForecaster

pytestmark = pytest.mark.filterwarnings("ignore")  # of sktime itself: its tests count them
QUICK = {"model": "trend + season(12) + level", "n_steps": 3}


def passengers() -> pd.Series:
    months = pd.period_range("2015-01", periods=72, freq="M")
    wave = 100 + 9 * np.sin(np.arange(72) * 2 * np.pi / 12)
    return pd.Series(wave + np.random.default_rng(0).normal(size=72), index=months, name="n")


def test_every_check_of_sktime_passes() -> None:
    found = check_estimator(SktimeForecaster, raise_exceptions=False, verbose=False)
    assert len(found) > 500
    assert {name: result for name, result in found.items() if result != "PASSED"} == {}


def test_intervals_quantiles_and_variances_agree() -> None:
    model = SktimeForecaster(**QUICK).fit(passengers())
    mean, interval = model.predict(fh=[1, 6]), model.predict_interval(fh=[1, 6], coverage=0.8)
    low, high = interval.iloc[:, 0], interval.iloc[:, 1]
    assert (low < mean).all() and (mean < high).all()
    quantiles = model.predict_quantiles(fh=[1, 6], alpha=[0.1, 0.9])
    assert np.allclose(quantiles, interval)
    assert (model.predict_var(fh=[1, 6]) > 0).all(axis=None)


def test_a_pipeline_and_a_backtest() -> None:
    pipeline = TransformedTargetForecaster(
        [("line", Detrender()), ("dlfm", SktimeForecaster(**QUICK))]
    )
    splits = ExpandingWindowSplitter(fh=[1, 2, 3], initial_window=60, step_length=6)
    table = evaluate(pipeline, cv=splits, y=passengers())
    assert len(table) == 2
    assert (table["test_MeanAbsolutePercentageError"] < 0.1).all()


def test_an_update_adds_rows_without_training() -> None:
    y = passengers()
    model = SktimeForecaster(**QUICK).fit(y[:60])
    before = model.forecaster_.regressor_
    model.update(y[60:])
    assert model.forecaster_.regressor_ is before
    assert len(model.forecaster_.training_) == 72
    assert model.predict(fh=[1]).index[0] == y.index[-1] + 1
    paper = SktimeForecaster(model="paper", n_steps=1).fit(y[:60]).update(y[60:])
    assert len(paper.forecaster_.training_) == 72


def test_only_parameters_of_the_forecaster_are_taken() -> None:
    with pytest.raises(TypeError, match="'period' is no parameter"):
        SktimeForecaster(period=12)
    assert SktimeForecaster(n_steps=4).get_params()["n_steps"] == 4
