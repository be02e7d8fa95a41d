"""Places to write to: looked at before hours of training, and filled together at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from deeplfm.errors import InputError

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
FIGURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")


def output_folder(path: Path, option: str) -> Path:
    """See that a folder is there or can be made, and that files can be written to it.

    Args:
        path: the folder.
        option: where the user gave it, for the message.
    """
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{option}: {path} is an existing file. Give a folder, or a new name.")
        there = next(place for place in (path, *path.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise InputError(
            f"{option}: cannot write to folder {path} ({error.strerror or error}). "
            "Give a folder in which you may create files."
        ) from error
    return path


def output_file(path: Path, option: str, suffixes: tuple[str, ...] = ()) -> Path:
    """See that a file can be written.

    Args:
        path: the file.
        option: where the user gave it, for the message.
        suffixes: those it may have; none for any.
    """
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder. Give the name of a file.")
    if suffixes and not path.name.lower().endswith(suffixes):
        raise InputError(
            f"{option}: the name {path} does not say what to write. Let it end in "
            f"{' or '.join(suffixes)}."
        )
    return output_folder(path.parent, option) / path.name


def model_folder(path: Path, option: str, overwrite: bool) -> Path:
    """See that a model can be saved, over another one only if the user says so."""
    output_folder(path, option)
    if path.exists() and any(path.iterdir()):
        if not (path / "model.json").exists():
            raise InputError(
                f"{option}: folder {path} holds other files and no deeplfm model. "
                "Give a new or empty folder."
            )
        if not overwrite:
            raise InputError(
                f"{option}: {path} already holds a model. Give another name, or --overwrite."
            )
    return path


class Outputs:
    """Files of results that appear together: all of them, or none where anything goes wrong.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "a.txt"
    ...     with Outputs() as outputs:
    ...         outputs.add(place, lambda path: path.write_text("whole"))
    ...         print(place.exists())
    ...     print(place.read_text())
    False
    whole
    """

    def __init__(self) -> None:
        self._staged: list[tuple[Path, Path]] = []
        self._scratch: list[Path] = []

    def add(self, path: Path | None, write: Callable[[Path], object]) -> None:
        """Let ``write`` make a file that will be at this path; nothing where there is none."""
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # beside its place, so that a rename is enough, and under its name, whose suffix has a meaning
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        self._scratch.append(scratch)
        write(scratch / path.name)
        self._staged.append((scratch / path.name, path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if error is None:
                for staged, path in self._staged:
                    staged.replace(path)
        finally:
            for scratch in self._scratch:
                shutil.rmtree(scratch, ignore_errors=True)
