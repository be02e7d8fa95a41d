"""Measurement errors of rows: what they do to fits, updates, frames and files."""

import numpy as np
import pandas as pd
import pytest

import deeplfm
from deeplfm import ConfigError, DeepLFMForecaster, DeepLFMRegressor, InputError

MODEL = "trend + season(12) + level"


def series(n=60, seed=0):
    """A season of monthly values, every third of which has an error of 3; its true values."""
    rng = np.random.default_rng(seed)
    time = np.arange(float(n))
    truth = 10 + 2 * np.sin(time * np.pi / 6)
    error = np.where(time % 3 == 0, 3.0, 0.1)
    return time, truth + error * rng.normal(size=n), error, truth


def frame_of(n=60):
    _, y, error, _ = series(n)
    index = pd.date_range("2020-01-01", periods=n, freq="MS", name="month")
    return pd.DataFrame({"sales": y, "sales_error": error}, index=index)


def test_rows_with_large_errors_count_for_less():
    time, y, error, truth = series()
    plain = DeepLFMRegressor(MODEL, effort="fast").fit(time, y)
    knowing = DeepLFMRegressor(MODEL, effort="fast").fit(time, y, measurement_error=error)
    off = [np.sqrt(np.mean((model.predict(time) - truth) ** 2)) for model in (plain, knowing)]
    assert off[1] < 0.5 * off[0]


def test_an_error_of_zero_changes_nothing_and_equal_errors_are_noise():
    time, y, *_ = series()
    plain, zero, equal = (
        DeepLFMRegressor(MODEL, effort="fast").fit(time, y, measurement_error=error)
        for error in (None, np.zeros(60), np.full(60, 0.2))
    )
    np.testing.assert_array_equal(plain.predict(time), zero.predict(time))
    np.testing.assert_allclose(plain.predict(time), equal.predict(time), atol=0.05)


def test_updates_take_errors_too():
    time, y, error, _ = series(72)
    model = DeepLFMRegressor(MODEL, effort="fast").fit(
        time[:60], y[:60], measurement_error=error[:60]
    )
    before = model.predict(time[72 - 12 :])
    model.update(time[60:61], y[60:61] + 50, measurement_error=[1e6])
    np.testing.assert_allclose(model.predict(time[60:]), before, atol=1e-3)
    model.update(time[61:62], y[61:62] + 50)
    assert not np.allclose(model.predict(time[60:]), before, atol=0.1)


def test_a_frame_names_the_column_and_files_keep_it(tmp_path):
    frame = frame_of()
    model = DeepLFMForecaster(MODEL).fit(frame[:48], measurement_error="sales_error")
    assert model.targets_ == ["sales"]
    time, y, error, _ = series(48)
    fitted = DeepLFMRegressor(MODEL).fit(time, y, measurement_error=error)
    assert "sales_mnll" in model.selection_ and fitted.selection_.shape == model.selection_.shape
    model.save(tmp_path / "m")
    again = deeplfm.load(tmp_path / "m")
    pd.testing.assert_frame_equal(again.forecast(6), model.forecast(6))
    with pytest.raises(ConfigError, match=r"backtest: .*measurement_error"):
        again.backtest()
    pd.testing.assert_frame_equal(
        again.update(frame[48:]).forecast(6), model.update(frame[48:]).forecast(6)
    )
    assert not again.regressor_.model_.members[0].row_error[48:].sum() == 0


def test_errors_of_shuffled_rows_stay_with_their_rows():
    frame = frame_of()
    shuffled = frame.sample(frac=1, random_state=1)
    one, other = (
        DeepLFMForecaster(MODEL, effort="fast").fit(
            item, measurement_error={"sales": "sales_error"}
        )
        for item in (frame, shuffled)
    )
    pd.testing.assert_frame_equal(one.forecast(6), other.forecast(6), check_freq=False)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ({"model": "sinusoids + broadband"}, {}, "noise that does not differ by row"),
        ({"model": "ensemble"}, {}, "noise that does not differ by row"),
        ({"model": MODEL, "log_targets": True}, {}, "not to their logarithms"),
        ({"model": MODEL}, {"measurement_error": np.ones(3)}, "one standard deviation"),
        ({"model": MODEL}, {"measurement_error": -np.ones(60)}, "at least 0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(arguments, options, message):
    time, y, error, _ = series()
    with pytest.raises((ConfigError, InputError), match=message):
        DeepLFMRegressor(**arguments).fit(time, y, **{"measurement_error": error} | options)


@pytest.mark.parametrize("given", ["no column", {"other": "sales_error"}, ["sales_error"] * 3, []])
def test_wrong_columns_are_refused(given):
    with pytest.raises(InputError, match="measurement_error"):
        DeepLFMForecaster(MODEL).fit(frame_of(), targets=["sales"], measurement_error=given)


def test_several_rows_of_one_time_are_refused():
    frame = pd.concat([frame_of(), frame_of()[:3]])
    with pytest.raises(InputError, match="measurement_error: several rows of one time"):
        DeepLFMForecaster(MODEL).fit(frame, measurement_error="sales_error", duplicates="mean")


def test_the_default_tries_only_models_that_take_errors():
    time, y, error, _ = series(120)
    model = DeepLFMRegressor(n_jobs=1).fit(time, y, measurement_error=error)
    assert set(model.selection_.index) == {"level", "reversion", "sinusoids"}
