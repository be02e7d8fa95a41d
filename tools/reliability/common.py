"""Small models and runs that the scripts of this folder share."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deeplfm.io.parts import content_of, unpack

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
TIMES = np.linspace(0, 6, 40)
LATER = np.linspace(6.1, 7, 8)


def arguments(
    description: str | None, count: int, **more: tuple[type, object, str]
) -> argparse.Namespace:
    """The count and the seed of a script, and further options."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=count, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    for name, (kind, default, text) in more.items():
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    return parser.parse_args()


def values(times: np.ndarray) -> np.ndarray:
    """Two outputs at some times, with a gap."""
    found = np.stack([np.sin(3 * times), 5 + 2 * np.cos(2 * times)], axis=1)
    found[10:14, 0] = np.nan
    return found


def frame_of(times: np.ndarray) -> pd.DataFrame:
    """The same values in a frame."""
    return pd.DataFrame(values(times), columns=["a", "b"], index=pd.Index(times, name="t"))


def series_of(times: np.ndarray, n_series: int = 3) -> pd.DataFrame:
    """Series in long form."""
    some = [pd.DataFrame({"unique_id": f"s{i}", "ds": times, "y": np.sin(3 * times + i) + i / 5 * times})
            for i in range(n_series)]  # fmt: skip
    return pd.concat(some, ignore_index=True)


def digest_of(model: object) -> str:
    """SHA-256 of all tensors of a fitted regressor, or of all files of parts of a panel."""
    digest = hashlib.sha256()
    if (panel := getattr(model, "panel_", None)) is not None:
        for part in panel.parts:
            described, tensors = unpack(content_of(part))
            digest.update(repr(_without_seconds(described)).encode())
            for name, tensor in sorted(tensors.items()):
                digest.update(name.encode() + tensor.numpy().tobytes())
        return digest.hexdigest()
    model = getattr(model, "regressor_", model)
    for name, tensor in sorted(model.model_.state_dict().items()):  # type: ignore[attr-defined]
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def _without_seconds(content: Any) -> Any:
    """Plain data without what the clock gave."""
    if isinstance(content, dict):
        return {k: _without_seconds(v) for k, v in content.items() if k != "seconds"}
    return list(map(_without_seconds, content)) if isinstance(content, list) else content


def python(code: str, *given: object, **options: object) -> subprocess.Popen[str]:
    """A process that runs some code."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, given)]
    kept = {"env": ENVIRONMENT, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **kept | options)  # type: ignore[call-overload]


def killed(work: Callable[[], object], seconds: float | None) -> bool:
    """Run work in a copy of this process, and kill that after some seconds; whether it was killed.

    A copy has imported everything already, so that a kill meets the work and not the imports.
    """
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"  {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
                raise RuntimeError(f"the run ended with status {status}")
            return False
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.001)


class Report:
    """Counts of outcomes, printed as one line at the end."""

    def __init__(self, name: str) -> None:
        self.name, self.began = name, time.monotonic()
        self.counts: dict[str, int] = {}
        self.bad: list[str] = []

    def add(self, outcome: str, bad: str | None = None) -> None:
        """One more of an outcome; ``bad`` describes one that must not be."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if bad is not None:
            self.bad.append(bad)
            print(f"  BAD: {bad}", file=sys.stderr, flush=True)

    def end(self) -> int:
        """Print the line; the exit code is 1 if anything was bad."""
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.counts.items()))
        n_cases = sum(self.counts.values())
        verdict = f"{len(self.bad)} bad" if self.bad else "0 bad"
        seconds = time.monotonic() - self.began
        print(f"{self.name}: {n_cases} cases, {verdict} ({outcomes}; {seconds:.0f} s)", flush=True)
        return 1 if self.bad else 0
