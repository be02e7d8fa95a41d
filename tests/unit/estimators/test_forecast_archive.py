"""A forecaster comes back from its folder with every time, value and bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import ModelFileError
from deeplfm.estimators import DeepLFMForecaster, DeepLFMRegressor, load

BERLIN = "Europe/Berlin"


def quick(**options: Any) -> DeepLFMForecaster:
    return DeepLFMForecaster(**{"start": "pursuit", "n_steps": 5, "random_state": 0} | options)


@pytest.fixture(scope="module")
def driven() -> DeepLFMForecaster:
    """Fitted with gaps and a covariate, by numbers as names."""
    time = np.arange(60) * 0.1
    values = np.stack([time, np.sin(3 * time), np.cos(2 * time), np.sign(time % 2 - 1)], axis=1)
    values[10:15, 1] = np.nan
    return quick(hidden=(2, 3)).fit(pd.DataFrame(values), time=0, covariates=3)


@pytest.mark.parametrize(
    "times",
    [
        pd.Index(np.arange(60) * 0.25),
        pd.Index(np.arange(60)),
        pd.timedelta_range("0s", periods=60, freq="90s"),
        pd.date_range("2024-01-01", periods=60, freq="W"),
        pd.date_range("2024-01-01", periods=60, freq="D", tz=BERLIN),
    ],
)
def test_every_kind_of_time_is_learned_saved_and_continued(times: pd.Index, tmp_path: Path) -> None:
    wave = 7 + np.sin(np.arange(60) * 0.9)
    model = quick().fit(pd.Series(wave, index=times, name="y"))
    forecast = model.forecast(6)
    assert forecast.index.dtype == times.dtype
    assert forecast["y"].to_numpy() == pytest.approx(7 + np.sin(np.arange(60, 66) * 0.9), abs=0.1)
    model.save(tmp_path / "model")
    for loaded in (DeepLFMForecaster.load(tmp_path / "model"), load(tmp_path / "model")):
        assert isinstance(loaded, DeepLFMForecaster)
        pd.testing.assert_frame_equal(loaded.training_, model.training_)
        pd.testing.assert_frame_equal(loaded.forecast(6), forecast)
        assert loaded.timeline_ == model.timeline_


def test_everything_comes_back(driven: DeepLFMForecaster, tmp_path: Path) -> None:
    driven.save(tmp_path / "model")
    loaded = DeepLFMForecaster.load(tmp_path / "model")
    assert loaded.get_params() == driven.get_params()
    assert (loaded.targets_, loaded.covariates_) == ([1, 2], [3])
    pd.testing.assert_frame_equal(loaded.training_, driven.training_)
    times = [0.1, 1.2]
    pd.testing.assert_frame_equal(loaded.forecast(times=times), driven.forecast(times=times))


def test_the_gaps_of_training_can_be_filled_after_loading(
    driven: DeepLFMForecaster, tmp_path: Path
) -> None:
    driven.save(tmp_path / "model")
    filled = DeepLFMForecaster.load(tmp_path / "model").impute()
    assert not filled.isna().any(axis=None)
    assert filled[1].tolist() == driven.impute()[1].tolist()


def test_news_at_a_finer_resolution_move_no_time(tmp_path: Path) -> None:
    seconds = pd.date_range("2024-01-01", periods=40, freq="10s").as_unit("s")
    frame = pd.DataFrame({"y": np.sin(np.arange(40.0))}, index=seconds)
    model = quick().fit(frame)
    late = pd.DatetimeIndex(["2024-01-01 00:06:40.000000001"])
    model.update(pd.DataFrame({"y": [0.5]}, index=late))
    assert (model.training_.index[:40] == seconds).all()
    assert model.training_.index[-1] == late[0]
    forecast = model.forecast(2)
    assert forecast.index[-1] == late[0] + pd.Timedelta("20s")
    model.save(tmp_path / "model")
    loaded = DeepLFMForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.training_, model.training_, check_freq=False)
    pd.testing.assert_frame_equal(loaded.forecast(2), forecast)


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    time = np.arange(30.0)
    DeepLFMRegressor(start="pursuit", n_steps=1).fit(time, np.sin(time)).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="does not describe a DeepLFMForecaster"):
        DeepLFMForecaster.load(tmp_path / "model")


@pytest.mark.parametrize("key", ["parameters", "timeline", "targets", "regressor"])
def test_a_damaged_description_is_refused(
    driven: DeepLFMForecaster, tmp_path: Path, key: str
) -> None:
    driven.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=f"does not describe a DeepLFMForecaster.*{key}"):
        load(tmp_path / "model")
