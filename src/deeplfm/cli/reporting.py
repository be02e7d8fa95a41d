"""How commands fail: one line on standard error and a telling exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from deeplfm.errors import DeepLFMError, ModelFileError, TrainingDivergedError

BUG, BAD_INPUT, DIVERGED, BAD_FILE, INTERRUPTED = 1, 2, 3, 4, 130


def exit_code(error: BaseException) -> int:
    """Which exit code an error deserves."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, TrainingDivergedError):
        return DIVERGED
    if isinstance(error, ModelFileError):
        return BAD_FILE
    return BAD_INPUT if isinstance(error, DeepLFMError | OSError) else BUG


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Turn whatever goes wrong inside into one line and an exit code; debug adds a traceback."""
    try:
        yield
    except typer.Exit:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        complain(_line(error))
        raise typer.Exit(exit_code(error)) from None


def complain(message: str) -> None:
    """One line on standard error."""
    print("error:", " ".join(message.split()), file=sys.stderr)


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted."
    if isinstance(error, DeepLFMError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}. This is a bug in deeplfm; --debug shows where."
