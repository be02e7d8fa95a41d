"""Printed output: text and tables for people, or one JSON object for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from deeplfm.cli.options import OutputOptions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LEAST_WIDTH = 100  # of a table that goes to a file or a pipe


class Terminal:
    """Prints the output of one command."""

    def __init__(self, options: OutputOptions, table_on_stdout: bool = False) -> None:
        self._wants_json = options.json
        self._is_silent = options.json or getattr(options, "quiet", False)
        self._to_stderr = table_on_stdout

    def print(self, *lines: Any) -> None:
        """Print text and tables for people."""
        if not self._is_silent:
            output = console(self._to_stderr)
            for line in lines:
                output.print(line, markup=False, highlight=False, soft_wrap=isinstance(line, str))

    def print_json(self, content: Mapping[str, Any]) -> None:
        """Print the JSON object of ``--json``."""
        if self._wants_json:
            sys.stdout.write(json.dumps(plain(content), indent=2, allow_nan=False) + "\n")


def console(to_stderr: bool = False) -> Console:
    """A console at least 100 columns wide, unless it is a window."""
    from rich.console import Console

    made = Console(stderr=to_stderr)
    if made.is_terminal:
        return made
    return Console(stderr=to_stderr, width=max(_LEAST_WIDTH, made.width))


def table(
    headers: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None, words: int = 1
) -> Table:
    """A table whose first columns are words and whose other columns are numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAVY)
    for i, header in enumerate(headers):
        made.add_column(header, justify="left" if i < words else "right", no_wrap=i >= words)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, str) else number(cell) for cell in row))
    return made


def number(value: Any) -> str:
    """A number with three digits; a dash where it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def plain(value: Any) -> Any:
    """Any value as JSON can hold it: NaN is null, times are text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | None) else str(value)
