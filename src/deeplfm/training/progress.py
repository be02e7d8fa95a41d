"""A progress bar that shows loss, speed and time left, and is silent when nobody watches."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class _Audience:
    is_there = True


class Progress(Protocol):
    """What the training loop reports to."""

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""


class Silent:
    """Reports nothing."""

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""


class _Bar:
    def __init__(self, bar: object, label: str) -> None:
        self._bar, self._label, self._task = bar, label, None

    def update(self, step: int, n_steps: int, loss: float) -> None:
        """One step is done."""
        if self._task is None:
            self._task = self._bar.add_task(self._label, total=n_steps, loss="")  # type: ignore[attr-defined]
        self._bar.update(  # type: ignore[attr-defined]
            self._task,
            completed=step,
            total=n_steps,
            loss="" if math.isnan(loss) else f"loss {loss:.4g}",
        )


@contextmanager
def no_bars() -> Iterator[None]:
    """Show no bars inside: another process shows one for all."""
    before, _Audience.is_there = _Audience.is_there, False
    try:
        yield
    finally:
        _Audience.is_there = before


@contextmanager
def progress_bar(
    label: str, enabled: bool | None = None, unit: str = "steps"
) -> Iterator[Progress]:
    """A bar on standard error; by default only when that is a terminal."""
    if enabled is None:
        enabled = sys.stderr.isatty()
    if not (enabled and _Audience.is_there):
        yield Silent()
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
