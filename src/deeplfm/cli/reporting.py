"""How commands fail and warn: one line on standard error, and a telling exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from deeplfm.cli.wording import as_options
from deeplfm.errors import DeepLFMError, ModelFileError, TrainingDivergedError

BUG, BAD_INPUT, DIVERGED, BAD_FILE, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 4, 130, 141


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
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            yield
    except typer.Exit:
        raise
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(CLOSED_PIPE) from None
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        complain(_line(error))
        raise typer.Exit(exit_code(error)) from None


def complain(message: str, kind: str = "error") -> None:
    """One line on standard error, in the words of the command line."""
    print(f"{kind}:", as_options(" ".join(message.split())), file=sys.stderr)


def usage_message(error: Any) -> str | None:
    """What is wrong with a command line, or None where the error is of another kind."""
    if not hasattr(error, "format_message"):
        return None
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    near = getattr(error, "possibilities", None)  # of an unknown option, the nearest first
    if near:
        message = f"{error.message}. Did you mean {near[0]}?"
    found = next((item["input"] for item in _causes(error)), None)
    if found is not None and repr(found) not in message:
        message += f", found {found!r}"
    message += "" if message.endswith("?") else "."
    context = getattr(error, "ctx", None)
    parameter = getattr(error, "param", None)
    if context is not None and parameter is not None:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "DEFAULT_MAP":
            message = f"--config: {context.params.get('config')}: {message}"
    return f"{message} See {context.command_path if context else 'deeplfm'} --help."


def _causes(error: BaseException) -> list[dict[str, Any]]:
    """What was checked in vain, where the parser says so."""
    cause: Any = error.__cause__
    return cause.errors() if hasattr(cause, "errors") else []


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    complain(str(message), kind="warning")


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted."
    if isinstance(error, DeepLFMError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}. This is a bug in deeplfm; --debug shows where."
