"""Work in parts of similar size: a bar, and an estimate of the time after the first part."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from deeplfm.training.progress import Progress, progress_bar

_LEAST_SECONDS = 20.0  # of work that is announced

announce: ContextVar[Callable[[str], None] | None] = ContextVar("announce", default=None)


class _Work:
    def __init__(self, n_parts: int, what: str, bar: Progress) -> None:
        self._n_parts, self._what, self._bar = n_parts, what, bar
        self._n_done, self._started = 0, time.monotonic()

    def part_done(self) -> None:
        self._n_done += 1
        self._bar.update(self._n_done, max(self._n_done, self._n_parts), math.nan)
        seconds = (time.monotonic() - self._started) * self._n_parts / self._n_done
        send = announce.get()
        if self._n_done == 1 and send is not None and seconds >= _LEAST_SECONDS:
            send(f"Fitting {self._what}: about {duration(seconds)}")


# of the present work: called after each part
on_part: ContextVar[Callable[[], None] | None] = ContextVar("on_part", default=None)


@contextmanager
def work(n_parts: int, what: str, progress: bool | None = None) -> Iterator[None]:
    """Show the progress of some parts inside; ``progress`` as in :func:`progress_bar`.

    Args:
        n_parts: number of parts.
        what: the data, for the announcement.
        progress: show a bar.
    """
    with progress_bar("fit", progress, unit="outputs") as bar:
        token = on_part.set(_Work(n_parts, what, bar).part_done)
        try:
            yield
        finally:
            on_part.reset(token)


def duration(seconds: float) -> str:
    """A rough duration in words.

    >>> duration(44), duration(95), duration(4000)
    ('40 seconds', '2 minutes', '1.1 hours')
    """
    if seconds < 60:
        return f"{max(10, round(seconds, -1)):.0f} seconds"
    if seconds < 3600:
        minutes = round(seconds / 60)
        return f"{minutes} minute{'s' * (minutes != 1)}"
    return f"{seconds / 3600:.1f} hours"
