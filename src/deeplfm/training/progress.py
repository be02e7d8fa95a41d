"""Progress of work: a bar with loss, speed and time left, and an estimate after the first part."""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

_LEAST_SECONDS = 0.2  # between two pictures of a bar in a notebook
_is_enabled: ContextVar[bool] = ContextVar("is_enabled", default=True)


class Progress(Protocol):
    """Receives the steps of the training loop."""

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""


class Silent:
    """Shows nothing."""

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""


class _Bar:
    def __init__(self, bar: Any, label: str) -> None:
        self._bar, self._task = bar, bar.add_task(label, total=None, loss="")

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""
        text = "" if math.isnan(loss) else f"loss {loss:.4g}"
        self._bar.update(self._task, completed=step, total=n_steps, loss=text)


class NotebookBar:
    """A bar below the cell, which disappears at the end."""

    def __init__(self, label: str, unit: str) -> None:
        from IPython.display import display

        self._label, self._unit = label, unit
        self._started, self._shown = time.monotonic(), -math.inf
        self._handle: Any = display(self._picture(""), display_id=True)

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""
        now = time.monotonic()
        if now - self._shown < _LEAST_SECONDS and step < n_steps:
            return
        self._shown = now
        seconds = now - self._started
        left = f", {seconds * (n_steps - step) / step:.0f} s left" if step else ""
        loss_text = "" if math.isnan(loss) else f", loss {loss:.4g}"
        words = html.escape(f"{self._label}: {step} of {n_steps} {self._unit}{loss_text}{left}")
        bar = f'<progress value="{step}" max="{n_steps}" style="width: 16em"></progress> '
        self._handle.update(self._picture(f"{bar}<span>{words}</span>"))

    def close(self) -> None:
        """Remove the bar."""
        self._handle.update(self._picture(""))

    @staticmethod
    def _picture(content: str) -> Any:
        from IPython.display import HTML

        return HTML(f"<div>{content}</div>")


def in_notebook() -> bool:
    """Whether the code runs in a notebook, which shows HTML."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextmanager
def no_bars() -> Iterator[None]:
    """Show no bars inside: a parent process shows one for all workers."""
    before = _is_enabled.set(False)
    try:
        yield
    finally:
        _is_enabled.reset(before)


@contextmanager
def progress_bar(
    label: str, enabled: bool | None = None, unit: str = "steps"
) -> Iterator[Progress]:
    """A bar on standard error, or below the cell of a notebook; by default only if there is one."""
    is_notebook = in_notebook()
    if enabled is None:
        enabled = is_notebook or sys.stderr.isatty()
    if not (enabled and _is_enabled.get()):
        yield Silent()
        return
    if is_notebook:
        notebook_bar = NotebookBar(label, unit)
        try:
            yield notebook_bar
        finally:
            notebook_bar.close()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Speed(ProgressColumn):
        """Units per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.1f} {unit}/s" if speed else "")

    bar = RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        Speed(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        yield _Bar(bar, label)


_LEAST_ANNOUNCED = 20.0  # of work that is announced

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
        if self._n_done == 1 and send is not None and seconds >= _LEAST_ANNOUNCED:
            send(f"Fitting {self._what}: about {duration(seconds)}")


# of the present work: called after each part
on_part: ContextVar[Callable[[], None] | None] = ContextVar("on_part", default=None)


@contextmanager
def work(n_parts: int, what: str, progress: bool | None = None) -> Iterator[None]:
    """Show the progress of some parts inside; ``progress`` as in :func:`progress_bar`."""
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
