"""Digest of the source code that computed a result."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import deeplfm

# Records have the data and settings of an experiment themselves; the others only present results.
_ASIDE = ("cli", "plots", "report", "experiments")


@cache
def source_digest() -> str:
    """Twelve letters that change with the code of the models, read once in each process."""
    root = Path(deeplfm.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        if path.suffix in (".py", ".cpp") and place.parts[0] not in _ASIDE:
            digest.update(place.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
