"""What the newcomer's jobs share: CPU seconds, lines, scores and the table."""

from __future__ import annotations

import inspect
import resource
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Record = dict[str, Any]
Measured = tuple[Any, float]
Jobs = dict[Callable[[], Record], Callable[..., Any] | list[str]]  # a job, and what a user writes


def cpu() -> float:
    """CPU seconds of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def measured(call: Callable[..., Any], *given: Any) -> Measured:
    """The result of a call and its CPU seconds."""
    began = cpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call(*given)
    return result, cpu() - began


def body(call: Callable[..., Any]) -> str:
    """The lines of a function below its first one."""
    return textwrap.dedent("\n".join(inspect.getsource(call).splitlines()[1:]))


def n_lines(call: Callable[..., Any]) -> int:
    """How many they are."""
    return len(body(call).splitlines())


def command(*words: str) -> str:
    """Run a command line, and return what it prints."""
    done = subprocess.run([sys.executable, "-m", "deeplfm", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"deeplfm {' '.join(words)}: {done.stderr}")
    return done.stdout + done.stderr


def error_and_coverage(frame: pd.DataFrame, name: str, truth: Any) -> str:
    """Mean absolute error, and how many values the 95 % interval holds."""
    y = np.asarray(truth, dtype=float)
    known = np.isfinite(y)
    off = np.abs(frame[name].to_numpy() - y)[known].mean()
    inside = (y >= frame[f"{name}_low"].to_numpy()) & (y <= frame[f"{name}_high"].to_numpy())
    return f"{off:.3g}, {inside[known].mean():.0%}"


def record(
    ours: Measured, score: str, lines: int, theirs: Measured, their_score: str, **rest: Any
) -> Record:
    """What is saved of a job."""
    times = {"cpu": round(ours[1], 2), "peer_cpu": round(theirs[1], 2)}
    return {"lines": lines, **times, "score": score, "peer_score": their_score, **rest}


def beside(
    ours: Callable[..., Any],
    usual: Callable[..., Any],
    given: Any,
    later: Any,
    name: str,
    **rest: Any,
) -> Record:
    """A forecast by both, and their scores."""
    mine, theirs = measured(ours, given, later), measured(usual, given, later)
    scores = [error_and_coverage(item[0], name, later[name]) for item in (mine, theirs)]
    return record(mine, scores[0], n_lines(ours), theirs, scores[1], **rest)


def table(jobs: Jobs, records: dict[str, Record]) -> str:
    """All records as one table."""
    lines = [
        "| job: data; unit of the score | lines | CPU s | score | peer | its CPU s | its score |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in jobs:
        if job.__name__ in records:
            item = {"peer_cpu": "–", "peer_score": "–"} | records[job.__name__]
            keys = ("lines", "cpu", "score", "peer", "peer_cpu", "peer_score")
            title = f"{str(job.__doc__).rstrip('.')}: {item['data']}; {item['unit']}"
            lines.append("| " + " | ".join([title, *(str(item[key]) for key in keys)]) + " |")
    return "\n".join(lines)


def listing(jobs: Jobs) -> str:
    """What a user writes for each job."""
    parts = ["## What was written"]
    for job, done in jobs.items():
        code = body(done) if callable(done) else "\n".join(cell.strip() for cell in done)
        parts.append(f"{str(job.__doc__).rstrip('.')}:\n\n```py\n{code}\n```")
    return "\n\n".join(parts)
