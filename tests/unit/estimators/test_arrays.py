"""Rows on disk, or simply many: the same results in memory that does not grow with them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deeplfm import DeepLFMRegressor, InputError
from deeplfm.estimators import arrays as module
from deeplfm.estimators.arrays import Arrays
from deeplfm.selection import split as held_out_module
from deeplfm.training import rows as rows_module

N_ROWS = 300


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 3)).astype(np.float32)
    y = np.stack([x[:, 0] * x[:, 1], x.sum(1)], axis=1)
    y[::7, 1] = np.nan
    return x, y


def series() -> tuple[np.ndarray, np.ndarray]:
    time = np.random.default_rng(0).permutation(N_ROWS) / 10
    return time[:, None], np.sin(3 * time)


def on_disk(array: np.ndarray, path: Path) -> np.ndarray:
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def quick(**options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(**{"n_steps": 3} | options)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were very many rows."""
    monkeypatch.setattr(module, "_CHUNK_VALUES", 200)
    monkeypatch.setattr(rows_module, "_CHUNK_ROWS", 64)
    monkeypatch.setattr(held_out_module, "_MOST_HELD_OUT", 30)
    monkeypatch.setattr(held_out_module, "_MOST_TABLE_ROWS", 100)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("data", "options"),
    [
        (table, {"batch_size": 50}),
        (table, {"model": "paper"}),
        (table, {"dtype": "float32", "model": "table"}),
        (series, {"model": "sinusoids + broadband"}),
        (series, {"model": "dlfm", "batch_size": 50}),
        (series, {"model": "paper", "batch_size": 50}),
    ],
)
def test_where_rows_are_kept_does_not_change_a_bit(
    data: object, options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data()  # type: ignore[operator]
    weight = np.random.default_rng(1).integers(0, 3, N_ROWS)
    expected = quick(**options).fit(x, y, weight).predict(x, return_std=True)
    mapped = on_disk(x, tmp_path / "x.npy"), on_disk(y, tmp_path / "y.npy")
    for given in (mapped, (x, mapped[1])):
        found = quick(**options).fit(*given, weight).predict(mapped[0], return_std=True)
        assert np.array_equal(found, expected)
    monkeypatch.setattr(module, "_LARGE", 0)
    assert np.array_equal(quick(**options).fit(x, y, weight).predict(x, return_std=True), expected)


def test_arrays_are_not_copied(tmp_path: Path) -> None:
    x, y = table()
    for given in (x, on_disk(x, tmp_path / "x.npy")):
        arrays = Arrays.of(given, y, None)
        assert np.shares_memory(arrays.x, given)
        assert arrays.x.dtype == np.float32
    assert arrays.are_large
    assert not Arrays.of(x, y, None).are_large


@pytest.mark.usefixtures("small_limits")
def test_bad_rows_are_named_wherever_they_are(tmp_path: Path) -> None:
    x, y = table()
    x[250, 1] = x[251, 0] = np.inf
    with pytest.raises(InputError, match=r"X: 2 values are NaN.*first: row 250, column 1"):
        quick().fit(on_disk(x, tmp_path / "x.npy"), y)
    x, y = table()
    y[299, 0] = np.inf
    with pytest.raises(InputError, match=r"y: 1 values are infinite.*first: row 299, column 0"):
        quick().fit(x, on_disk(y, tmp_path / "y.npy"))
    y[:, 0] = np.nan
    y[[0, 150, 299], 0] = 1.0
    weight = np.ones(N_ROWS)
    weight[150] = 0
    with pytest.raises(InputError, match="column 0 has 2 known values of 299"):
        quick().fit(x, on_disk(y, tmp_path / "y.npy"), weight)


@pytest.mark.parametrize(
    ("options", "n_used", "advice"),
    [
        ({"model": "sinusoids + broadband"}, 100, "set batch_size=1000 to use 150"),
        (
            {"model": "sinusoids + broadband", "batch_size": 40},
            150,
            "fit the segment that matters.$",
        ),
    ],
)
def test_only_the_end_of_a_very_long_series_is_used_with_a_warning(
    options: dict[str, object], n_used: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_SERIES", 100)
    monkeypatch.setattr(module, "_LONGEST_IN_BATCHES", 150)
    time, values = series()
    first = (N_ROWS - n_used) / 10
    recent = time[:, 0] >= first
    expected = quick(**options).fit(time[recent], values[recent])
    model = quick(**options)
    message = (
        f"300 rows, and only the {n_used} most recent are used, from time {first} on.*{advice}"
    )
    with pytest.warns(UserWarning, match=message):
        model.fit(time, values)
    assert np.array_equal(model.predict(time), expected.predict(time))


@pytest.mark.parametrize("declared", ["paper", "table"])
def test_models_without_a_notion_of_time_take_any_number_of_rows(
    declared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, values = series()
    expected = quick(model=declared).fit(time, values).predict(time)
    monkeypatch.setattr(module, "_LONGEST_SERIES", 100)
    assert np.array_equal(quick(model=declared).fit(time, values).predict(time), expected)


def test_a_long_series_is_carried_on_when_trained_in_batches() -> None:
    time = np.arange(21_000) / 10
    noise = 0.1 * np.random.default_rng(0).normal(size=len(time))
    model = quick(model="sinusoids + broadband", batch_size=500).fit(time, np.sin(time) + noise)
    for stretch in (time[:50], time[-50:], time[-50:] + 10):
        assert model.predict(stretch) == pytest.approx(np.sin(stretch), abs=0.1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Fifteen times the rows (1 MB and 14 MB on disk) cost less than 30 MB more."""
    peaks = [
        float(subprocess.check_output([sys.executable, "-c", PEAK, str(tmp_path), str(n_rows)]))
        for n_rows in (20_000, 300_000)
    ]
    assert peaks[1] - peaks[0] < 30


# Prints the most anonymous memory (MB) that a fit and a prediction hold, with the smallest of models.
PEAK = """
import sys, threading, time
import numpy as np, torch
from deeplfm import BlockConfig, DeepLFM, LayerConfig, ModelConfig, Phase, Schedule
from deeplfm.estimators import DeepLFMRegressor, settings
from deeplfm.selection.candidate import Candidate

torch.set_num_threads(1)
folder, n_rows = sys.argv[1], int(sys.argv[2])
X = np.lib.format.open_memmap(folder + "/x.npy", "w+", np.float32, (n_rows, 10))
for first in range(0, n_rows, 10_000):
    X[first : first + 10_000] = np.random.default_rng(first).normal(size=(10_000, 10))
X = np.load(folder + "/x.npy", mmap_mode="r")
np.save(folder + "/y.npy", X[:, 0] * X[:, 1])
y = np.load(folder + "/y.npy", mmap_mode="r")
peak = 0.0

def watch():
    global peak
    while True:
        with open("/proc/self/status") as status:
            peak = max(peak, int(status.read().split("RssAnon:")[1].split()[0]) / 1024)
        time.sleep(0.002)

def build(rows, seed):
    output = LayerConfig(1, (BlockConfig("eq", n_features=3),), "exact")
    return DeepLFM(ModelConfig(10, (output,), n_samples=1, n_paths=1), seed).double()

small = Candidate("small", build, Schedule("collapsed", (Phase(3),)))
settings.candidates_of = lambda *_: [small]
threading.Thread(target=watch, daemon=True).start()
model = DeepLFMRegressor("table").fit(X, y)
model.predict(X, return_std=True)
print(peak)
"""


@pytest.mark.parametrize("rows_per_chunk", [3, 1000])
def test_empty_rows_at_the_ends_of_a_series_change_nothing(
    rows_per_chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_chunk_rows", lambda width: rows_per_chunk)
    time = np.arange(60.0)
    y = np.sin(time / 3)
    y[30] = np.nan
    empty = np.full(20, np.nan)
    model = DeepLFMRegressor(model="sinusoids + broadband", n_steps=1, progress=False)
    plain = model.fit(time[10:50], y[10:50]).predict(time)
    ends = np.r_[empty[:10], y[10:50], empty[:10]]
    np.testing.assert_array_equal(model.fit(time, ends).predict(time), plain)
