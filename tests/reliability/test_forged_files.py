"""Folders of forecasters and panels in which a value was changed and given the right checksum."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import deeplfm
from deeplfm import DeepLFMForecaster, ModelFileError
from deeplfm.io import storage
from deeplfm.io.parts import pack, unpack, write_parts

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
