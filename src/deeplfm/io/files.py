"""Files that are complete or absent, the cache folder, and the versions that results depend on."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import deeplfm

_USER_CACHES = {"darwin": "~/Library/Caches", "win32": "~/AppData/Local"}
_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "gpytorch")


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
    """The folder for files that can be built or downloaded again.

    This is ``deeplfm`` in ``DEEPLFM_CACHE`` or in the user's cache; if that is not writable, a
    temporary folder, one per process.
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
    return _temporary_folder()


@cache
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="deeplfm-"))


def versions() -> dict[str, str]:
    """Versions of deeplfm, of Python and of the packages that affect numbers."""
    packages = {name: version(name) for name in _PACKAGES}
    return {"deeplfm": deeplfm.__version__, "python": platform.python_version(), **packages}
