"""Runs that are killed at random moments: every file stays readable, and the last run has the same bits.

::

    python tools/reliability/kills.py --count 200            # kill -9
    python tools/reliability/kills.py --count 50 --signal TERM

A run fits with a checkpoint, saves, loads, updates and saves again. After every kill the same program is
started once more, until it ends by itself; then its model must be that of a run that nobody killed.
A run that gets SIGTERM while it trains must save the best so far, and exit as after Ctrl-C.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import LATER, TIMES, Report, arguments, digest_of, frame_of, killed, python, series_of

import deeplfm
from deeplfm import DeepLFMForecaster, DeepLFMRegressor
from deeplfm.errors import ModelFileError
from deeplfm.training import checkpoint

PANEL, FORCES = "panel", "forces"
MODELS: dict[str, dict[str, Any]] = {
    "single": {"model": "paper(n_features=5)", "n_steps": 30},
    "selection": {"model": {"a": "trend + level", "b": "sinusoids(2)"}, "n_steps": 8},
    "batches": {"model": "trend + level", "n_steps": 12, "batch_size": 10},
    PANEL: {"model": {"a": "trend + level", "b": "trend + reversion"}, "n_jobs": 1},
    FORCES: {"model": {"a": "trend + level + shared_forces(1)", "b": "trend + level"}},
}
N_SERIES, MOST_KILLS = 4, 5
FIT = "import sys; from deeplfm.cli import main; main(sys.argv[1:])"


def run(folder: Path, kind: str) -> None:
    """Fit, save, load, update and save."""
    settings: dict[str, Any] = {**MODELS[kind], "progress": False, "checkpoint": folder / "run"}
    if kind == PANEL:
        model: Any = DeepLFMForecaster(**settings).fit(series_of(TIMES, N_SERIES))
    elif kind == FORCES:
        model = DeepLFMForecaster(**settings).fit(frame_of(TIMES))
    else:
        model = DeepLFMRegressor(**settings).fit(TIMES, np.sin(3 * TIMES))
    for _ in range(5):
        model.save(folder / "model")
    loaded: Any = deeplfm.load(folder / "model")
    if kind == PANEL:
        loaded.update(series_of(LATER, N_SERIES))
    elif kind == FORCES:
        loaded.update(frame_of(LATER))
    elif kind != "single":
        loaded.update([6.1, 6.2], [0.3, 0.1])
    for _ in range(5):
        loaded.save(folder / "updated")


def kill_runs(count: int, random: np.random.Generator, folder: Path) -> int:
    """Kill -9 at random moments."""
    report = Report("kill -9 at random moments of fit, save, update, resume")
    expected, seconds = {}, {}
    for kind in MODELS:
        run(folder / "warm" / kind, kind)  # imports
        began = time.monotonic()
        run(folder / kind, kind)
        seconds[kind] = time.monotonic() - began
        expected[kind] = digest_of(deeplfm.load(folder / kind / "updated"))
    n_killed, n_runs = 0, 0
    while n_killed < count:
        kind = list(MODELS)[n_runs % len(MODELS)]
        place, n_runs = folder / f"{kind}-{n_runs}", n_runs + 1
        times = MOST_KILLS  # of one run; then it may end
        while killed(
            lambda place=place, kind=kind: run(place, kind),  # type: ignore[misc]
            random.uniform(0, 0.7 * seconds[kind]) if times else None,
        ):
            n_killed, times = n_killed + 1, times - 1
            unreadable = unreadable_in(place)
            report.add("killed", f"{place.name}: {unreadable}" if unreadable else None)
        found = digest_of(deeplfm.load(place / "updated"))
        is_same = found == expected[kind]
        outcome = f"{kind}, same bits" if is_same else f"{kind}, other bits"
        report.add(outcome, None if is_same else f"{place.name}: {found}")
        shutil.rmtree(place)
    return report.end()


def unreadable_in(place: Path) -> str | None:
    """A model that is there and cannot be loaded."""
    for name in ("model", "updated"):
        if (place / name / "model.json").exists():
            try:
                digest_of(deeplfm.load(place / name))  # which reads the parts of a panel
            except ModelFileError as error:
                return str(error)
    return None


def terminate_runs(count: int, random: np.random.Generator, folder: Path) -> int:
    """SIGTERM while a command trains."""
    report = Report("SIGTERM while training")
    x = np.linspace(0, 6, 40)
    rows = "\n".join(f"{t:.4f},{np.sin(3 * t):.5f}" for t in x)
    (folder / "data.csv").write_text(f"t,y\n{rows}\n")
    series_of(x, 40).to_csv(folder / "panel.csv", index=False)
    models = ("paper(n_features=5)", "trend + broadband", "sinusoids + broadband", PANEL)
    for case in range(count):
        place = folder / str(case)
        model = models[case % len(models)]
        data, options, sign = "data.csv", ["--model", model, "--n-steps", "1000000"], "state-*"
        if model == PANEL:
            data, options, sign = "panel.csv", ["--effort", "fast"], "part-*"
        paths = ["--checkpoint", place / "run", "-o", place / "model"]
        process = python(FIT, "fit", folder / data, *options, "--jobs", "1", *paths)
        while process.poll() is None and not list(place.rglob(sign)):
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.5))
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
        try:
            found = deeplfm.load(place / "model").forecast(5)
            is_finite = np.isfinite(found.select_dtypes("number").to_numpy()).all()
            good = process.returncode == 130 and is_finite
        except ModelFileError as reason:
            good, error = False, f"{error} {reason}"
        report.add(
            "saved" if good else "lost",
            None if good else f"{model}: {process.returncode}: {error[-300:]}",
        )
        shutil.rmtree(place)
    return report.end()


def main() -> int:
    """Kill or terminate, and compare."""
    options = arguments(__doc__, 200, signal=(str, "KILL", "KILL or TERM"))
    random = np.random.default_rng(options.seed)
    warnings.simplefilter("ignore")
    checkpoint._LEAST_SECONDS, checkpoint._COST = 0.0, 1e9  # keep every step
    with tempfile.TemporaryDirectory() as name:
        work = kill_runs if options.signal == "KILL" else terminate_runs
        return work(options.count, random, Path(name))


if __name__ == "__main__":
    sys.exit(main())
