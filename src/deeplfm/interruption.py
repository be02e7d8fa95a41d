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
    is_requested = False
    is_told = True


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def stop_reason() -> Literal["interrupt", "time"] | None:
    """Why the present work is to end: the user asks for it, or its time is over; None if it may go on."""
    if _Watch.is_requested:
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
def graceful_interrupts(is_told: bool = True) -> Iterator[None]:
    """Let the first Ctrl-C inside set :func:`stop_requested`, and the second interrupt as always.

    Only in the main thread, and only where nobody else listens to the signal; elsewhere nothing
    changes.

    Args:
        is_told: say on a terminal what happens next; of several processes that hear it, one should.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield
        return
    _Watch.is_requested, _Watch.is_told = False, is_told
    signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _Watch.is_requested = False


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    if _Watch.is_requested:
        signal.default_int_handler(signum, frame)
    _Watch.is_requested = True
    if _Watch.is_told and sys.stderr.isatty():
        sys.stderr.write(_NOTE)
