"""Completion of arguments in the shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def complete_models(incomplete: str) -> Iterator[str]:
    """Saved models whose folder begins with the typed text, and folders that may hold some."""
    folder, _, beginning = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    for path in sorted(place.glob("*/")):
        if path.name.startswith(beginning) and (beginning or not path.name.startswith(".")):
            shown = incomplete.removesuffix(beginning) + path.name
            yield shown if (path / "model.json").exists() else f"{shown}/"


def complete_model(incomplete: str) -> Iterator[str]:
    """Names of models, and of terms after the last plus."""
    from deeplfm.estimators.candidates import NAMES
    from deeplfm.terms import NAMED_MODELS, TERMS

    before, plus, term = incomplete.rpartition("+")
    blank = " " if term.startswith(" ") else ""
    names = TERMS if plus else {**dict.fromkeys(NAMES), **NAMED_MODELS, **TERMS}
    for name in names:
        if name.startswith(term.strip()):
            yield f"{before}{plus}{blank}{name}"
