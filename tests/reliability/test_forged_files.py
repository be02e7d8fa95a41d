"""Folders of forecasters and panels in which a value was changed and given the right checksum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

import deeplfm
from deeplfm import DeepLFMForecaster, InputError, ModelFileError
from deeplfm.io import storage
from deeplfm.io.parts import pack, unpack, write_parts
from deeplfm.statespace.clocks_config import ClocksConfig
from deeplfm.statespace.phases import Clock, Shape

DAYS = pd.date_range("2024-01-01", periods=30, freq="D")


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = pd.DataFrame({"a": np.sin(np.arange(30) / 3)}, index=DAYS)
    folder = tmp_path_factory.mktemp("forecaster") / "model"
    DeepLFMForecaster("trend + level", progress=False).fit(frame).save(folder)
    return folder


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = [pd.DataFrame({"unique_id": name, "ds": DAYS, "y": np.cos(np.arange(30) / 3)})
              for name in ("first", "second")]  # fmt: skip
    folder = tmp_path_factory.mktemp("panel") / "model"
    DeepLFMForecaster("trend + level", progress=False).fit(pd.concat(frames)).save(folder)
    return folder


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    times = np.linspace(0, 6, 40)
    frame = pd.DataFrame({"a": np.sin(6 * times)}, index=pd.Index(times, name="t"))
    folder = tmp_path_factory.mktemp("clocks") / "model"
    DeepLFMForecaster("warped(season) + level", progress=False).fit(frame).save(folder)
    return folder


def copy_of(folder: Path, place: Path) -> Path:
    """A copy whose files are links to nothing of the original."""
    for path in folder.rglob("*"):
        if path.is_file():
            target = place / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return place


def put(content: Any, keys: Sequence[Any], value: Any) -> None:
    for key in keys[:-1]:
        content = content[key]
    content[keys[-1]] = value


def forge(folder: Path, keys: Sequence[Any], value: Any) -> None:
    path = folder / storage.DESCRIPTION
    content = json.loads(path.read_text())
    del content["sha256"]
    put(content, keys, value)
    path.write_text(storage.description_text(content))


def forge_tensor(folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    (path,) = folder.glob("tensors-*")
    tensors = load(path.read_bytes())
    content = save(tensors | {name: change(tensors[name])})
    path.write_bytes(content)
    forge(folder, ("tensors_sha256",), hashlib.sha256(content).hexdigest())
    forge(folder, ("not_finite",), sorted(tensors))


def forge_part(folder: Path, keys: Sequence[Any], value: Any) -> None:
    """Change a value of the first part, and name the new file in the description."""
    path = min(folder.rglob("part-000000-*"))
    description, tensors = unpack(path.read_bytes())
    put(description, keys, value)
    path.unlink()
    (name,) = write_parts(path.parent, [(0, pack(description, tensors))])
    forge(folder, ("parts", "files", 0), name)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("timeline", "frequency"), {}),
        (("timeline", "frequency"), "no frequency"),
        (("timeline", "step", "size"), [[]]),
        (("timeline", "resolution"), "fortnight"),
        (("timeline", "kind"), "number"),
        (("timeline", "columns"), [1.5]),
        (("inputs", "country"), 0),
        (("inputs", "levels"), [["a", [1]]]),
        (("targets", 0), []),
        (("targets",), ["a", "b"]),
        (("parameters", "n_jobs"), "all"),
        (("parameters", "n_steps"), -1),
    ],
)
def test_a_forecaster_with_a_value_of_another_kind_is_refused_when_it_is_loaded(
    forecaster: Path, keys: Sequence[str], value: Any, tmp_path: Path
) -> None:
    """It was loaded, and its first forecast or update ended with an error of pandas."""
    folder = copy_of(forecaster, tmp_path / "model")
    forge(folder, keys, value)
    with pytest.raises(ModelFileError, match="does not describe a DeepLFMForecaster"):
        deeplfm.load(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("training.times", torch.zeros_like),
        ("training.times", lambda old: old.flip(0)),
        ("regressor.scaling.x_shift", lambda old: old * torch.nan),
        ("regressor.scaling.y_scale", lambda old: -old),
        ("regressor.model.members.0.likelihood.log_variance", lambda old: old + torch.inf),
    ],
)
def test_tensors_with_values_that_have_no_meaning_are_refused(
    forecaster: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    """They were loaded, and the first forecast or update ended with an error of pandas or torch."""
    folder = copy_of(forecaster, tmp_path / "model")
    forge_tensor(folder, name, change)
    with pytest.raises(ModelFileError, match="does not describe a DeepLFM"):
        deeplfm.load(folder)


@pytest.mark.parametrize("name", ["jumps", "knots", "border", "x", "row_weight"])
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_clocks_with_tensors_that_are_not_finite_are_refused(
    clocks: Path, name: str, value: float, tmp_path: Path
) -> None:
    """They were loaded, and the first update ended with a ValueError of scipy."""
    folder = copy_of(clocks, tmp_path / "model")
    forge_tensor(
        folder, f"regressor.model.members.0.{name}", lambda old: torch.full_like(old, value)
    )
    with pytest.raises(ModelFileError, match=f"{name} is not finite"):
        deeplfm.load(folder)


def test_a_clock_whose_rows_are_elsewhere_is_refused(clocks: Path, tmp_path: Path) -> None:
    """Its first forecast was an OverflowError."""
    folder = copy_of(clocks, tmp_path / "model")
    forge_tensor(folder, "regressor.scaling.x_scale", lambda old: old * 1e-300)
    with pytest.raises(InputError, match=r"clocks: a time is .*e\+30. quarters of a cycle after"):
        deeplfm.load(folder).forecast(2)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("members", 0, "arguments", "config", 0, "step"), 0.0),
        (("members", 0, "arguments", "config", 0, "has_level"), None),
    ],
)
def test_a_finished_candidate_with_a_value_without_a_meaning_is_refused(
    keys: Sequence[Any], value: Any, tmp_path: Path
) -> None:
    """A step of zero ended the fit with a ZeroDivisionError, where its candidate was used."""
    frame = pd.DataFrame({"a": np.sin(np.arange(30) / 3)}, index=DAYS)
    model = DeepLFMForecaster("trend + level", progress=False, checkpoint=tmp_path)
    model.fit(frame)
    for path in tmp_path.rglob(f"done/{storage.DESCRIPTION}"):
        forge(path.parent, keys, value)
    with pytest.raises(ModelFileError, match="does not describe a state of this run"):
        model.fit(frame)


@pytest.mark.parametrize("name", ["a\0b", "../../tensors-01234567.safetensors", "", None])
def test_names_of_files_that_are_not_ours_are_refused(
    forecaster: Path, panel: Path, name: str | None, tmp_path: Path
) -> None:
    folder = copy_of(forecaster, tmp_path / "model")
    forge(folder, ("tensors",), name)
    with pytest.raises(ModelFileError, match="does not describe where its tensors are"):
        deeplfm.load(folder)
    for keys in (("parts", "files", 0), ("parts", "folder")):
        folder = copy_of(panel, tmp_path / str(keys[-1]))
        forge(folder, keys, name)
        with pytest.raises(ModelFileError):
            deeplfm.load(folder).forecast(2)


@pytest.mark.parametrize(
    "changes",
    [{"width": "1"}, {"begin": None}, {"clocks": [{"frequency": {}, "std": 1.0, "lasting": 1.0}]}],
    ids=str,
)
def test_clocks_with_a_value_of_another_kind_are_refused(changes: dict[str, Any]) -> None:
    shape = Shape(
        np.ones((2, 1), dtype=np.int64),
        np.ones(2),
        0.1,
        0.0,
        1.0,
        1.0,
        1.0,
        amplitude=0.1,
        amplitude_lasting=5.0,
    )
    known = ClocksConfig((Clock(1.0, 0.1, 2.0),), (shape,), 0.0, 0.5)
    assert ClocksConfig.from_dict(known.to_dict()).to_dict() == known.to_dict()
    with pytest.raises(ValueError, match=r" of (ClocksConfig|Clock) is "):
        ClocksConfig.from_dict(known.to_dict() | changes)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("panel", "table", "number", 0), None),
        (("panel", "table", "number", 0), []),
        (("panel", "table", "part", 1), 2),
        (("panel", "table", "unique_id", 1), "first"),
        (("panel", "columns", "series"), 1.5),
        (("parameters", "n_jobs"), "all"),
    ],
)
def test_a_panel_with_a_value_of_another_kind_is_refused_when_it_is_loaded(
    panel: Path, keys: Sequence[Any], value: Any, tmp_path: Path
) -> None:
    folder = copy_of(panel, tmp_path / "model")
    forge(folder, keys, value)
    with pytest.raises(ModelFileError, match="does not describe a DeepLFMForecaster"):
        deeplfm.load(folder)


@pytest.mark.parametrize(
    ("keys", "value"),
    [(("series",), 1.5), (("series", 0), None), (("series", 0, "kind"), []), (("table",), [])],
)
def test_a_series_with_a_damaged_description_is_left_out_by_name(
    panel: Path, keys: Sequence[Any], value: Any, tmp_path: Path
) -> None:
    """It ended the forecast of all series, with an error of Python."""
    folder = copy_of(panel, tmp_path / "model")
    forge_part(folder, keys, value)
    model = deeplfm.load(folder)
    with pytest.warns(UserWarning, match="1 of 2 series left out .*'first': load: a part"):
        found = model.forecast(2)
    assert set(found["unique_id"]) == {"second"} and found["y"].notna().all()
    with pytest.raises(ModelFileError, match="a part of the panel does not describe"):
        model["first"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_a_part_that_is_no_regular_file_is_refused_at_once(
    panel: Path, kind: str, tmp_path: Path
) -> None:
    """A pipe was waited for, and a device read without an end."""
    folder = copy_of(panel, tmp_path / "model")
    part = min(folder.rglob("part-*"))
    part.unlink()
    {"folder": part.mkdir, "pipe": lambda: os.mkfifo(part),
     "device": lambda: part.symlink_to("/dev/zero")}[kind]()  # fmt: skip
    with pytest.raises(ModelFileError, match="cannot be read"):
        deeplfm.load(folder).forecast(2)
