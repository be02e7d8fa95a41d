"""Ctrl-C and time limits: work ends after its current step and keeps the best result so far."""

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


class _Interrupt:
    pressed_at = -math.inf  # time of the last Ctrl-C
    since = math.inf  # start of the current work; an earlier Ctrl-C does not end it
    prints_note = True


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def stop_reason() -> Literal["interrupt", "time"] | None:
    """Why the current work has to end: Ctrl-C or the time limit; None while it may go on."""
    if _Interrupt.pressed_at >= _Interrupt.since:
        return "interrupt"
    return "time" if time_left() < 0 else None


def stop_requested() -> bool:
    """Whether the current work has to end, for any reason."""
    return stop_reason() is not None


def time_left() -> float:
    """Seconds left for the current work: negative after the limit, infinite without one."""
    return _deadline.get() - time.monotonic()


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Limit the work inside to some seconds; an outer limit that ends earlier still holds."""
    limit = math.inf if seconds is None else seconds
    before = _deadline.set(min(_deadline.get(), time.monotonic() + limit))
    try:
        yield
    finally:
        _deadline.reset(before)


@contextmanager
def graceful_interrupts(since: float | None = None) -> Iterator[None]:
    """Let the first Ctrl-C inside set :func:`stop_requested`, and the second raise as usual.

    It has an effect only in the main thread, and only where no other handler of the signal is set.

    Args:
        since: in a worker process, the time when the work of its parent began, by the monotonic clock
            that they share. The terminal sends Ctrl-C to both, and the worker may receive it before,
            between or after calls. So a worker keeps its handler, and prints no note.
    """
    is_worker, handler = since is not None, signal.getsignal(signal.SIGINT)
    is_idle = handler is _on_interrupt and math.isinf(_Interrupt.since)
    is_free = handler is signal.default_int_handler or (is_worker and is_idle)
    if not (is_free and threading.current_thread() is threading.main_thread()):
        yield
        return
    _Interrupt.since = time.monotonic() if since is None else since
    _Interrupt.prints_note = not is_worker
    signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        _Interrupt.since = math.inf
        if not is_worker:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    if stop_reason() == "interrupt":
        signal.default_int_handler(signum, frame)
    _Interrupt.pressed_at = time.monotonic()
    if _Interrupt.prints_note and sys.stderr.isatty():
        sys.stderr.write(_NOTE)
