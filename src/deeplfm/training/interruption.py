"""Ctrl-C, SIGTERM and time limits: work ends after its current step and keeps the best result so far."""

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
from typing import Any, Literal

import torch

from deeplfm.training.distributed import world

_NOTE = "\nending after this step, keeping the best so far; press Ctrl-C again to quit at once\n"


# Handlers that may be replaced.
_DEFAULTS = {
    signal.SIGINT: (signal.default_int_handler,),
    signal.SIGTERM: (signal.SIG_DFL, signal.default_int_handler),
}


class _Interrupt:
    pressed_at = -math.inf  # time of the last Ctrl-C or SIGTERM
    since = math.inf  # start of the current work; an earlier signal does not end it
    prints_note = True


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def stop_reason() -> Literal["interrupt", "time"] | None:
    """Why the current work has to end: a signal or the time limit; None while it may go on.

    Processes that fit together decide together: all must call it at the same places.
    """
    own = _own_reason()
    if world().size == 1:
        return own
    (found,) = world().sum_(torch.tensor([own == "interrupt", own == "time"], dtype=torch.double))
    is_interrupt, is_time = found.tolist()
    return "interrupt" if is_interrupt else "time" if is_time else None


def _own_reason() -> Literal["interrupt", "time"] | None:
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
    """Let the first Ctrl-C or SIGTERM inside set :func:`stop_requested`, and the second raise.

    It has an effect only in the main thread, and only on a signal that has no other handler.

    Args:
        since: in a worker process, the time when the work of its parent began, by the monotonic clock
            that they share. The terminal sends Ctrl-C to both, a service manager SIGTERM, and the worker
            may receive it before, between or after calls. So a worker keeps its handler, and prints no
            note.
    """
    is_worker = since is not None
    before = {number: signal.getsignal(number) for number in _DEFAULTS}
    ours = [number for number, handler in before.items() if _is_free(number, handler, is_worker)]
    if not ours:
        yield
        return
    _Interrupt.since = time.monotonic() if since is None else since
    _Interrupt.prints_note = not is_worker
    for number in ours:
        signal.signal(number, _on_interrupt)
    try:
        yield
    finally:
        _Interrupt.since = math.inf
        for number in () if is_worker else ours:
            signal.signal(number, before[number])


def _is_free(number: signal.Signals, handler: Any, is_worker: bool) -> bool:
    """Whether the handler of a signal may be replaced."""
    if threading.current_thread() is not threading.main_thread():
        return False
    is_idle = handler is _on_interrupt and math.isinf(_Interrupt.since)
    return handler in _DEFAULTS[number] or (is_worker and is_idle)


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    if _own_reason() == "interrupt":
        signal.default_int_handler(signum, frame)
    _Interrupt.pressed_at = time.monotonic()
    if _Interrupt.prints_note and sys.stderr.isatty():
        sys.stderr.write(_NOTE)
