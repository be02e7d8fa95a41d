"""Errors and warnings on the command line: one line on standard error, and an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from deeplfm.errors import ConfigError, DeepLFMError, ModelFileError, TrainingDivergedError

BUG, BAD_INPUT, DIVERGED, BAD_FILE, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 4, 130, 141

_SAME_NAME = (
    "duplicates zone times time until horizon model device dtype covariates decimal delimiter "
    "checkpoint calendar holidays floor cap level coverage series pooled static backend fallback"
)
_OPTIONS = {name: f"--{name}" for name in _SAME_NAME.split()} | {
    "targets": "--target",
    "missing_values": "--missing",
    "n_steps": "--n-steps",
    "batch_size": "--batch-size",
    "time_limit": "--time-limit",
    "random_state": "--seed",
    "n_jobs": "--jobs",
}
_ARGUMENT = re.compile(
    rf"""(?<![\w.(/\\'"-])({"|".join(_OPTIONS)})=('[^']*'|"[^"]*"|[\w./+-]*\w)?"""
)


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Turn an exception into one line and an exit code; ``debug`` adds the traceback."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print_error(str(message), "warning")
            yield
    except typer.Exit:
        raise
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(CLOSED_PIPE) from None
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        code, message = _code_and_message(error)
        print_error(message)
        raise typer.Exit(code) from None


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the work inside as Ctrl-C does, with what it cleans up."""
    is_main = threading.current_thread() is threading.main_thread()
    is_set = is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if is_set:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if is_set:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def print_error(message: str, kind: str = "error") -> None:
    """Print one line on standard error, with options in place of Python arguments."""
    print(f"{kind}:", as_options(" ".join(message.split())), file=sys.stderr)


def _code_and_message(error: BaseException) -> tuple[int, str]:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted."
    if isinstance(error, TrainingDivergedError):
        return DIVERGED, str(error)
    if isinstance(error, ModelFileError):
        return BAD_FILE, str(error)
    if isinstance(error, ConfigError):
        where, colon, rest = str(error).partition(": ")
        return BAD_INPUT, f"{_OPTIONS.get(where, where)}{colon}{rest}"
    if isinstance(error, DeepLFMError | OSError):
        return BAD_INPUT, str(error)
    return BUG, f"{type(error).__name__}: {error}. This is a bug in deeplfm; --debug shows where."


def as_options(message: str) -> str:
    """A message in which Python arguments are written as options.

    >>> as_options("Remove one, or average them with duplicates='mean'.")
    'Remove one, or average them with --duplicates mean.'
    >>> as_options("Give the times themselves as times=.")
    'Give the times themselves as --times.'
    >>> as_options("Fit with log_targets=False.")
    'Fit with --no-log-targets.'
    >>> as_options("Repeat the last season with fallback=True, or pooled=True.")
    'Repeat the last season with --fallback, or --pooled.'
    >>> as_options("data/time=2024/x.csv: there is no such file.")
    'data/time=2024/x.csv: there is no such file.'
    """
    message = message.replace("log_targets=False", "--no-log-targets")

    def option(found: re.Match[str]) -> str:
        value = "" if found[2] in (None, "True") else found[2]
        plain = value[1:-1] if value[:1] in ("'", '"') else value
        return f"{_OPTIONS[found[1]]} {value if ' ' in plain else plain}".rstrip()

    return _ARGUMENT.sub(option, message)


def usage_message(error: Any) -> str | None:
    """The message for a command line that cannot be parsed; ``None`` for other errors."""
    if not hasattr(error, "format_message"):
        return None
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    near = getattr(error, "possibilities", None)  # of an unknown option, the nearest first
    if near:
        message = f"{error.message}. Did you mean {near[0]}?"
    cause: Any = error.__cause__
    found = next((item["input"] for item in getattr(cause, "errors", list)()), None)
    if found is not None and repr(found) not in message:
        message += f", found {found!r}"
    message += "" if message.endswith("?") else "."
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is not None and parameter is not None:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "DEFAULT_MAP":
            message = f"--config: {context.params.get('config')}: {message}"
    return f"{message} See {context.command_path if context else 'deeplfm'} --help."
