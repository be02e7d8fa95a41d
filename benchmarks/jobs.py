"""Seconds of the default fit with its candidates in parallel, and one after the other.

Both take turns on a series of two outputs; one after the other, each fit has all threads.

    python benchmarks/jobs.py                       # writes benchmarks/results/jobs.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from joblib import cpu_count

from deeplfm import DeepLFMRegressor

RESULTS = Path(__file__).parent / "results" / "jobs.json"


def seconds_to_fit(n_jobs: int, n_rows: int) -> float:
    """Of the default on two outputs that share a period."""
    time_of_row = np.linspace(0, n_rows / 10, n_rows)
    noise = 0.1 * np.random.default_rng(0).standard_normal((2, n_rows))
    waves = np.sin(2 * time_of_row), np.cos(2 * time_of_row) + 0.3 * np.sin(5.1 * time_of_row)
    started = time.perf_counter()
    DeepLFMRegressor(n_jobs=n_jobs, progress=False).fit(time_of_row, (waves + noise).T)
    return time.perf_counter() - started


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rows", type=int, default=160)
    parser.add_argument("--jobs", type=int, default=cpu_count())
    asked = parser.parse_args()
    found: dict[int, list[float]] = {1: [], asked.jobs: []}
    for _ in range(asked.repeats):
        for n_jobs, seconds in found.items():
            seconds.append(seconds_to_fit(n_jobs, asked.rows))
            print(f"{n_jobs} at a time: {seconds[-1]:.1f} s", flush=True)
    alone, together = (statistics.median(seconds) for seconds in found.values())
    print(f"one after the other takes {alone / together:.2f} × as long")
    result = {"seconds": found, "rows": asked.rows, "threads": torch.get_num_threads()}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
