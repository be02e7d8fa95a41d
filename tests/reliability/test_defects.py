"""Defects that an attack on model files, caches and inputs found."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import deeplfm
from deeplfm import DeepLFMRegressor, InputError, ModelFileError
from deeplfm.cli import main
from deeplfm.data.tables import read_table, write_table
from deeplfm.estimators.targets import OutlierWarning
from deeplfm.io import files, storage
from deeplfm.io.files import locked, remove_unfinished, unfinished, write_whole

TIMES = np.linspace(0, 6, 40)
TENSORS = {"a": torch.arange(6.0)}


@pytest.fixture(scope="module")
def fitted() -> DeepLFMRegressor:
    model = DeepLFMRegressor("sinusoids + broadband", n_steps=2, progress=False)
    return model.fit(TIMES, np.sin(3 * TIMES))


@pytest.fixture
def saved(fitted: DeepLFMRegressor, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def reseal(folder: Path, **changes: object) -> None:
    """Change a description and give it the right checksum, as somebody who means it can."""
    path = folder / storage.DESCRIPTION
    content = json.loads(path.read_text()) | changes
    del content["sha256"]
    path.write_text(storage.description_text(content))


# --- D2: several processes save to one folder -------------------------------------------------------

SAVER = """
import sys, torch
from pathlib import Path
from deeplfm.io.storage import read_folder, write_folder
me = float(sys.argv[2])
for _ in range(int(sys.argv[3])):
    write_folder(sys.argv[1], {"who": me}, {"a": torch.full((50,), me)})
    description, tensors = read_folder(sys.argv[1])
    assert bool((tensors["a"] == description["who"]).all())
