"""Ctrl-C or a time limit that ends long work after its present step, with what was found so far."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Literal

_NOTE = "\nending after this step, keeping the best so far; press Ctrl-C again to quit at once\n"


class _Watch:
    asked_at = -math.inf  # when the user last pressed Ctrl-C
    since = math.inf  # what was asked for before is no matter of the present work
    is_told = True


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def stop_reason() -> Literal["interrupt", "time"] | None:
    """Why the present work is to end: the user asks for it, or its time is over; None if it may go on."""
    if _Watch.asked_at >= _Watch.since:
        return "interrupt"
    return "time" if time_left() < 0 else None


def stop_requested() -> bool:
    """Whether the present work is to end, for whatever reason."""
    return stop_reason() is not None


def time_left() -> float:
    """Seconds until the present work is to end; negative once they are over, infinite without a limit."""
    return _deadline.get() - time.monotonic()


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Give what is inside so many seconds, or those that it has anyway if they are fewer or None."""
    limit = math.inf if seconds is None else seconds
    before = _deadline.set(min(_deadline.get(), time.monotonic() + limit))
    try:
        yield
    finally:
        _deadline.reset(before)


@contextmanager
def graceful_interrupts(since: float | None = None) -> Iterator[None]:
    """Let the first Ctrl-C inside set :func:`stop_requested`, and the second interrupt as always.

    Only in the main thread, and only where nobody else listens to the signal; elsewhere nothing
    changes.

    Args:
        since: in a process that works for another, when that one's work began, by the monotonic clock
            that they share. The terminal tells both of Ctrl-C, but not at once: here it may come
            before, between or after calls, so this process goes on to listen, and never says anything.
    """
    is_helper, heard_by = since is not None, signal.getsignal(signal.SIGINT)
    is_idle = heard_by is _on_interrupt and math.isinf(_Watch.since)
    is_free = heard_by is signal.default_int_handler or (is_helper and is_idle)
    if not (is_free and threading.current_thread() is threading.main_thread()):
        yield
        return
    _Watch.since = time.monotonic() if since is None else since
    _Watch.is_told = not is_helper
    signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        _Watch.since = math.inf
        if not is_helper:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    if stop_reason() == "interrupt":
        signal.default_int_handler(signum, frame)
    _Watch.asked_at = time.monotonic()
    if _Watch.is_told and sys.stderr.isatty():
        sys.stderr.write(_NOTE)
