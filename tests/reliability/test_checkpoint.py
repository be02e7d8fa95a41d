"""A fit that is killed anywhere is continued to the same bits; other data or settings are refused."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import deeplfm
from deeplfm import ConfigError, DeepLFMForecaster, DeepLFMRegressor, InputError, ModelFileError
from deeplfm.estimators import panel_parts
from deeplfm.training import checkpoint, loop

X = np.linspace(0, 10, 60)
Y = np.stack([np.sin(3 * X), np.cos(2 * X) + 0.1 * X], axis=1)
Y[10:14, 0] = np.nan
RUNS: dict[str, dict[str, Any]] = {
    "single": {"model": "paper(n_features=5)", "n_steps": 12},
    "phases": {"model": "reference(n_features=5)", "n_steps": 9},
    "plateau": {"model": "sinusoids + broadband", "n_steps": 12, "patience": 3},
    "batches": {"model": "sinusoids + broadband", "n_steps": 12, "batch_size": 20},
    "selection": {"model": {"a": "sinusoids + broadband", "b": "trend + broadband"}, "n_steps": 5},
    "families": {
        "model": {"a": "autoregression", "b": "nearest-neighbour GP", "c": "trend + broadband"}
    },
}


class KilledError(Exception):
    """In place of a signal."""


def same_bits(left: DeepLFMRegressor, right: DeepLFMRegressor) -> bool:
    ours, theirs = left.model_.state_dict(), right.model_.state_dict()
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[name].nan_to_num(7.0), theirs[name].nan_to_num(7.0)) for name in ours
    )


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every step."""
    monkeypatch.setattr(checkpoint, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_COST", 1e9)


@pytest.fixture
def killed_after(monkeypatch: pytest.MonkeyPatch):
    """Let training fail after a number of steps."""
    plain, left = loop._Run._step, [0]

    def step(run: Any, *arguments: Any) -> None:
        plain(run, *arguments)
        left[0] -= 1
        if left[0] == 0:
            raise KilledError

    monkeypatch.setattr(loop._Run, "_step", step)
    return lambda n_steps: left.__setitem__(0, n_steps)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", RUNS)
def test_a_fit_that_is_killed_again_and_again_ends_with_the_same_bits(
    name: str, tmp_path: Path, killed_after: Any
) -> None:
    options = RUNS[name] | {"progress": False}
    expected = DeepLFMRegressor(**options).fit(X, Y)
    n_killed = 0
    while n_killed < 100:
        killed_after(1 + n_killed % 5)
        model = DeepLFMRegressor(**options, checkpoint=tmp_path / "run")
        try:
            model.fit(X, Y)
            break
        except KilledError:
            n_killed += 1
    assert n_killed >= 1
    assert same_bits(model, expected)
    killed_after(1)
    again = DeepLFMRegressor(**options, checkpoint=tmp_path / "run")
    if name not in ("single", "phases", "plateau"):  # finished candidates are not trained again
        assert same_bits(again.fit(X, Y), expected)


@pytest.mark.usefixtures("eager")
def test_mini_batches_from_files_are_continued(tmp_path: Path, killed_after: Any) -> None:
    table = np.memmap(tmp_path / "x", np.float64, "w+", shape=(300, 2))
    table[:] = np.random.default_rng(0).normal(size=(300, 2))
    target = np.asarray(table[:, 0] * table[:, 1])
    options = {"model": "dlfm", "n_steps": 6, "batch_size": 50, "progress": False}
    expected = DeepLFMRegressor(**options).fit(table, target)
    model = DeepLFMRegressor(**options, checkpoint=str(tmp_path / "run"))
    for n_steps in (2, 3):
        killed_after(n_steps)
        with pytest.raises(KilledError):
            model.fit(table, target)
    assert same_bits(model.fit(table, target), expected)


@pytest.mark.usefixtures("eager")
def test_the_last_two_states_are_kept_and_one_may_be_damaged(
    tmp_path: Path, killed_after: Any
) -> None:
    options = RUNS["single"] | {"progress": False}
    expected = DeepLFMRegressor(**options).fit(X, Y)
    model = DeepLFMRegressor(**options, checkpoint=tmp_path / "run")
    killed_after(5)
    with pytest.raises(KilledError):
        model.fit(X, Y)
    states = sorted(tmp_path.rglob("state-*"))
    assert [state.name for state in states] == ["state-0", "state-1"]
    (tensors,) = states[1].glob("tensors-*")
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"checkpoint: .*damaged.*Going on without it"):
        model.fit(X, Y)
    assert same_bits(model, expected)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("changes", "x", "y", "message"),
    [
        ({"n_steps": 13}, X, Y, "n_steps '12' there, '13' here"),
        ({"random_state": 1}, X, Y, "random_state '0' there, '1' here"),
        ({"model": "trend"}, X, Y, "is of another run"),
        ({}, X, Y + 1e-12, "data differ"),
        ({}, X[:-1], Y[:-1], "is of another run"),
    ],
)
def test_other_data_or_settings_are_refused(
    changes: dict, x: np.ndarray, y: np.ndarray, message: str, tmp_path: Path, killed_after: Any
) -> None:
    options = RUNS["single"] | {"progress": False, "checkpoint": tmp_path / "run"}
    killed_after(2)
    with pytest.raises(KilledError):
        DeepLFMRegressor(**options).fit(X, Y)
    with pytest.raises(InputError, match=f"checkpoint: .*{message}"):
        DeepLFMRegressor(**options | changes).fit(x, y)


