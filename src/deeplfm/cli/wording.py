"""What the library says to those who call it from Python, in the words of the command line."""

from __future__ import annotations

import re

_OPTIONS = {
    **{name: f"--{name}" for name in ("duplicates", "zone", "times", "time", "until", "horizon")},
    **{name: f"--{name}" for name in ("start", "covariates", "decimal", "delimiter", "hidden")},
    "targets": "--target",
    "n_steps": "--n-steps",
    "n_features": "--n-features",
    "batch_size": "--batch-size",
    "time_limit": "--time-limit",
    "random_state": "--seed",
    "n_jobs": "--jobs",
}
_ARGUMENT = re.compile(
    rf"""(?<![\w.(/\\'"-])({"|".join(_OPTIONS)})=('[^']*'|"[^"]*"|[\w./+-]*\w)?"""
)


def as_options(message: str) -> str:
    """A message in which arguments of Python are options.

    >>> as_options("Remove one, or average them with duplicates='mean'.")
    'Remove one, or average them with --duplicates mean.'
    >>> as_options("Give the times themselves as times=.")
    'Give the times themselves as --times.'
    >>> as_options("Fit with log_targets=False.")
    'Fit with --no-log-targets.'
    >>> as_options("data/time=2024/x.csv: there is no such file.")
    'data/time=2024/x.csv: there is no such file.'
    """
    message = message.replace("log_targets=False", "--no-log-targets")

    def option(found: re.Match[str]) -> str:
        value = found[2] or ""
        plain = value[1:-1] if value[:1] in ("'", '"') else value
        return f"{_OPTIONS[found[1]]} {value if ' ' in plain else plain}".rstrip()

    return _ARGUMENT.sub(option, message)
