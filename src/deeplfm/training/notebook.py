"""A progress bar in a notebook."""

from __future__ import annotations

import html
import math
import time
from typing import Any

_LEAST_SECONDS = 0.2  # between two pictures of the bar


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
