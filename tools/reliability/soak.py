"""A long-lived process that fits, updates, forecasts, saves and loads: nothing may grow.

::

    python tools/reliability/soak.py --minutes 60

Resident memory, open files, threads and child processes are compared with those after a warm-up.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from common import Report, arguments

import deeplfm
from deeplfm import DeepLFMForecaster

WARM_UP = 24  # cycles
MOST_GROWTH = 30.0  # MB
MODELS = (
    {"model": {"a": "trend + level", "b": "season(7)"}, "n_steps": 2},
    {"effort": "fast"},
    {},
    {"model": "trend + level + shared_forces(1)"},
    {"model": "warped(season) + level", "n_steps": 2},
)
N_SERIES = 3


def cycle(folder: Path, seed: int) -> None:
    """One life of a model; every sixth is a panel."""
    days = pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin")
    random = np.random.default_rng(seed)
    wave = np.sin(np.arange(60) / 3)
    frame = pd.DataFrame(
        {"y": wave + 0.1 * random.normal(size=60), "z": 2 * wave + 0.1 * random.normal(size=60)},
        index=days,
    )
    frame.iloc[10:14, 0] = np.nan
    kind = seed % (len(MODELS) + 1)
    if kind == len(MODELS):
        shutil.rmtree(folder, ignore_errors=True)
        long = frame[["y"]].rename_axis("ds").reset_index()
        frame = pd.concat(
            [long.assign(unique_id=f"s{i}", y=long["y"] + i) for i in range(N_SERIES)]
        )
        is_early = frame["ds"] < days[50]
        model = DeepLFMForecaster("trend + level", progress=False, checkpoint=folder / "run")
        early, later = frame[is_early], frame[~is_early]
    else:
        model = DeepLFMForecaster(**MODELS[kind], random_state=seed, progress=False)
        early, later = frame[:50], frame[50:]
    model.fit(early)
    place = folder / "model"
    model.save(place)
    loaded = deeplfm.load(place)
    loaded.update(later)
    loaded.forecast(7)
    loaded.impute()
    loaded.save(place)


def state() -> dict[str, float]:
    """Memory in MB, and numbers of files, threads and children."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "MB": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "children": len(children),
    }


def main() -> int:
    """Repeat cycles for some minutes."""
    options = arguments(__doc__, 0, minutes=(float, 60.0, "how long"))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        for seed in range(WARM_UP):
            cycle(Path(name), seed)
        begin, end = state(), time.monotonic() + 60 * options.minutes
        n_cycles = 0
        while time.monotonic() < end and (not options.count or n_cycles < options.count):
            cycle(Path(name), n_cycles)
            n_cycles += 1
        after = state()
    report = Report(f"soak: {n_cycles} cycles, {begin} before, {after} after")
    for key, value in after.items():
        limit = begin[key] + (MOST_GROWTH if key == "MB" else 0)
        report.add("flat" if value <= limit else "grown", None if value <= limit else key)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
