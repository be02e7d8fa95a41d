"""Seconds and megabytes: what `step.py` and `scaling.py` measure with.

Times of things to be compared are taken in turns, so that a busy machine is unfair to none of them.
Memory is taken in a process of its own, above what the process held just before the first call.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

Step = Callable[[], object]
Clock = Callable[[], float]

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_BLOCK = 2**19  # elements; a block and its results are 6 MB and stay in the cache
_LEAST_SECONDS, _MOST_CALLS = 2.0, 10


def time_in_turns(
    steps: Mapping[str, Step], n_repeats: int, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each step over repeats in which each runs once, after one to warm up.

    Args:
        steps: what to measure.
        n_repeats: number of repeats.
        clock: that of the wall, or ``time.process_time``: with one thread it counts the seconds that
            others did not take.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(n_repeats + 1):
        for name, step in steps.items():
            seconds[name].append(seconds_of(step, clock))
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def seconds_of(step: Step, clock: Clock = time.perf_counter) -> float:
    """Seconds of one call."""
    started = clock()
    step()
    return clock() - started


def floor_step(n_elements: int) -> Step:
    """sin and cos of a number of elements, as forward needs them, and again as backward does.

    That is what a step takes which keeps none of them; one that pulls back every block while it is at
    hand evaluates them once. Blocks are reused, so that this is the time of the arithmetic alone.
    """
    n_blocks, rest = divmod(n_elements, _BLOCK)
    angle = torch.randn(_BLOCK)
    sine, cosine = torch.empty_like(angle), torch.empty_like(angle)

    def both(size: int) -> None:
        torch.sin(angle[:size], out=sine[:size])
        torch.cos(angle[:size], out=cosine[:size])

    def step() -> None:
        for _ in range(2):
            for _ in range(n_blocks):
                both(_BLOCK)
            if rest:
                both(rest)

    return step


def peak_megabytes(prepare: Callable[..., Step], *arguments: Any, n_calls: int = 2) -> float:
    """Peak memory of a few calls of ``prepare(*arguments)()`` in a new process; NaN if it was killed.

    Args:
        prepare: makes the step; a function of a module, so that the new process finds it.
        arguments: what it is given.
        n_calls: the optimiser has its state from the second call on.
    """
    _, megabytes = _alone(_memory_of, prepare, arguments, n_calls)
    return megabytes


def seconds_and_megabytes(prepare: Callable[..., Step], *arguments: Any) -> tuple[float, float]:
    """Median seconds and peak memory of ``prepare(*arguments)()`` in a new process.

    A short step is called up to ten times; a long one once.
    """
    return _alone(_time_and_memory_of, prepare, arguments)


def available_megabytes() -> float:
    """Memory that a new process could use; infinite where it is not known."""
    try:
        return _field(Path("/proc/meminfo"), "MemAvailable")
    except OSError:
        return float("inf")


def _alone(measure: Callable[..., tuple[float, float]], *arguments: Any) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, measure, arguments))
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:  # it ended without a word
        result = (float("nan"), float("nan"))
    process.join()
    return result


def _report(sender: Any, measure: Callable[..., tuple[float, float]], arguments: Any) -> None:
    sender.send(measure(*arguments))


def _memory_of(prepare: Callable[..., Step], arguments: Any, n_calls: int) -> tuple[float, float]:
    step = prepare(*arguments)
    with _PeakMemory() as memory:
        for _ in range(n_calls):
            step()
    return float("nan"), memory.megabytes


def _time_and_memory_of(prepare: Callable[..., Step], arguments: Any) -> tuple[float, float]:
    step = prepare(*arguments)
    with _PeakMemory() as memory:
        seconds = [seconds_of(step)]
    if seconds[0] < _LEAST_SECONDS:  # the first call was slow for reasons of its own
        n_calls = min(_MOST_CALLS, 1 + int(_LEAST_SECONDS / seconds[0]))
        with memory:
            seconds = [seconds_of(step) for _ in range(n_calls)]
    return statistics.median(seconds), memory.megabytes


class _PeakMemory:
    """Peak resident memory of this process within the block, above that at its first entry.

    Linux keeps a high-water mark that can be reset; where it cannot, a thread looks every millisecond.
    """

    def __init__(self) -> None:
        self.before: float | None = None
        self.megabytes = 0.0

    def __enter__(self) -> _PeakMemory:
        self.watcher: _Watcher | None = None
        try:
            _CLEAR.write_text("5")
        except OSError:
            self.watcher = _Watcher()
            self.watcher.start()
        if self.before is None:
            self.before = _field(_STATUS, "VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        peak = self.watcher.stop() if self.watcher else _field(_STATUS, "VmHWM")
        self.megabytes = max(self.megabytes, peak - (self.before or 0.0))


class _Watcher(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done, self.peak = threading.Event(), 0.0

    def run(self) -> None:
        while not self.done.wait(0.001):
            self.peak = max(self.peak, _field(_STATUS, "VmRSS"))

    def stop(self) -> float:
        self.done.set()
        self.join()
        return self.peak


def _field(path: Path, name: str) -> float:
    """A line of a status file in megabytes (10⁶ bytes)."""
    for line in path.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"{path} has no line {name!r}; memory can be measured on Linux only.")