def test_places_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for place, error in (
        (tmp_path, InputError),
        (tmp_path / "notes.txt", InputError),
        (3, ConfigError),
    ):
        with pytest.raises(error, match="checkpoint: "):
            DeepLFMRegressor("trend", n_steps=1, checkpoint=place).fit(X, Y)


def test_a_forecaster_is_continued_and_its_model_forgets_the_folder(tmp_path: Path) -> None:
    frame = pd.DataFrame(Y, index=X, columns=["a", "b"])
    options = {"model": "trend + level", "n_steps": 2, "progress": False}
    model = DeepLFMForecaster(**options, checkpoint=tmp_path / "run").fit(frame)
    again = DeepLFMForecaster(**options, checkpoint=tmp_path / "run").fit(frame)
    assert same_bits(model.regressor_, again.regressor_)
    assert len(model.backtest(folds=2, horizon=3)) == 4
    model.save(tmp_path / "model")
    assert deeplfm.load(tmp_path / "model").checkpoint is None


def test_a_full_disk_does_not_end_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = RUNS["batches"] | {"progress": False}
    expected = DeepLFMRegressor(**options).fit(X, Y)
    plain = checkpoint.write_folder

    def full(folder: Path, *given: Any) -> None:
        if folder.name != "run":
            raise InputError("save: no space left on device.")
        plain(folder, *given)

    monkeypatch.setattr(checkpoint, "write_folder", full)
    model = DeepLFMRegressor(**options, checkpoint=tmp_path / "run")
    with pytest.warns(UserWarning, match=r"checkpoint: save: no space.*Going on without it"):
        model.fit(X, Y)
    assert same_bits(model, expected)


@pytest.mark.parametrize("other", [{"random_state": 1}, {"n_steps": 6}])
def test_what_another_run_has_kept_is_not_used(tmp_path: Path, other: dict[str, int]) -> None:
    """It was: a unit is found by its name, and has the right checksum wherever it is."""
    options = RUNS["selection"] | {"progress": False}
    expected = DeepLFMRegressor(**options).fit(X, Y)
    for name, changes in (("own", {}), ("other", other)):
        DeepLFMRegressor(**options | changes, checkpoint=tmp_path / name).fit(X, Y)
    for done in (tmp_path / "own").glob("*/selection-*/done"):
        shutil.rmtree(done)
        shutil.copytree(tmp_path / "other" / done.relative_to(tmp_path / "own"), done)
    with pytest.warns(UserWarning, match="is of another run, or of another part"):
        again = DeepLFMRegressor(**options, checkpoint=tmp_path / "own").fit(X, Y)
    assert same_bits(again, expected)


DAYS = pd.date_range("2024-01-01", periods=24)


def panel_of(**columns: np.ndarray) -> pd.DataFrame:
    """Series in long form."""
    frames = [pd.DataFrame({"unique_id": k, "ds": DAYS, "y": v}) for k, v in columns.items()]
    return pd.concat(frames, ignore_index=True)


def forecasts_of(frame: pd.DataFrame, folder: Path | None = None) -> pd.DataFrame:
    model = DeepLFMForecaster("trend + level", progress=False, checkpoint=folder)
    return model.fit(frame).forecast(2)


