"""Fitting tables from memory-mapped files: time linear in the rows, memory that does not grow with them.

Each size runs in a process of its own: a table of 10 float32 inputs on disk, the default candidate for
tables with few features, one epoch or 100 steps, whichever is more.

    python benchmarks/rows.py --json benchmarks/results/rows.json
    python benchmarks/rows.py --model ensemble --sizes 200000 1000000 --json rows-ensemble.json

- seconds_per_epoch: of the last fit, on all rows (steps only). Not of the ensemble: its candidates
  train for a number of steps, not of epochs.
- loading_share: of these, the part in which rows are read, scaled and made tensors.
- fit_seconds: everything, with checks, scales, the fit without held-out rows, calibration and the exact
  last layer of both fits, each a pass through all rows.
- memory_mb: the most memory in use above that at the start, after a fit of 2000 rows.
- resident_mb: the same as the system sees it (RssAnon), with what the allocator keeps for later and other
  noise. Pages of the mapped file are not in it: the system drops them as it likes.

Needs Linux with glibc 2.33 or newer.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.lib.format import open_memmap

from deeplfm import DeepLFMRegressor
from deeplfm.training import Rows, StoredRows

N_INPUTS, BATCH_SIZE, LEAST_STEPS = 10, 1000, 100
TABLE = "table(hidden=2, n_features=20)"


def write_table(folder: Path, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A table on disk, in bounded memory."""
    x = open_memmap(folder / "x.npy", "w+", np.float32, (n_rows, N_INPUTS))
    y = open_memmap(folder / "y.npy", "w+", np.float32, (n_rows,))
    rng = np.random.default_rng(0)
    for first in range(0, n_rows, 10_000):
        part = slice(first, first + 10_000)
        x[part] = rng.normal(size=x[part].shape)
        signal = np.sin(2 * x[part, 0]) + x[part, 1] * x[part, 2]
        y[part] = signal + 0.1 * rng.normal(size=len(signal))
    return tuple(np.load(folder / name, mmap_mode="r") for name in ("x.npy", "y.npy"))


class LoadingMeter:
    """Time spent in reading rows, measured around every outermost ``take``."""

    def __init__(self) -> None:
        self.seconds, self.n_rows, self.is_reading = 0.0, 0, False
        plain = StoredRows.take

        def take(rows: StoredRows, index: torch.Tensor) -> Rows:
            if self.is_reading:
                return plain(rows, index)
            self.is_reading, started = True, time.perf_counter()
            taken = plain(rows, index)
            self.seconds += time.perf_counter() - started
            self.n_rows += len(index)
            self.is_reading = False
            return taken

        StoredRows.take = take  # type: ignore[method-assign]


class _Malloc(ctypes.Structure):
    """The structure that glibc's ``mallinfo2`` returns."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class MemoryMeter(threading.Thread):
    """The most memory since the start, in MB: in use, and resident with the allocator's slack."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._mallinfo = ctypes.CDLL(None).mallinfo2
        self._mallinfo.restype = _Malloc
        self.first = self.most = self.now()
        self.start()

    def now(self) -> np.ndarray:
        info = self._mallinfo()
        resident = Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]
        return np.array([(info.uordblks + info.hblkhd) / 2**20, int(resident) / 2**10])

    def run(self) -> None:
        while True:
            self.most = np.maximum(self.most, self.now())
            time.sleep(0.005)


def measure(n_rows: int, model_name: str) -> dict[str, float]:
    """One fit of one size."""
    settings = {"model": model_name, "dtype": "float32"}
    with tempfile.TemporaryDirectory() as name:
        x, y = write_table(Path(name), n_rows)
        n_steps = max(LEAST_STEPS, math.ceil(n_rows / BATCH_SIZE))
        steps = {} if model_name == "ensemble" else {"n_steps": n_steps}
        few = {name: 2 for name in steps}
        DeepLFMRegressor(**settings, **few).fit(x[:2000], y[:2000])  # libraries have their buffers
        loading, memory, started = LoadingMeter(), MemoryMeter(), time.perf_counter()
        model = DeepLFMRegressor(**settings, **steps, batch_size=BATCH_SIZE).fit(x, y)
        fit_seconds = time.perf_counter() - started
        used, resident = (memory.most - memory.first).tolist()
        history = model.fit_result_.histories.get(TABLE) if steps else None
        trained = n_steps * BATCH_SIZE
        per_epoch = history.seconds * n_rows / trained if history else math.nan
        error = model.predict(x[:1000]) - y[:1000]
        return {
            "n_rows": n_rows,
            "seconds_per_epoch": per_epoch,
            "loading_share": loading.seconds / loading.n_rows * n_rows / per_epoch,
            "fit_seconds": fit_seconds,
            "memory_mb": used,
            "resident_mb": resident,
            "nmse": float(np.mean(error**2) / np.var(y[:1000])),
        }


def main() -> None:
    """Measure every size, and the slope of time over rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("rows.json"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--model", default=TABLE, help="or ensemble")
    parser.add_argument("--measure", type=int, help="one size, in this process")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.model)))
        return
    results = []
    for n_rows in arguments.sizes:
        command = [sys.executable, __file__, "--measure", str(n_rows), "--model", arguments.model]
        results.append(json.loads(subprocess.check_output(command)))
        print(results[-1], flush=True)
    settings = {"model": arguments.model, "dtype": "float32", "n_inputs": N_INPUTS, "threads": 1}
    summary = {"settings": {**settings, "batch_size": BATCH_SIZE}, "results": results}
    if arguments.model == TABLE:
        size, seconds = (
            np.log([row[key] for row in results]) for key in ("n_rows", "seconds_per_epoch")
        )
        summary["log_log_slope"] = float(np.polyfit(size, seconds, 1)[0])
        print("log-log slope", summary["log_log_slope"])
    arguments.json.write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
