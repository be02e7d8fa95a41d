"""A function called with several items, in processes and within a time limit; failures are kept."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, TypeVar

import torch

from deeplfm.errors import TrainingDivergedError, UnsuitableError
from deeplfm.kernels import are_compiled, compiled_kernels
from deeplfm.selection.backends import LostWorkerError, calls_in_pool, end_with, is_cluster
from deeplfm.training.checkpoint import Place, current_place, kept_in, restoring, unit
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
        label: for the bar that counts items while processes are at work, and for what is kept of them
            in a checkpoint.
        progress: show that bar.

    Returns:
        Items in their order.
    """
    found: dict[int, Attempt] = {}
    n_jobs = min(n_jobs, len(items))
    if (n_jobs > 1 or is_cluster()) and not stop_requested():
        with progress_bar(label, progress, unit="fits") as bar, suppress(LostWorkerError):
            bar.update(0, len(items), math.nan)
            for i, attempt in _together(function, items, n_jobs, label):
                found[i] = attempt
                bar.update(len(found), len(items), math.nan)
    missing = [i for i in range(len(items)) if i not in found]
    for n_done, i in enumerate(missing):
        is_enough = is_optional and any(
            not isinstance(attempt.result, Exception) for attempt in found.values()
        )
        if not (is_enough and stop_requested()):
            with within(time_left() / (len(missing) - n_done)):
                found[i] = _attempt(function, items[i], label)
    return [found[i]._replace(item=items[i]) for i in sorted(found)]


def _attempt(function: Callable[[Item], Result], item: Item, label: str) -> Attempt:
    began = time.monotonic()
    result: Result | Exception
    try:
        result = _kept(function, item, label)
    except (*FAILURES, UnsuitableError) as error:
        result = error
    return Attempt(None, result, time.monotonic() - began)


def _kept(function: Callable[[Item], Result], item: Item, label: str) -> Result | Exception:
    """The result of a function, or the one that an earlier run of the same work has kept."""
    if current_place() is None:
        return function(item)
    from deeplfm.selection.finished import describe_result, restore_result, unit_name

    name = unit_name(label, item)
    if name is None:
        return function(item)
    with unit(name) as own:
        if own is None:
            return function(item)
        if kept := own.result():
            with restoring(own.place.folder):
                return restore_result(kept, item)
        result: Result | Exception
        try:
            result = function(item)
        except (*FAILURES, UnsuitableError) as error:
            result = error
        contents = None if stop_requested() else describe_result(result)
        if contents is not None:
            own.finish(*contents)
        return result


def _together(
    function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int, label: str
) -> Iterator[tuple[int, Attempt]]:
    is_compiled = are_compiled()
    began = time.monotonic()  # a clock that threads and processes of this machine share
    end, place = began + time_left(), current_place()
    parent = os.getpid()
    if (
        is_cluster()
    ):  # its workers may see neither our clock nor our files, and are no children of ours
        began, place, parent = math.inf, None, 0

    def calls() -> Iterator[_Work]:
        """Made in joblib's threads, where no time limit is set."""
        for i, item in enumerate(items):
            now, n_turns = time.monotonic(), math.ceil((len(items) - i) / n_jobs)
            if stop_requested() or now > end:
                return
            span = _Span(began, (end - now) / n_turns, end if parent else math.inf, parent)
            yield _Work(i, function, item, label, place, is_compiled, span)

    yield from (done for done in calls_in_pool(_apart, calls(), n_jobs) if done is not None)


class _Span(NamedTuple):
    """When work that is shared by processes began, the seconds of one attempt, and when all must end.

    The last is the process that waits for it; 0 for one on another machine.
    """

    began: float
    seconds: float
    end: float
    parent: int


class _Work(NamedTuple):
    """One item for a process: its number, and what the process needs to know of its surroundings."""

    i: int
    function: Callable[[Any], Any]
    item: Any
    label: str
    place: Place | None
    is_compiled: bool
    span: _Span


def _apart(work: _Work) -> tuple[int, Attempt] | None:
    """One attempt in a process of its own, whose time begins here; none once the user interrupted.

    An interrupt may reach this process before the one that sends it work: it may be given more.
    """
    span = work.span
    if span.parent:
        end_with(span.parent)
    with (
        graceful_interrupts(since=span.began) if span.parent else nullcontext(),
        compiled_kernels(work.is_compiled),
        kept_in(work.place),
        no_bars(),
        within(min(span.seconds, span.end - time.monotonic())),
    ):
        if stop_reason() == "interrupt":
            return None
        return work.i, _attempt(work.function, work.item, work.label)
