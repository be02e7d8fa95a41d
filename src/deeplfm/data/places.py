"""Where files of data sets are looked for: the user's folder, the cache, and then the internet."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from deeplfm.errors import InputError
from deeplfm.io.files import cache_folder, write_whole

_SHA256 = re.compile(r"[0-9a-f]{64}\b")
FOLDER = "DEEPLFM_DATA"  # environment variable that names the user's folder


@dataclass(frozen=True)
class File:
    """A file of a data set, and its checksum where that is known in advance."""

    name: str
    sha256: str | None = None


def find(file: File) -> Path | None:
    """The file in the user's folder or in the cache, not yet checked."""
    folders = [folder for folder in (user_folder(), data_cache()) if folder is not None]
    paths = (folder / file.name for folder in folders)
    return next((path for path in paths if path.exists()), None)


def user_folder() -> Path | None:
    """The folder that ``DEEPLFM_DATA`` names, if it is set."""
    name = os.environ.get(FOLDER)
    if not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputError(f"{FOLDER}: there is no folder {name}. Correct the variable, or unset it.")
    return folder


def data_cache() -> Path:
    """The folder of downloaded data."""
    folder = cache_folder() / "data"
    folder.mkdir(exist_ok=True)
    return folder


def sealed(path: Path) -> Path:
    """Keep the checksum of a file beside it, for :func:`checked`."""
    text = f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
    write_whole(_seal(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def checked(path: Path, file: File) -> Path:
    """The path, if what is there has the checksum of the file, or the one it was kept with."""
    try:
        expected = file.sha256
        if expected is None and _seal(path).exists():
            sealed_as = _SHA256.match(_seal(path).read_text(encoding="utf-8"))
            expected = None if sealed_as is None else sealed_as[0]
        if expected is None:
            return path
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}). Check that you may read it."
        ) from error
    if found != expected:
        raise InputError(
            f"{path}: sha256 {found[:12]}… found, {expected[:12]}… expected. The file is "
            "damaged or another version: put the right one in its place, or remove it."
        )
    return path


def _seal(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def import_extra(module: str, dataset: str, otherwise: str) -> Any:
    """A package of the extra ``download``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # theirs, of pandas
            return import_module(module)
    except ImportError as error:
        raise InputError(
            f"data set {dataset}: not found here, and {module}, which downloads it, is not "
            f'installed. Run pip install "deeplfm[download]", or {otherwise}.'
        ) from error


def not_obtained(dataset: str, error: Exception, otherwise: str) -> InputError:
    """The error of a data set that could not be read or downloaded."""
    reason = " ".join(str(error).split())
    shown = reason if len(reason) <= 160 else f"{reason[:160]}…"
    return InputError(
        f"data set {dataset}: cannot be read or downloaded ({type(error).__name__}: {shown}). "
        f"Check the connection, or {otherwise}."
    )
