"""Files that are complete or absent, the cache folder, and the versions that results depend on."""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from pathlib import Path

import deeplfm
from deeplfm.errors import InputError, ModelFileError

_USER_CACHES = {"darwin": "~/Library/Caches", "win32": "~/AppData/Local"}
_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "gpytorch")
_UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{8}\.unfinished")
_OLD = 3600.0  # seconds: a file that nobody has written to for so long is of a killed run
_held: ContextVar[frozenset[tuple[int, int]]] = ContextVar("held", default=frozenset())


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside the path, flush it to disk, rename it into place.

    The file has the permissions of any new file of this user. One that a killed run has left beside it
    is removed once it is old.
    """
    remove_unfinished(path.parent, lambda name: name == path.name)
    temporary = unfinished(path)
    try:
        # Made here, so that a reader of a shared folder cannot have put a link in its place.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a system's error while a file of the user is written into one that names this file."""
    try:
        yield
    except (OSError, InputError) as error:  # the latter of a scratch file in its place
        cause = error.__cause__ if isinstance(error, InputError) else error
        if not isinstance(cause, OSError):
            raise
        raise InputError(
            f"{path}: cannot be written ({cause.strerror or cause}). Give a file in a folder that "
            "exists, that you may write to and that has space. A file that was there before is kept."
        ) from cause


def unfinished(path: Path) -> Path:
    """A name beside a path for what is not complete yet; see :func:`remove_unfinished`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")


def remove_unfinished(
    folder: Path, is_ours: Callable[[str], bool], older_than: float = _OLD
) -> None:
    """Remove what killed runs have left in a folder.

    Args:
        folder: where to look.
        is_ours: by the name that it would have got.
        older_than: seconds since the last change, so that nothing is removed that is being written.
    """
    latest = time.time() - older_than
    with suppress(OSError):
        for entry in os.scandir(folder):
            found = _UNFINISHED.fullmatch(entry.name)
            with suppress(OSError):
                if not (found and is_ours(found[1])) or entry.stat().st_mtime > latest:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)


def is_unfinished(name: str, is_ours: Callable[[str], bool]) -> bool:
    """Whether a name is that of a file that a killed run has left."""
    found = _UNFINISHED.fullmatch(name)
    return found is not None and is_ours(found[1])


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of limited size: a pipe would wait, a device never end."""
    if path.exists() and not path.is_file():
        raise OSError(None, "it is not a regular file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    check_size(path, len(content), most, ModelFileError, "load")
    return content


def check_size(path: Path, n_bytes: int, most: int, kind: type[Exception], verb: str) -> None:
    """Refuse a file of a model that is larger than what is read."""
    if n_bytes > most:
        raise kind(
            f"{verb}: {path} has more than {most // 2**20} MiB, the largest size that is read. Fit a "
            "smaller model, or fewer rows."
        )


def flush_folder(folder: Path) -> None:
    """Write the names in a folder to disk, where the system can: a rename lasts only then."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(folder: Path, blocking: bool = True) -> Iterator[bool]:
    """Hold a folder's lock, which ends with this process; yields whether it is held.

    Work inside may lock the folder again, so that a model can be read, changed and saved under one lock.

    Args:
        folder: it gets no file for its lock. Some network file systems cannot lock a folder.
        blocking: wait for another process to release it; otherwise raise an error.
    """
    try:
        import fcntl
    except ImportError:  # not on this system
        yield False
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(
            f"{folder}: the folder cannot be read ({error.strerror}). Give one that you may write to."
        ) from error
    place = (os.fstat(handle).st_dev, os.fstat(handle).st_ino)
    before = _held.get()
    try:
        if place in before and blocking:
            yield True
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise InputError(
                f"{folder}: another process is using this folder. Wait for its end, or give another one."
            ) from error
        except OSError:
            yield False
        else:
            _held.set(before | {place})
            yield True
    finally:
        _held.set(before)
        os.close(handle)


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    return temporary_folder()


def private_folder(name: str) -> Path:
    """A folder in the cache that nobody else can write to or read, for files that are executed.

    One that belongs to someone else, or that is a link, is not used; a temporary folder is.
    """
    folder = cache_folder() / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if _is_own(folder):
            folder.chmod(0o700)
            return folder
    except OSError:
        pass
    return temporary_folder()


def is_private(path: Path) -> bool:
    """Whether a file or folder is this user's, is no link, and can be written by nobody else."""
    return _is_own(path) and not path.lstat().st_mode & 0o022


def _is_own(path: Path) -> bool:
    if not hasattr(os, "geteuid"):  # not on this system
        return True
    return not path.is_symlink() and path.lstat().st_uid == os.geteuid()


@cache
def temporary_folder() -> Path:
    """A folder of this process, which is removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="deeplfm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def versions() -> dict[str, str]:
    """Versions of deeplfm, of Python and of the packages that affect numbers."""
    packages = {name: version(name) for name in _PACKAGES}
    return {"deeplfm": deeplfm.__version__, "python": platform.python_version(), **packages}
