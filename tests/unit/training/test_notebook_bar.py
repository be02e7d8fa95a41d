"""The progress bar of a notebook."""

import math
from typing import Any

import pytest

pytest.importorskip("IPython")

from deeplfm.training import progress


class Handle:
    def __init__(self) -> None:
        self.pictures: list[str] = []

    def update(self, picture: Any) -> None:
        self.pictures.append(picture.data)


def test_the_bar_shows_steps_and_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Handle()
    monkeypatch.setattr("IPython.display.display", lambda picture, display_id: handle)
    monkeypatch.setattr(progress, "_LEAST_SECONDS", 0)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    with progress.progress_bar("a < b") as bar:
        bar.update(0, 4, math.nan)
        bar.update(2, 4, 0.5)
    assert 'value="2" max="4"' in handle.pictures[1]
    assert "a &lt; b: 2 of 4 steps, loss 0.5" in handle.pictures[1]
    assert handle.pictures[-1] == "<div></div>"


def test_this_is_no_notebook() -> None:
    assert not progress.in_notebook()
