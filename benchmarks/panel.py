"""A panel of monthly series: fitted, killed, resumed, and compared with AutoETS.

Series of 60 to 150 rows are simulated (trend, seasons and first-order responses), with the monthly ones
of the set ``choose`` of the benchmark among them where DEEPLFM_DATA is set; one field is no number.
Everything is kept in a folder, and a run that was ended is continued by the same command.

    python benchmarks/panel.py --series 1000 -o panel-run                 # one process
    python benchmarks/panel.py --series 1000 --kill-at 0.4 -o panel-run   # kill -9 at 40 %, then resume
    python benchmarks/panel.py --series 40 --cluster dask --kill-worker -o dask-run
    python benchmarks/panel.py --series 40 --cluster ray --kill-worker -o ray-run
    python benchmarks/panel.py --series 1000 --peer -o panel-run          # AutoETS, and the table
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from deeplfm import DeepLFMForecaster
from deeplfm.experiments.forecasting.series import BenchmarkSeries, load_series, score_forecast

HORIZON, CORRUPT = 18, "simulated-3"
MODEL = os.environ.get("PANEL_MODEL", "auto")  # a cheaper one shows clusters sooner


def simulated(number: int) -> BenchmarkSeries:
    """Trend, a season, and the response of a first-order system to white noise."""
    rng = np.random.default_rng(number)
    n_rows = int(rng.integers(60, 151)) + HORIZON
    step = np.arange(n_rows)
    season = sum(
        rng.normal(0, 6 / k) * np.sin(2 * np.pi * k * step / 12 + rng.uniform(0, 6.3))
        for k in (1, 2, 3)
    )
    level, memory = np.zeros(n_rows), rng.choice([1.0, 0.95, 0.8])
    for t in range(1, n_rows):
        level[t] = memory * level[t - 1] + rng.normal(0, 2)
    y = 100 + rng.normal(0, 0.3) * step + season + level + rng.normal(0, 2, n_rows)
    return BenchmarkSeries(f"simulated-{number}", "monthly", 12, y[:-HORIZON], y[-HORIZON:])


def series_of(n_series: int) -> list[BenchmarkSeries]:
    found: list[BenchmarkSeries] = []
    if os.environ.get("DEEPLFM_DATA"):
        for item in load_series("choose"):
            if item.frequency == "monthly" and len(item.known) >= 60:
                known = item.known[-150:]
                found.append(BenchmarkSeries(item.name, "monthly", 12, known, item.later))
    n_public = min(len(found), n_series // 10)
    return [*found[:n_public], *(simulated(i) for i in range(n_series - n_public))]


def frame_of(series: list[BenchmarkSeries]) -> pd.DataFrame:
    frame = pd.concat(
        [item.frame.reset_index().assign(unique_id=item.name) for item in series],
        ignore_index=True,
    )
    frame["y"] = frame["y"].astype(object)
    frame.loc[frame.index[frame["unique_id"] == CORRUPT][5], "y"] = "oops"
    return frame


@contextmanager
def memory_of(state: Path, n_parts: int) -> Iterator[None]:
    """Print the peak of resident memory up to 25, 50, 75 and 100 % of the parts."""
    ended, peaks = threading.Event(), {share: (0.0, 0.0) for share in (25, 50, 75, 100)}

    def watch() -> None:
        me = psutil.Process()
        while not ended.wait(1.0):
            own, done = (
                me.memory_info().rss / 2**20,
                100 * len(list(state.glob("part-*"))) / n_parts,
            )
            workers = [0.0]
            for process in me.children(recursive=True):
                with suppress(psutil.Error):
                    workers.append(process.memory_info().rss / 2**20)
            share = next(share for share in peaks if done <= share)
            peaks[share] = (max(own, peaks[share][0]), max(*workers, peaks[share][1]))

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        for share, (own, worker) in peaks.items():
            print(f"peak up to {share} %: this process {own:.0f}, largest worker {worker:.0f} MB")


def part_size(n_series: int) -> int:
    return max(1, min(20, n_series // 50))


def fit(series: list[BenchmarkSeries], folder: Path, **settings: Any) -> None:
    """Fit, save and forecast with progress in ``folder/state``."""
    began, cpu = time.monotonic(), time.process_time()
    model = DeepLFMForecaster(
        model=MODEL, effort="fast", checkpoint=folder / "state", progress=False, **settings
    )
    state, n_parts = folder / "state", -(-len(series) // part_size(len(series)))
    with memory_of(state, n_parts), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame_of(series))
        fitted = time.monotonic() - began
        model.save(folder / "model")
        found = model.forecast(HORIZON, level=[80, 95], quantiles=[0.5], fallback=True)
    found.to_csv(folder / "forecast.csv", index=False)
    table = model.series_
    print(
        table["status"].value_counts().to_dict(),
        table[table["status"] != "fitted"].to_dict("index"),
    )
    print(
        f"{len(table)} series: fit {fitted:.0f} s, with forecasts {time.monotonic() - began:.0f} s, "
        f"CPU of this process {time.process_time() - cpu:.0f} s, of fits {table['seconds'].sum():.0f} s"
    )


def killed_and_resumed(arguments: argparse.Namespace) -> None:
    """Run this script, kill -9 it when a share of the parts is done, and run it again."""
    command = [
        sys.executable,
        __file__,
        "--series",
        str(arguments.series),
        "--jobs",
        str(arguments.jobs),
        "-o",
        str(arguments.out),
    ]
    state = arguments.out / "state"
    n_parts = -(-arguments.series // part_size(arguments.series))
    process = subprocess.Popen(command)
    while process.poll() is None and len(list(state.glob("part-*"))) < arguments.kill_at * n_parts:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = sorted(path.name for path in state.glob("part-*"))
    print(f"killed with {len(done)} of {n_parts} parts done", flush=True)
    subprocess.run(command, check=True)
    after = sorted(path.name for path in state.glob("part-*"))
    print(
        f"resumed: {len(after)} parts, {len(set(done) - set(after))} of the first ones made again"
    )


@contextmanager
def cluster(name: str, kill: bool, state: Path) -> Iterator[None]:
    """A local cluster of two workers; one is killed once three parts are done."""

    def killer(pids: Any) -> None:
        while len(list(state.glob("part-*"))) < 3:
            time.sleep(0.1)
        victim = pids()[0]
        os.kill(victim, signal.SIGKILL)
        print(f"killed worker {victim}", flush=True)

    if name == "dask":
        from dask.distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as place,
            Client(place) as client,
        ):
            pids = lambda: list(client.run(os.getpid).values())  # noqa: E731
            if kill:
                threading.Thread(target=killer, args=(pids,), daemon=True).start()
            yield
        return
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    def of_ray() -> list[int]:
        found = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True)
        rows = [line.split(None, 2) for line in found.stdout.splitlines()[1:]]
        ours = {os.getpid()}
        for _ in range(5):
            ours |= {int(pid) for pid, parent, _ in rows if int(parent) in ours}
        return [int(pid) for pid, _, text in rows if int(pid) in ours and "ray::_called" in text]

    if kill:
        threading.Thread(target=killer, args=(of_ray,), daemon=True).start()
    try:
        yield
    finally:
        ray.shutdown()


def peer(series: list[BenchmarkSeries], folder: Path) -> None:
    """AutoETS on the same series; then the table of both."""
    from deeplfm.experiments.forecasting.runner import forecast_of

    file, forecast = folder / "scores.csv", forecast_of("AutoETS")
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["series", "model"])
    ours = pd.read_csv(folder / "forecast.csv").groupby("unique_id", sort=False)
    columns = ["y_low_95", "y_low_80", "y_q0.5", "y_high_80", "y_high_95"]
    known = set(zip(done["series"], done["model"], strict=True))
    for item in series:
        for model in ("deeplfm", "AutoETS"):
            if (item.name, model) in known:
                continue
            began = time.process_time()
            if model == "deeplfm":
                n_later = len(item.later)
                quantiles = ours.get_group(item.name)[columns].to_numpy().T[:, :n_later]
            else:
                quantiles = forecast(item)
            seconds = time.process_time() - began
            row = {"series": item.name, "model": model, "seconds": seconds}
            row |= score_forecast(item, quantiles)
            pd.DataFrame([row]).to_csv(file, mode="a", header=not file.exists(), index=False)
    scores = pd.read_csv(file).drop(columns="series")
    print(scores.groupby("model").mean().to_string())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cluster", choices=("dask", "ray"))
    parser.add_argument("--kill-worker", action="store_true")
    parser.add_argument(
        "--kill-at", type=float, help="share of the parts after which to kill the run"
    )
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    series = series_of(arguments.series)
    if arguments.kill_at is not None:
        killed_and_resumed(arguments)
    elif arguments.peer:
        peer(series, arguments.out)
    elif arguments.cluster:
        with cluster(arguments.cluster, arguments.kill_worker, arguments.out / "state"):
            fit(series, arguments.out, backend=arguments.cluster)
    else:
        fit(series, arguments.out, n_jobs=arguments.jobs)


if __name__ == "__main__":
    main()