"""


def test_processes_that_save_to_one_folder_leave_a_whole_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    arguments = [[sys.executable, "-c", SAVER, str(folder), str(k), "25"] for k in range(3)]
    processes = [subprocess.Popen(one) for one in arguments]
    assert [process.wait() for process in processes] == [0, 0, 0]
    description, tensors = storage.read_folder(folder)
    assert bool((tensors["a"] == description["who"]).all())
    assert len(list(folder.iterdir())) == 2


def test_a_folder_in_use_can_be_refused(tmp_path: Path) -> None:
    with (
        locked(tmp_path) as is_held,
        pytest.raises(InputError, match="another process is using this folder"),
        locked(tmp_path, blocking=False),
    ):
        pass
    assert is_held


# --- D3, D14: leftovers of killed runs --------------------------------------------------------------


def test_a_killed_first_save_does_not_block_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame({"t": TIMES, "y": np.sin(TIMES)}).to_csv(tmp_path / "data.csv", index=False)
    folder = tmp_path / "model"
    folder.mkdir()
    left = [folder / "tensors-01234567.safetensors", unfinished(folder / "model.json")]
    for path in left:
        path.write_text("")
    options = ["--model", "sinusoids + broadband", "--n-steps", "1", "--quiet"]
    with pytest.raises(SystemExit) as done:
        main(["fit", str(tmp_path / "data.csv"), "-o", str(folder), *options])
    assert done.value.code == 0, capsys.readouterr().err
    assert not any(path.exists() for path in left)


def test_old_leftovers_are_removed_and_new_ones_are_not(tmp_path: Path) -> None:
    target, other = tmp_path / "a.csv", tmp_path / "b.csv"
    old, new, foreign = unfinished(target), unfinished(target), unfinished(other)
    for path in (old, new, foreign):
        path.mkdir()
    for path in (old, foreign):
        os.utime(path, (1, 1))
    write_whole(target, lambda path: path.write_text("whole"))
    assert sorted(tmp_path.iterdir()) == sorted([target, new, foreign])
    remove_unfinished(tmp_path, lambda name: True, older_than=-1)
    assert list(tmp_path.iterdir()) == [target]


def test_files_have_the_permissions_of_the_user(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        storage.write_folder(tmp_path / "model", {}, TENSORS)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {0o600}


def test_a_rename_is_flushed_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr(files, "flush_folder", flushed.append)
    write_whole(tmp_path / "a.txt", lambda path: path.write_text("whole"))
    assert flushed == [tmp_path]


def test_a_temporary_cache_is_removed_at_the_end(tmp_path: Path) -> None:
    code = "from deeplfm.io.files import cache_folder; print(cache_folder())"
    blocked = tmp_path / "file"
    blocked.write_text("")
    environment = os.environ | {"DEEPLFM_CACHE": str(blocked), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == [blocked]


# --- D7: files that are no files, and values that fit nothing ---------------------------------------


@pytest.mark.parametrize("name", ["model.json", "tensors"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(saved: Path, name: str, kind: str) -> None:
    (path,) = saved.glob(f"{name}*")
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(ModelFileError):
        deeplfm.load(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"not_finite": 3},
        {"members": []},
        {"members": "DeepLFM"},
        {"is_series": {}, "inputs": 7},
        {"parameters": {"device": "nowhere"}},
        {"parameters": {"model": {"a": 4}}},
        {"labels": {"names": None, "n_outputs": 10**9, "is_vector": True}},
        {"labels": {"names": None, "n_outputs": -1, "is_vector": True}},
        {"selection": {"candidates": 3}},
        {"dtype": "float16"},
    ],
    ids=str,
)
def test_a_description_that_fits_nothing_is_refused(saved: Path, changes: dict) -> None:
    content = json.loads((saved / "model.json").read_text())
    for key, value in changes.items():
        old = content[key]
        merges = isinstance(value, dict) and isinstance(old, dict) and key == "parameters"
        reseal(saved, **{key: old | value if merges else value})
    with pytest.raises(ModelFileError):
        deeplfm.load(saved)


def test_half_a_surrogate_pair_is_refused(saved: Path) -> None:
    path = saved / "model.json"
    path.write_text(path.read_text().replace('"cpu"', '"\\ud800"'))
    with pytest.raises(ModelFileError, match="damaged"):
        deeplfm.load(saved)


def test_a_model_of_a_device_that_is_not_here_predicts_on_the_processor(
    saved: Path, fitted: DeepLFMRegressor
) -> None:
    if torch.cuda.is_available():
        pytest.skip("the device is here")
    parameters = json.loads((saved / "model.json").read_text())["parameters"]
    reseal(saved, parameters=parameters | {"device": "cuda:0"})
    with pytest.warns(UserWarning, match=r"device 'cuda:0', which is not available"):
        loaded = deeplfm.load(saved)
    assert loaded.device == "cpu"
    assert np.array_equal(loaded.predict(TIMES), fitted.predict(TIMES))


def test_a_description_or_tensors_beyond_the_limit_are_refused(
    saved: Path, fitted: DeepLFMRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_DESCRIPTION_BYTES", "MOST_TENSOR_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(storage, name, 200)
            with pytest.raises(ModelFileError, match="the largest size that is read"):
                deeplfm.load(saved)
            with pytest.raises(InputError, match="the largest size that is read"):
                fitted.save(tmp_path / "other")
            assert not list((tmp_path / "other").iterdir())


def test_a_reader_tries_again_while_the_model_is_replaced(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, n_calls = storage._read_description, []

    def replaced_meanwhile(folder: Path) -> dict:
        description = plain(folder)
        n_calls.append(1)
        if len(n_calls) < 4:
            storage.write_folder(folder, {"n": len(n_calls)}, TENSORS)
        return description

    monkeypatch.setattr(storage, "_read_description", replaced_meanwhile)
    assert storage.read_folder(saved)[0]["n"] == 3


# --- D8: workers end with their parent --------------------------------------------------------------

PARENT = """
import os, sys, time
from functools import partial
from pathlib import Path
from deeplfm.selection.parallel import attempt_all

def work(number, folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)

