"""Ctrl-C that ends long work after its present step, so that what was found so far is kept."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NOTE = "\nending after this step, keeping the best so far; press Ctrl-C again to quit at once\n"


class _Watch:
    is_requested = False
    is_told = True


def stop_requested() -> bool:
    """Whether the user has asked for the present work to end."""
    return _Watch.is_requested


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
