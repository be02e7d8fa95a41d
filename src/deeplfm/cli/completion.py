"""What the shell offers when a user presses tab; nothing slow is imported here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def complete_models(incomplete: str) -> Iterator[str]:
    """Folders of models that begin with what was typed, and folders that may hold some."""
    folder, _, beginning = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    for path in sorted(place.glob("*/")):
        if path.name.startswith(beginning) and (beginning or not path.name.startswith(".")):
            shown = incomplete.removesuffix(beginning) + path.name
            yield shown if (path / "model.json").exists() else f"{shown}/"


def complete_datasets(incomplete: str) -> list[str]:
    """Names of data sets that begin with what was typed."""
    from deeplfm.data.catalogue import available

    return [entry.name for entry in available() if entry.name.startswith(incomplete)]