attempt_all(partial(work, folder=sys.argv[1]), [0, 1], n_jobs=2)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)])
    deadline = time.monotonic() + 120
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    parent.kill()
    parent.wait()
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [pid for pid in workers if is_running(pid)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert len(workers) == 2 and not left


# --- D9, D12: numbers beyond what squares can hold --------------------------------------------------


def test_an_update_with_an_absurd_value_is_reported(fitted: DeepLFMRegressor, saved: Path) -> None:
    model = deeplfm.load(saved)
    with pytest.raises(InputError, match=r"y: a value 1.*e\+140 standard deviations"):
        model.update([7.0], [1e140])
    assert np.array_equal(model.predict(TIMES), fitted.predict(TIMES))
    with pytest.warns(OutlierWarning, match=r"y: a value .* standard deviations from the mean"):
        model.update([7.0], [1e5])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (TIMES, np.sin(TIMES) * 1e300, r"y: 39 values are larger than 1e\+150"),
        (TIMES * 1e300, np.sin(TIMES), r"X: 39 values are larger than 1e\+150"),
        (TIMES, np.sin(TIMES) * 1e-300, "y: the values of column 0 differ by"),
        (TIMES * 1e-200, np.sin(TIMES), "X: the values of column 0 differ by"),
    ],
)
def test_numbers_whose_squares_overflow_are_refused(
    x: np.ndarray, y: np.ndarray, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        DeepLFMRegressor("sinusoids", n_steps=1, progress=False).fit(x, y)


@pytest.mark.parametrize("scale", [1e140, 1e-140])
def test_large_and_small_units_give_the_same_model(scale: float) -> None:
    plain = DeepLFMRegressor("trend + level", n_steps=2, progress=False)
    expected = plain.fit(TIMES, np.sin(TIMES)).predict(TIMES, return_std=True)
    found = plain.fit(TIMES, scale * np.sin(TIMES)).predict(TIMES, return_std=True)
    np.testing.assert_allclose(np.array(found) / scale, expected, rtol=1e-6)


# --- D10, D11: tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [b"{}", b"[]", b'{"index_columns": 3}', b"not JSON"])
def test_parquet_with_damaged_metadata_is_read_or_refused(tmp_path: Path, metadata: bytes) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"t": [1.0, 2.0], "y": [3.0, 4.0]})
    parquet.write_table(
        table.replace_schema_metadata({b"pandas": metadata}), tmp_path / "a.parquet"
    )
    with contextlib.suppress(InputError):
        assert list(read_table(tmp_path / "a.parquet").columns) == ["t", "y"]


@pytest.mark.parametrize("rows", ["0,{}\n1,2\n", "{},1\n2,3\n", "a,-{}\n", "7,1\n{},x\n"])
def test_a_number_of_hundreds_of_digits_is_refused(tmp_path: Path, rows: str) -> None:
    """It ended with an OverflowError of pandas."""
    (tmp_path / "a.csv").write_text("t,y\n" + rows.format("9" * 400))
    with pytest.raises(InputError, match=r"a.csv: a whole number is larger than 10\^308"):
        read_table(tmp_path / "a.csv")


def test_a_small_file_that_expands_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"t,y\n")
        for _ in range(70):
            file.write(b"0,0\n" * 2**18)
    assert path.stat().st_size < 2**20
    with pytest.raises(InputError, match="more than 64 MiB of table found"):
        read_table(path)


def test_an_endless_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deeplfm.data import tables

    monkeypatch.setattr(tables, "MOST_BYTES", 1000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def feed() -> None:
        with contextlib.suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            while True:
                file.write(b"1,2\n" * 100)

    thread = threading.Thread(target=feed)
    thread.start()
    with pytest.raises(InputError, match="table found"):
        read_table(pipe)
    thread.join()


# --- D13: size -------------------------------------------------------------------------------------


def test_a_folder_holds_nothing_that_its_other_tensors_give_back(saved: Path) -> None:
    """The root of each precision doubled a folder of 450 MB."""
    names = storage.read_folder(saved)[1].keys()
    assert any(name.endswith(".precision") for name in names)
    assert not [name for name in names if name.endswith("_root")]


# --- D14: what a command writes ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x"])
def test_a_name_that_a_spreadsheet_would_compute_is_escaped(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"t": [1.0, 2.0], name: [3.0, 4.0]})
    write_table(frame, tmp_path / "a.csv", index=False)
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == f"t,'{name}"
    assert list(read_table(tmp_path / "a.csv").columns) == ["t", name]


def test_a_command_does_not_replace_the_file_that_it_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"t": TIMES, "y": np.sin(TIMES)}).to_csv("data.csv", index=False)
    before = Path("data.csv").read_bytes()
    for arguments in (
        ["impute", "data.csv", "-o", "data.csv"],
        ["impute", "data.csv", "-o", "../" + tmp_path.name + "/data.csv"],
        ["forecast", "model", "--times", "data.csv", "-o", "data.csv"],
    ):
        with pytest.raises(SystemExit) as done:
            main(arguments)
        assert done.value.code == 2
        assert "is a file that the command reads" in capsys.readouterr().err
    assert Path("data.csv").read_bytes() == before
