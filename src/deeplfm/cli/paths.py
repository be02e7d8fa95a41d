"""Places to write to, checked before hours of training and not after."""

from __future__ import annotations

import tempfile
from pathlib import Path

from deeplfm.errors import InputError


def output_folder(path: Path, option: str) -> Path:
    """Make a folder if need be, and see that files can be written to it.

    Args:
        path: the folder.
        option: where the user gave it, for the message.
    """
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{option}: {path} is an existing file. Give a folder, or a new name.")
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(
            f"{option}: cannot write to folder {path} ({error.strerror or error}). "
            "Give a folder in which you may create files."
        ) from error
    return path


def output_file(path: Path, option: str) -> Path:
    """See that a file can be written, and make its folder if need be.

    Args:
        path: the file.
        option: where the user gave it, for the message.
    """
    folder = output_folder(path.parent, option)
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder. Give the name of a file.")
    return folder / path.name