def test_series_of_one_mean_and_scale_are_not_mixed_up(tmp_path: Path) -> None:
    """The second had the forecast of the first: what was kept of a candidate had the same name."""
    values = np.r_[np.arange(16.0), 2 * np.arange(8.0)]
    frame = panel_of(first=values, second=values[::-1])
    pd.testing.assert_frame_equal(forecasts_of(frame, tmp_path / "run"), forecasts_of(frame))
    assert not [
        path for path in (tmp_path / "run").iterdir() if path.name[:4] not in ("run", "part")
    ]


@pytest.mark.parametrize("how", ["numbers", "another run"])
def test_parts_of_a_panel_in_other_places_are_refused(tmp_path: Path, how: str) -> None:
    """They were used in silence: a part had the checksum of its content only."""
    frame = panel_of(first=np.sin(np.arange(24)), second=np.arange(24.0) % 7)
    forecasts_of(frame, tmp_path / "run")
    first, second = sorted((tmp_path / "run").glob("part-*"))
    if how == "numbers":
        hashes = [path.name.split("-")[2] for path in (first, second)]
        second.rename(second.with_name(f"part-000000-{hashes[1]}"))
        first.rename(first.with_name(f"part-000001-{hashes[0]}"))
    else:
        forecasts_of(frame.assign(y=-frame["y"]), tmp_path / "other")
        first.unlink()
        shutil.copy(min((tmp_path / "other").glob("part-*")), tmp_path / "run")
    with pytest.raises(ModelFileError, match="is of another run, or another part of this one"):
        forecasts_of(frame, tmp_path / "run")


def test_a_full_disk_does_not_end_a_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    frame = panel_of(first=np.sin(np.arange(24)), second=np.arange(24.0) % 7)
    expected = forecasts_of(frame)
    monkeypatch.setattr(panel_parts, "write_parts", full)
    with pytest.warns(UserWarning, match=r"No space left on device.*Going on without it"):
        found = forecasts_of(frame, tmp_path / "run")
    pd.testing.assert_frame_equal(found, expected)


def test_a_name_that_the_system_refuses_is_an_input_error() -> None:
    with pytest.raises(InputError, match="checkpoint: cannot make folder"):
        DeepLFMRegressor("trend", progress=False, checkpoint="a\0b").fit(X, Y)


FIT = """
import sys, numpy as np, deeplfm
from deeplfm.training import checkpoint
checkpoint._LEAST_SECONDS, checkpoint._COST = 0.0, 1e9
x = np.linspace(0, 10, 60)
model = deeplfm.DeepLFMRegressor(
    {"a": "sinusoids + broadband", "b": "trend + broadband"}, n_steps=40, n_jobs=2,
    progress=False, checkpoint=sys.argv[1])
model.fit(x, np.sin(3 * x)).save(sys.argv[2])
"""


def test_processes_that_are_killed_are_continued(tmp_path: Path) -> None:
    def start(run: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", FIT, str(tmp_path / run), str(tmp_path / f"{run}-m")]
        )

    assert start("whole").wait() == 0
    process = start("killed")
    while not list((tmp_path / "killed").rglob("state-*")):
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed-m").exists()
    assert start("killed").wait() == 0
    whole, killed = (deeplfm.load(tmp_path / f"{run}-m") for run in ("whole", "killed"))
    assert same_bits(whole, killed)


def test_sigterm_saves_the_best_so_far_and_the_same_command_continues(tmp_path: Path) -> None:
    rows = "\n".join(f"{t:.3f},{y:.5f}" for t, y in zip(X, np.sin(3 * X), strict=True))
    (tmp_path / "data.csv").write_text(f"t,y\n{rows}\n")
    options = "--model paper(n_features=50) --n-steps 100000 --checkpoint run -o model".split()
    command = [sys.executable, "-c", "from deeplfm.cli import main; main()", "fit", "data.csv"]
    process = subprocess.Popen([*command, *options], cwd=tmp_path, stderr=subprocess.PIPE)
    while not list((tmp_path).rglob("state-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    error = process.communicate()[1].decode()
    assert process.returncode == 130, error
    assert "interrupted. Kept the best so far" in error
    model = deeplfm.load(tmp_path / "model")
    n_before = len(model.regressor_.history_)
    states = [path.stat().st_mtime_ns for path in tmp_path.rglob("state-*")]
    process = subprocess.Popen([*command, *options, "--overwrite"], cwd=tmp_path)
    while max(states) == max(path.stat().st_mtime_ns for path in tmp_path.rglob("state-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    assert len(deeplfm.load(tmp_path / "model").regressor_.history_) > n_before
