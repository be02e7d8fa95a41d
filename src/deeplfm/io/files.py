"""Files that are whole or not there, and the folder for those that can be made again."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

_USER_CACHES = {"darwin": "~/Library/Caches", "win32": "~/AppData/Local"}


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside the path, flush it to disk, rename it into place."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where things are kept that can be made or downloaded again.

    This is the folder deeplfm in ``DEEPLFM_CACHE`` or in the user's cache; where that is closed, a
    scratch folder, one for the whole process.
    """
    user = _USER_CACHES.get(sys.platform, "~/.cache")
    root = os.environ.get("DEEPLFM_CACHE") or os.environ.get("XDG_CACHE_HOME") or user
    try:
        folder = Path(root).expanduser() / "deeplfm"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    return _scratch_folder()


@cache
def _scratch_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="deeplfm-"))
