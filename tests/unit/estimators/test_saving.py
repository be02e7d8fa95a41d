"""A forecaster comes back from its folder with every time, value and bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from deeplfm import ModelFileError
from deeplfm.estimators import DeepLFMForecaster, DeepLFMRegressor, load
from deeplfm.io import storage
from deeplfm.io.files import file_digest
from deeplfm.io.storage import write_folder
from deeplfm.terms import Season, Trend

BERLIN = "Europe/Berlin"


def quick(**options: Any) -> DeepLFMForecaster:
    return DeepLFMForecaster(
        **{"model": "sinusoids + broadband", "n_steps": 5, "random_state": 0} | options
    )


@pytest.fixture(scope="module")
def driven() -> DeepLFMForecaster:
    """Fitted with gaps and a covariate, by numbers as names."""
    time = np.arange(60) * 0.1
    values = np.stack([time, np.sin(3 * time), np.cos(2 * time), np.sign(time % 2 - 1)], axis=1)
    values[10:15, 1] = np.nan
    return quick().fit(pd.DataFrame(values), time=0, covariates=3)


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
    DeepLFMRegressor(model="sinusoids + broadband", n_steps=1).fit(time, np.sin(time)).save(
        tmp_path / "model"
    )
    with pytest.raises(ModelFileError, match="does not describe a DeepLFMForecaster"):
        DeepLFMForecaster.load(tmp_path / "model")


@pytest.mark.parametrize("key", ["parameters", "timeline", "targets", "regressor"])
def test_an_incomplete_description_is_refused(
    driven: DeepLFMForecaster, tmp_path: Path, key: str
) -> None:
    description, tensors = driven._described()
    del description[key]
    write_folder(tmp_path / "model", description, tensors)
    with pytest.raises(ModelFileError, match=f"does not describe a DeepLFMForecaster.*{key}"):
        load(tmp_path / "model")


def test_the_root_of_exact_weights_is_computed_again(
    driven: DeepLFMForecaster, tmp_path: Path
) -> None:
    _, tensors = driven._described()
    assert any(name.endswith("weights.precision") for name in tensors)
    assert not any(name.endswith("_root") for name in tensors)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("scaling.y_scale", lambda t: -t, "y_scale must be positive"),
        (
            "scaling.y_scale",
            lambda t: t[:1],
            r"shape \(1,\), expected torch.float64 of shape \(2,\)",
        ),
        ("scaling.y_shift", lambda t: t.float(), "float32 of shape"),
        ("scaling.is_log", lambda t: t.double(), "expected torch.bool"),
        ("model.weight", lambda t: t.float(), "weight is torch.float32, expected torch.float64"),
        ("model.weight", lambda t: t[:, :1], "do not fit"),
    ],
)
def test_tensors_of_another_shape_dtype_or_sign_are_refused(
    driven: DeepLFMForecaster, tmp_path: Path, name: str, change: Any, message: str
) -> None:
    description, tensors = driven._described()
    tensors[f"regressor.{name}"] = change(tensors[f"regressor.{name}"])
    write_folder(tmp_path / "model", description, tensors)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", ["scaling.y_shift", "scaling.x_scale", "model.weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(
    driven: DeepLFMForecaster, tmp_path: Path, name: str, value: float
) -> None:
    driven.save(tmp_path / "model")
    _, tensors = driven._described()
    tensors[f"regressor.{name}"] = torch.full_like(tensors[f"regressor.{name}"], value)
    with_tensors(tmp_path / "model", tensors)
    with pytest.raises(ModelFileError, match=f"{name} holds values that are not finite"):
        load(tmp_path / "model")


def with_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Other tensors in a model folder, with checksums that fit."""
    (path,) = folder.glob("*.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    content = json.loads((folder / "model.json").read_text())
    content["tensors_sha256"] = file_digest(path)
    del content["sha256"]
    (folder / "model.json").write_text(storage.description_text(content))


@pytest.mark.parametrize(
    "declared",
    [
        Trend() + Season(12),
        "trend + season(12)",
        {"a": Trend() + Season(12), "b": "trend + season(12)"},
    ],
)
def test_a_declared_model_comes_back_as_it_was_given(declared: Any, tmp_path: Path) -> None:
    model = quick(model=declared, n_steps=1).fit(pd.DataFrame({"y": np.sin(np.arange(40.0))}))
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").get_params() == model.get_params()
