"""A function called with several items, in processes and within a time limit; failures are kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import torch

from deeplfm.errors import TrainingDivergedError, UnsuitableError
from deeplfm.kernels import are_compiled, compiled_kernels
from deeplfm.training.interruption import (
    graceful_interrupts,
    stop_reason,
    stop_requested,
    time_left,
    within,
)
from deeplfm.training.progress import no_bars, progress_bar

Item = TypeVar("Item")
Result = TypeVar("Result")

FAILURES = (TrainingDivergedError, torch.linalg.LinAlgError)


class Attempt(NamedTuple):
    """One item, what a function returned for it or why it failed, and how long that took."""

    item: Any
    result: Any
    seconds: float


def attempt_all(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int = 1,
    is_optional: bool = False,
    label: str = "",
    progress: bool | None = None,
) -> list[Attempt]:
    """Call a function with each item: here, one after the other, or in processes of their own.

    Processes share PyTorch's threads among them, and get Ctrl-C from the terminal as this one does;
    where only this one is asked to stop, it waits for what is under way. An item that none of them has
    finished, because the user interrupts or a process is ended from outside, is tried here. Each item
    has an equal part of the time that is left, and what others leave of theirs.

    Args:
        function: to be called with each item, once; what it changes does not count.
        items: what to try.
        n_jobs: processes.
        is_optional: leave out what has not begun when work is to end, once one item is done.
        label: for the bar that counts items while processes are at work.
        progress: show that bar.

    Returns:
        Items in their order.
    """
    found: dict[int, Attempt] = {}
    n_jobs = min(n_jobs, len(items))
    if n_jobs > 1 and not stop_requested():
        with progress_bar(label, progress, unit="fits") as bar, suppress(BrokenProcessPool):
            bar.update(0, len(items), math.nan)
            for i, attempt in _together(function, items, n_jobs):
                found[i] = attempt
                bar.update(len(found), len(items), math.nan)
    missing = [i for i in range(len(items)) if i not in found]
    for n_done, i in enumerate(missing):
        is_enough = is_optional and any(
            not isinstance(attempt.result, Exception) for attempt in found.values()
        )
        if not (is_enough and stop_requested()):
            with within(time_left() / (len(missing) - n_done)):
                found[i] = _attempt(function, items[i])
    return [found[i]._replace(item=items[i]) for i in sorted(found)]


def _attempt(function: Callable[[Item], Result], item: Item) -> Attempt:
    began = time.monotonic()
    result: Result | Exception
    try:
        result = function(item)
    except (*FAILURES, UnsuitableError) as error:
        result = error
    return Attempt(None, result, time.monotonic() - began)


def _together(
    function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int
) -> Iterator[tuple[int, Attempt]]:
    from joblib import Parallel, delayed, parallel_config

    n_threads, is_compiled = max(1, torch.get_num_threads() // n_jobs), are_compiled()
    began = time.monotonic()  # a clock that threads and processes share
    end = began + time_left()

    def calls() -> Iterator[Any]:
        """Made in joblib's threads, where no time limit is set."""
        for i, item in enumerate(items):
            now, n_turns = time.monotonic(), math.ceil((len(items) - i) / n_jobs)
            if stop_requested() or now > end:
                return
            span = _Span(began, (end - now) / n_turns, end)
            yield delayed(_apart)(i, function, item, is_compiled, span)

    with parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=n_threads):
        pool = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=n_jobs)
        yield from (done for done in pool(calls()) if done is not None)


class _Span(NamedTuple):
    """When work that is shared by processes began, the seconds of one attempt, and when all must end."""

    began: float
    seconds: float
    end: float


def _apart(
    i: int, function: Callable[[Item], Result], item: Item, is_compiled: bool, span: _Span
) -> tuple[int, Attempt] | None:
    """One attempt in a process of its own, whose time begins here; none once the user interrupted.

    An interrupt may reach this process before the one that sends it work: it may be given more.
    """
    with (
        graceful_interrupts(since=span.began),
        compiled_kernels(is_compiled),
        no_bars(),
        within(min(span.seconds, span.end - time.monotonic())),
    ):
        return None if stop_reason() == "interrupt" else (i, _attempt(function, item))
