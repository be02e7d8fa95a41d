import gc
import hashlib
import io
import os
import re
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import ConfigError, InputError
from deeplfm.data import available, fetch, load, read_table, uci, write_table
from deeplfm.data.places import import_extra
from deeplfm.data.simulated import toy_system
from deeplfm.data.uci import POWERPLANT, PROTEIN
from deeplfm.io import files as files_module
from deeplfm.io.files import cache_folder

REAL = os.environ.get("DEEPLFM_DATA")
needs_data = pytest.mark.skipif(not REAL, reason="DEEPLFM_DATA is not set")
needs_wfdb = pytest.mark.skipif(find_spec("wfdb") is None, reason="wfdb is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no folder."""
    monkeypatch.setenv("DEEPLFM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEEPLFM_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "deeplfm" / "data"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    monkeypatch.setenv("DEEPLFM_DATA", str(path))
    return path


@contextmanager
def served(contents: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A web server with these contents, and what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Range', '')}".strip())
            content = contents.get(self.path)
            span = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if content is None:
                self.send_error(404)
                return
            self.send_response(206 if span else 200)
            if span:
                first, last = int(span[1]), int(span[2] or len(content) - 1)
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
                content = content[first : last + 1]
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real downloader where it is installed, or the part of it that is used."""
    if find_spec("pooch") is None:
        module: Any = ModuleType("pooch")
        module.get_logger = lambda: SimpleNamespace(setLevel=lambda level: None)

        def retrieve(url: str, known_hash: None, fname: str, path: str) -> str:
            try:
                with urllib.request.urlopen(url) as response:
                    (Path(path) / fname).write_bytes(response.read())
            except urllib.error.HTTPError as error:
                error.close()
                raise
            return str(Path(path) / fname)

        module.retrieve = retrieve
        monkeypatch.setitem(sys.modules, "pooch", module)


def published(name: str) -> bytes:
    """A table as UCI publishes it, from the user's folder."""
    assert REAL is not None
    if name == "protein":
        raw = np.load(Path(REAL) / "protein_casp_raw.npz", allow_pickle=False)
        values, columns = np.column_stack([raw["y"], raw["X"]]), ["RMSD", *PROTEIN.inputs]
    else:
        fold = np.load(Path(REAL) / "powerplant_fold1.npz", allow_pickle=False)
        x, y = (np.concatenate([fold[f"{key}train"], fold[f"{key}test"]]) for key in "Xy")
        scaled = [x * fold["x_std"] + fold["x_mean"], y * fold["y_std"] + fold["y_mean"]]
        values, columns = np.round(np.hstack(scaled), 2), [*POWERPLANT.inputs, "PE"]
    text = pd.DataFrame(values, columns=columns).to_csv(index=False).encode()
    if name == "powerplant":
        return text
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("CASP.csv", text)
    return archive.getvalue()


def refused(name: str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# The catalogue itself


def test_every_data_set_says_what_it_is_and_what_is_allowed() -> None:
    assert [entry.name for entry in available()] == [
        "toy",
        "charis",
        "mimic-037",
        "powerplant",
        "protein",
    ]
    for entry in available():
        assert entry.summary and entry.licence and entry.source
        assert all(len(file.sha256 or "0" * 64) == 64 for file in entry.files)


def test_where_a_data_set_would_come_from(cache: Path, folder: Path) -> None:
    assert {entry.where() for entry in available()} == {"built in", "download"}
    entries = {entry.name: entry for entry in available()}
    (folder / "mimic_037_50hz_5000.csv").touch()
    for number in (1, 2):
        (folder / f"powerplant_fold{number}.npz").touch()
    (cache / "charis6_0_1000.csv").touch()
    (cache / "protein.csv").touch()
    assert entries["mimic-037"].where() == f"folder {folder}"
    assert entries["powerplant"].where() == "download"
    assert entries["charis"].where() == entries["protein"].where() == f"cache {cache}"


def test_names_and_options_that_are_not_known() -> None:
    with pytest.raises(ConfigError) as caught:
        load("toi")
    assert str(caught.value) == (
        "data set 'toi' is not known. Choose from toy, charis, mimic-037, powerplant, protein."
    )
    with pytest.raises(ConfigError, match="data set 'toi' is not known"):
        fetch("toi")
    with pytest.raises(
        ConfigError, match=r"toy: no option is named 'fold'. Choose from variant, seed\."
    ):
        load("toy", fold=1)
    with pytest.raises(ConfigError, match=r"powerplant: no option is named 'seed'. It has none\."):
        fetch("powerplant", seed=1)
    with pytest.raises(ConfigError, match=r"fold: 4 found. Give 1, 2 or 3\."):
        load("protein", fold=4)


def test_a_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPLFM_DATA", "nowhere")
    assert refused("mimic-037") == (
        "DEEPLFM_DATA: there is no folder nowhere. Correct the variable, or unset it."
    )


# The toy


def test_the_toy_is_a_table_and_a_file(cache: Path, tmp_path: Path) -> None:
    toy, frame = toy_system("text", 3), load("toy", variant="text", seed=3)
    assert frame["time"].tolist() == toy.time.tolist()
    assert frame["value"].tolist() == toy.value.tolist()
    for split in ("train", "interpolation", "extrapolation"):
        assert np.flatnonzero(frame["split"] == split).tolist() == getattr(toy, split).tolist()
    assert fetch("toy", variant="text", seed=3) == [cache / "toy_text_3.csv"]
    (path,) = fetch("toy", tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "toy_published_0.csv"
    pd.testing.assert_frame_equal(read_table(path), load("toy"), check_exact=True)
    assert fetch("toy", cache) == [cache / "toy_published_0.csv"]  # there already


def test_a_place_for_copies_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        InputError, match=r"data set toy: cannot be written to .*file \(File exists"
    ):
        fetch("toy", tmp_path / "file")


# Files that are there


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mimic-037", "mimic_037_50hz_5000.csv"),
        ("powerplant", "powerplant_fold1.npz"),
        ("protein", "protein_fold1.npz"),
    ],
)
def test_files_with_another_checksum_are_refused(folder: Path, name: str, file: str) -> None:
    (folder / file).write_text("time,abp\n0,1\n")
    found = hashlib.sha256(b"time,abp\n0,1\n").hexdigest()
    message = refused(name)
    assert message.startswith(f"{folder / file}: sha256 {found[:12]}… found, ")
    assert message.endswith("put the right one in its place, or remove it.")


def test_files_that_cannot_be_read_are_named(folder: Path) -> None:
    (folder / "mimic_037_50hz_5000.csv").mkdir()
    assert "mimic_037_50hz_5000.csv: cannot be read (Is a directory)" in refused("mimic-037")


def test_a_table_that_is_not_the_known_one_is_refused(folder: Path) -> None:
    frame = pd.DataFrame(np.ones((3, 5)), columns=["PE", *POWERPLANT.inputs])
    write_table(frame, folder / "powerplant.csv", index=False)
    for message in (refused("powerplant"), refused("powerplant", fold=2)):
        assert "powerplant.csv: 3 rows that are not the table of data set powerplant" in message
        assert (
            f"de02023f4e7f… expected). Remove the file, and take the table from {uci.UCI}"
            in message
        )
    with pytest.raises(InputError, match="are not the table"):
        fetch("powerplant")


@needs_data
def test_real_files_are_read_and_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEEPLFM_DATA", str(REAL))
    mimic = load("mimic-037")
    assert list(mimic) == ["time_s", "ABP_mmHg", "ECG_mV", "RESP_au"]
    assert mimic.shape == (5000, 4) and mimic.iloc[1].tolist() == [0.02, 50.688, 0.00277, -0.07719]
    fold = load("powerplant", fold=3)
    assert fold.x_train.shape == (9470, 4) and fold.y_test.shape == (98, 1)
    assert (fold.inputs, fold.target) == (("AT", "V", "AP", "RH"), "PE")
    copies = fetch("protein", tmp_path)
    assert [path.name for path in copies] == [f"protein_fold{number}.npz" for number in (1, 2, 3)]
    assert all(path.parent == tmp_path for path in copies)


# Downloads from UCI


@needs_data
@pytest.mark.parametrize("name", ["powerplant", "protein"])
def test_folds_are_made_again_from_a_download(
    name: str, cache: Path, pooch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"powerplant": POWERPLANT, "protein": PROTEIN}[name]
    with served({f"/{table.path}": published(name)}) as (url, asked):
        monkeypatch.setattr(uci, "UCI", url)
        made = [load(name, fold=number) for number in (1, 2, 3)]
        assert fetch(name) == [cache / f"{name}.csv"]
        assert asked == [f"/{table.path}"]  # once
    monkeypatch.setenv("DEEPLFM_DATA", str(REAL))
    for number, fold in enumerate(made, start=1):
        saved = load(name, fold=number)
        train, other = (
            np.hstack([item.x_train, item.y_train])[
                np.lexsort(np.round(np.hstack([item.x_train, item.y_train]), 9).T)
            ]
            for item in (fold, saved)
        )
        np.testing.assert_allclose(train, other, atol=1e-11)
        for key in ("x_test", "y_test", "x_mean", "x_std", "y_mean", "y_std"):
            np.testing.assert_allclose(
                getattr(fold, key), getattr(saved, key), atol=1e-11, rtol=1e-12
            )
        if name == "protein":
            np.testing.assert_allclose(fold.x_train, saved.x_train, atol=1e-11)


# pooch leaves the connection of an answer that is an error to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "404"),
        (b"<html>moved</html>", "only one column found"),
        (b"AT,V,AP,RH,PE\n1,2,3,4,5\n", "1 rows that are not the table of data set powerplant"),
        (b"AT,V,AP,RH\n1,2,3,4\n", "no columns are named 'PE'"),
        (b"PK\x05\x06" + bytes(18), "not a text file"),  # an archive of nothing
        (b"PK\x05\x06" + bytes(6) + b"\1\0\1\0" + b"\xff" * 6 + bytes(2), "BadZipFile"),
    ],
)
def test_downloads_that_are_not_the_table_stay_out_of_the_cache(
    content: bytes | None,
    reason: str,
    cache: Path,
    pooch: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contents = {} if content is None else {f"/{POWERPLANT.path}": content}
    with served(contents) as (url, _):
        monkeypatch.setattr(uci, "UCI", url)
        message = refused("powerplant")
    assert message.startswith("data set powerplant: cannot be read or downloaded (")
    assert reason in message
    assert message.endswith(
        f"set DEEPLFM_DATA to a folder with powerplant.csv, the table of {url}/294/data.csv."
    )
    assert list(cache.iterdir()) == []
    gc.collect()


def test_without_a_connection_the_way_out_is_named(
    pooch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served({}) as (url, _):
        pass  # nobody listens there any more
    monkeypatch.setattr(uci, "UCI", url)
    message = refused("protein")
    assert message.startswith("data set protein: cannot be read or downloaded (")
    assert "Error: " in message
    assert "Check the connection, or set DEEPLFM_DATA to a folder with protein.csv" in message


@pytest.mark.parametrize(
    ("name", "module", "file"),
    [
        ("powerplant", "pooch", "powerplant.csv, the table of https://"),
        ("protein", "pooch", "protein.csv, the table of https://"),
        ("charis", "wfdb", "charis6_0_1000.csv."),
        ("mimic-037", "wfdb", "mimic_037_50hz_5000.csv."),
    ],
)
def test_a_missing_package_is_named(
    name: str, module: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = refused(name)
    assert message.startswith(
        f"data set {name}: not found here, and {module}, which downloads it, is not installed. "
        'Run pip install "deeplfm[download]", or set DEEPLFM_DATA to a folder with '
    )
    assert file in message


# Downloads from PhysioNet


@contextmanager
def physionet(contents: dict[str, bytes], is_closed: bool = False) -> Iterator[list[str]]:
    """The real wfdb, reading from a server of ours, or from one that has closed."""
    wfdb = import_extra("wfdb", "test", "skip")
    with ExitStack() as stack:
        server = ExitStack() if is_closed else stack
        url, asked = server.enter_context(served(contents))
        if is_closed:
            server.close()
        wfdb.io.download.set_db_index_url(url)
        try:
            yield asked
        finally:
            wfdb.io.download.set_db_index_url()


def charis_record(n_rows: int) -> tuple[dict[str, bytes], np.ndarray]:
    """Files of a record in the form of charis6, and the values in them."""
    counts = np.random.default_rng(0).integers(-3000, 3000, size=(n_rows, 3)).astype("<i2")
    gains, baselines = np.array([90.2606, 6081.8245, 82.3123]), np.array([-363, -392, -212])
    lines = [
        f"charis6.dat 16 {gain}({baseline})/{unit} 16 0 {first} {total} 0 {name}"
        for gain, baseline, unit, name, first, total in zip(
            gains,
            baselines,
            ("mmHg", "mV", "mmHg"),
            ("ABP", "ECG", "ICP"),
            counts[0],
            counts.astype(np.int64).sum(0).astype("<i2"),
            strict=True,
        )
    ]
    header = "\n".join([f"charis6 3 50 {n_rows}", *lines, ""])
    files = {"charis6.hea": header.encode(), "charis6.dat": counts.tobytes()}
    return files, (counts - baselines) / gains


@needs_wfdb
def test_charis_downloads_only_the_segment_and_only_once(cache: Path) -> None:
    files, values = charis_record(5000)
    contents = {f"/charisdb/1.0.0/{name}": content for name, content in files.items()}
    with physionet(contents) as asked:
        frame = load("charis", first=100, length=40)
        n_asked = len(asked)
        again = load("charis", first=100, length=40)
        assert len(asked) == n_asked
    assert list(frame) == ["time_s", "ABP_mmHg", "ECG_mV", "ICP_mmHg"]
    np.testing.assert_allclose(frame["time_s"], np.arange(100, 140) / 50)
    np.testing.assert_allclose(frame.iloc[:, 1:], values[100:140], rtol=1e-12)
    pd.testing.assert_frame_equal(again, frame, check_exact=True)
    assert "/charisdb/1.0.0/charis6.dat bytes=600-839" in asked
    kept, seal = sorted(cache.iterdir())
    assert (kept.name, seal.name) == ("charis6_100_40.csv", "charis6_100_40.csv.sha256")
    kept.write_text(kept.read_text().replace("2", "3", 1))
    assert "sha256" in refused("charis", first=100, length=40)


@needs_wfdb
def test_charis_from_a_record_in_the_folder(folder: Path) -> None:
    files, values = charis_record(60)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    np.testing.assert_allclose(load("charis", length=60).iloc[:, 1:], values, rtol=1e-12)
    message = refused("charis", length=61)
    assert message.startswith("data set charis: cannot be read or downloaded (ValueError: ")


@needs_wfdb
def test_a_record_that_is_not_to_be_had(cache: Path) -> None:
    with physionet({}):
        message = refused("charis", record="charis13")
    assert "NetFileNotFoundError: 404 Error: Not Found for url" in message
    with physionet({}, is_closed=True):
        message = refused("charis")
    assert "data set charis: cannot be read or downloaded (ConnectionError: " in message
    assert message.endswith("or set DEEPLFM_DATA to a folder with charis6_0_1000.csv.")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record": "charis14"}, "record: 'charis14' found. Give one of charis1 to charis13."),
        ({"record": "../charis1"}, "record: '../charis1' found"),
        ({"first": -1}, "first: -1 found. Give a whole number of at least 0."),
        ({"length": 0}, "length: 0 found. Give a whole number of at least 1."),
        ({"length": 2.5}, "length: 2.5 found"),
    ],
)
def test_segments_without_meaning(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("charis", **options)
    assert message in str(caught.value)


@needs_wfdb
def test_mimic_is_brought_to_50_hz(cache: Path) -> None:
    rates = {"MCL1": 500, "ABP": 125, "RESP": 125}
    waves = {
        name: 100 * np.sin(2 * np.pi * 1.25 * np.arange(rate * 110) / rate) + 10
        for name, rate in rates.items()
    }
    frames = np.hstack(
        [waves["MCL1"].reshape(-1, 4), waves["ABP"][:, None], waves["RESP"][:, None]]
    )
    header = (
        f"03700181 3 125 {len(frames)}\n"
        "03700181.dat 16x4 100(0)/mV 16 0 0 0 0 MCL1\n"
        "03700181.dat 16 100(0)/mmHg 16 0 0 0 0 ABP\n"
        "03700181.dat 16 100(0)/mV 16 0 0 0 0 RESP\n"
    )
    samples = np.round(frames * 100).astype("<i2").tobytes()
    folder = "/mimicdb/1.0.0/037/03700181"
    with physionet({f"{folder}.hea": header.encode(), f"{folder}.dat": samples}):
        frame = load("mimic-037")
    assert list(frame) == ["time_s", "ABP_mmHg", "ECG_mV", "RESP_au"] and len(frame) == 5000
    wave = 100 * np.sin(2 * np.pi * 1.25 * frame["time_s"].to_numpy()) + 10
    inside = slice(50, -50)
    for name in ("ABP_mmHg", "ECG_mV", "RESP_au"):
        np.testing.assert_allclose(frame[name][inside], wave[inside], atol=0.5)
    entries = {entry.name: entry for entry in available()}
    assert entries["mimic-037"].where() == f"cache {cache}"
    pd.testing.assert_frame_equal(load("mimic-037"), frame)


# The cache


def test_the_cache_is_where_the_user_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == tmp_path / "cache" / "deeplfm"
    monkeypatch.delenv("DEEPLFM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "deeplfm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "deeplfm"


def test_where_the_cache_is_closed_onetemporary_folder_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DEEPLFM_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(files_module.tempfile, "tempdir", str(tmp_path))
    files_module.temporary_folder.cache_clear()
    try:
        assert cache_folder() == cache_folder()
        assert cache_folder().parent == tmp_path
        assert fetch("toy")[0].parent == cache_folder() / "data"
    finally:
        files_module.temporary_folder.cache_clear()
