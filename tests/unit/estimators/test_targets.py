"""Predictions have the form of the inputs, and outliers are found."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import deeplfm
from deeplfm import DeepLFMForecaster, DeepLFMRegressor
from deeplfm.estimators.targets import (
    Labels,
    OutlierWarning,
    find_outliers,
    find_sentinel,
    find_sentinels,
    warn_of_outliers,
)

INDEX = pd.date_range("2024-01-01", periods=40, freq="h")
TIME = pd.DataFrame({"hour": np.arange(40.0)}, index=INDEX)
PAIR = pd.DataFrame({"a": np.sin(TIME["hour"]), "b": np.cos(TIME["hour"])}, index=INDEX)
ASKED = TIME.iloc[5:12]
LEVELS = [0.1, 0.5, 0.9]


def quick() -> DeepLFMRegressor:
    return DeepLFMRegressor(model="lfm", n_steps=1)


@pytest.fixture(scope="module")
def of_frame() -> DeepLFMRegressor:
    return quick().fit(TIME, PAIR)


@pytest.fixture(scope="module")
def of_series() -> DeepLFMRegressor:
    return quick().fit(TIME, PAIR["a"])


@pytest.fixture(scope="module")
def of_arrays() -> DeepLFMRegressor:
    return quick().fit(TIME.to_numpy(), PAIR.to_numpy())


def answers(model: DeepLFMRegressor, rows: object) -> list[object]:
    """Everything that has one number for each row and output."""
    return [
        model.predict(rows),
        *model.predict(rows, return_std=True),
        *model.predict(rows, return_std=True, latent=True),
        *model.predict_interval(rows, coverage=0.8),
    ]


def test_a_frame_of_targets_gives_frames(of_frame: DeepLFMRegressor) -> None:
    for answer in answers(of_frame, ASKED):
        assert isinstance(answer, pd.DataFrame)
        pd.testing.assert_index_equal(answer.index, ASKED.index)
        assert list(answer.columns) == ["a", "b"]


def test_a_series_of_targets_gives_series(of_series: DeepLFMRegressor) -> None:
    for answer in answers(of_series, ASKED):
        assert isinstance(answer, pd.Series)
        pd.testing.assert_index_equal(answer.index, ASKED.index)
        assert answer.name == "a"


def test_times_may_be_a_series_too(of_series: DeepLFMRegressor) -> None:
    model = quick().fit(TIME["hour"], PAIR["a"])
    answer = model.predict(ASKED["hour"])
    pd.testing.assert_series_equal(answer, of_series.predict(ASKED))


def test_arrays_stay_arrays(of_arrays: DeepLFMRegressor) -> None:
    for answer in answers(of_arrays, ASKED.to_numpy()):
        assert type(answer) is np.ndarray
        assert answer.shape == (7, 2)
    assert of_arrays.predict_quantiles(ASKED.to_numpy(), LEVELS).shape == (7, 2, 3)
    assert of_arrays.sample_y(ASKED.to_numpy(), 4).shape == (7, 2, 4)
    vector = quick().fit(TIME.to_numpy(), PAIR["a"].to_numpy())
    assert vector.predict_quantiles(ASKED.to_numpy(), LEVELS).shape == (7, 3)
    assert vector.sample_y(ASKED.to_numpy(), 4).shape == (7, 4)


def test_without_names_on_one_side_predictions_are_arrays(of_arrays: DeepLFMRegressor) -> None:
    nameless = quick().fit(TIME, PAIR.to_numpy())
    assert type(nameless.predict(ASKED)) is np.ndarray
    with_names = quick().fit(TIME.to_numpy(), PAIR)
    assert type(with_names.predict(ASKED.to_numpy())) is np.ndarray
    assert np.array_equal(with_names.predict(ASKED.to_numpy()), nameless.predict(ASKED))


def test_names_change_no_number(of_frame: DeepLFMRegressor, of_arrays: DeepLFMRegressor) -> None:
    rows = ASKED.to_numpy()
    for named, plain in zip(answers(of_frame, ASKED), answers(of_arrays, rows), strict=True):
        assert np.array_equal(named, plain)
    quantiles = of_frame.predict_quantiles(ASKED, LEVELS)
    draws = of_frame.sample_y(ASKED, 4, random_state=1)
    plain_quantiles = of_arrays.predict_quantiles(rows, LEVELS)
    plain_draws = of_arrays.sample_y(rows, 4, random_state=1)
    for d, name in enumerate("ab"):
        assert np.array_equal(quantiles[name], plain_quantiles[:, d])
        assert np.array_equal(draws[name], plain_draws[:, d])


def test_quantiles_and_draws_are_columns_below_the_targets(of_frame: DeepLFMRegressor) -> None:
    quantiles = of_frame.predict_quantiles(ASKED, LEVELS)
    assert list(quantiles.columns) == [(name, level) for name in "ab" for level in LEVELS]
    pd.testing.assert_index_equal(quantiles.index, ASKED.index)
    for name in "ab":
        assert (quantiles[name, 0.1] < quantiles[name, 0.9]).all()
    draws = of_frame.sample_y(ASKED, 2)
    assert list(draws.columns) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    pd.testing.assert_index_equal(draws.index, ASKED.index)


def test_quantiles_and_draws_of_a_series_are_plain_columns(of_series: DeepLFMRegressor) -> None:
    assert list(of_series.predict_quantiles(ASKED, LEVELS).columns) == LEVELS
    assert list(of_series.sample_y(ASKED, 3).columns) == [0, 1, 2]


def test_a_frame_of_one_target_is_not_a_series() -> None:
    model = quick().fit(TIME, PAIR[["b"]])
    assert list(model.predict(ASKED).columns) == ["b"]
    assert list(model.predict_quantiles(ASKED, [0.5]).columns) == [("b", 0.5)]


@pytest.mark.parametrize(
    "names", [["a", "b"], [0, 1], [("left", "x"), ("left", "y")], [np.int64(4), np.int64(7)]]
)
def test_names_of_any_kind_survive_saving(names: list[object], tmp_path: Path) -> None:
    targets = PAIR.set_axis(pd.Index(names), axis=1)
    model = quick().fit(TIME, targets)
    model.save(tmp_path / "model")
    loaded = deeplfm.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(ASKED), model.predict(ASKED))
    pd.testing.assert_frame_equal(
        loaded.predict_quantiles(ASKED, LEVELS), model.predict_quantiles(ASKED, LEVELS)
    )
    assert loaded.labels_ == model.labels_


def test_a_nameless_series_survives_saving(tmp_path: Path) -> None:
    model = quick().fit(TIME, PAIR["a"].rename(None))
    model.save(tmp_path / "model")
    loaded = deeplfm.load(tmp_path / "model")
    pd.testing.assert_series_equal(loaded.predict(ASKED), model.predict(ASKED))


@pytest.mark.parametrize(
    ("targets", "texts"),
    [
        (PAIR, ["a", "b"]),
        (PAIR["a"], ["a"]),
        (PAIR["a"].rename(None), ["y"]),
        (PAIR.set_axis([3, 4], axis=1), ["3", "4"]),
        (PAIR.to_numpy(), ["y0", "y1"]),
        (PAIR["a"].to_numpy(), ["y"]),
        (PAIR["a"].tolist(), ["y"]),
    ],
)
def test_every_output_can_be_called_something(targets: object, texts: list[str]) -> None:
    assert Labels.of(targets, len(texts)).texts == texts


STEPS = np.arange(400.0)


def level(seed: int = 0) -> np.ndarray:
    """A daily wave around 100, with noise."""
    noise = np.random.default_rng(seed).normal(size=len(STEPS))
    return 100 + np.sin(2 * np.pi * STEPS / 24) + 0.3 * noise


def beats(n_rows: int) -> np.ndarray:
    """A flat line with sharp peaks, as of a heart: few rows are far, and some lie between."""
    time = np.arange(n_rows) / 125
    noise = 0.02 * np.random.default_rng(0).normal(size=n_rows)
    values = np.exp(-0.5 * ((time % 0.8 - 0.4) / 0.01) ** 2) + noise
    assert 0.01 < (values > 0.4).mean() < 0.05
    return values


def test_readings_of_zero_are_outliers() -> None:
    values = level()
    values[[20, 21, 22, 150]] = 0.0
    found = find_outliers(values)
    assert found is not None
    assert (found.count, found.segments, found.span) == (4, 2, (0.0, 0.0))
    assert found.others == pytest.approx((98.3, 101.7), abs=0.6)


def test_what_is_far_at_the_end_counts_for_nothing() -> None:
    values = level()
    values[[20, 21, 150, 398, 399]] = -999.0
    found = find_outliers(values)
    assert found is not None
    assert (found.count, found.segments) == (3, 2)


def test_an_outage_with_slow_sides_is_one() -> None:
    values = level()
    values[200:214] = [70, 40, *[24.1] * 8, 30, 50, 70, 85]
    found = find_outliers(values)
    assert found is not None
    assert found.segments == 1


@pytest.mark.parametrize(
    "values",
    [
        level(),
        beats(250),  # two of them
        beats(2000),
        np.where(STEPS < 390, level(), 0.0),  # the end: it may stay so
        np.where(STEPS % 4 == 0, 0.0, level()),  # too many to be outliers
        np.random.default_rng(0).lognormal(sigma=2.0, size=400),
        np.where(STEPS == 7, 1.0, 0.0),  # the rest has no range
        np.array([0.0, *[100.0, 101.0, 102.0] * 3]),  # too few to say
        np.full(50, np.nan),
    ],
)
def test_what_is_part_of_the_signal_is_none(values: np.ndarray) -> None:
    assert find_outliers(values) is None


def test_the_warning_names_the_column_and_the_remedy() -> None:
    values = level()
    values[100:103] = [-999.0, np.nan, -999.0]
    frame = pd.DataFrame({"flow": values, "other": level(1)}, index=STEPS)
    with pytest.warns(UserWarning, match=r"flow: 2 values .*\(-999; .*in 1 segment\..* by NaN"):
        DeepLFMForecaster(model="sinusoids + broadband", n_steps=1).fit(frame)
    frame.loc[100:102, "flow"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepLFMForecaster(model="sinusoids + broadband", n_steps=1).fit(frame)


def test_rare_values_of_a_table_are_not_spoken_of() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = np.where(STEPS == 9, 1e4, x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepLFMRegressor(model="nearest-neighbour-gp").fit(x, y)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
@pytest.mark.parametrize(
    ("low", "high", "code"), [(2, 1479, -200.0), (-2, 45, -200.0), (60, 80, 0.0), (0, 1, 9999.0)]
)
def test_a_repeated_extreme_value_is_found_at_any_share(
    share: float, low: float, high: float, code: float
) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(low, high, 1000)
    values[rng.random(1000) < share] = code
    assert find_sentinel(values) == code
    with pytest.warns(OutlierWarning, match=rf"are {code:g}, far from.*missing_values={code:g}"):
        warn_of_outliers(values[:, None], ["co"])


def test_one_warning_names_all_columns_of_a_sentinel_value_also_where_it_ends_the_series() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 50, size=(400, 3))
    values[30:40, 0] = values[100:, 1] = -200.0  # the second sensor was taken off
    with pytest.warns(OutlierWarning) as caught:
        warn_of_outliers(values, ["co", "nmhc", "t"])
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith(
        "2 targets have values of -200, far from all others: co (2.5 %), nmhc (75 %)"
    )
    assert find_sentinels(values[:, 1:]) == [None, None]


def test_zeros_of_counts_levels_and_saturation_are_no_sentinels() -> None:
    rng = np.random.default_rng(0)
    assert find_sentinel(rng.poisson(0.5, 500).astype(float)) is None
    assert find_sentinel(np.minimum(rng.normal(size=500), 1.0)) is None
    assert find_sentinel(np.repeat([0.0, 5.0], 50)) is None
    assert find_sentinel(np.r_[rng.normal(size=200), np.full(50, 40.0)]) is None
    closed = rng.uniform(3000, 9000, 700)
    closed[::7] = 0
    assert find_sentinel(closed) is None
