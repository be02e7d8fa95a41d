"""The delimiter and the decimal mark of a text file, found from its content."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from deeplfm.errors import ConfigError, InputError

BLANK = " "

_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": BLANK}
_CANDIDATES = "\t;|,"  # the comma last: it may also mark decimals
_SAMPLE_ROWS = 100
_LEAST_FIT = 0.5  # share of the sampled rows that must have as many fields as the header

_COMMA = rb"[+-]?\d*,\d+(?:[eE][+-]?\d+)?"
_POINT = rb"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?"
_THOUSANDS = rb"[+-]?[1-9]\d{0,2},\d{3}"  # or three decimals


def check_delimiter(delimiter: str) -> str:
    r"""The character a user means by ``,``, ``comma``, ``\t`` or ``tab``."""
    found = _NAMES.get(delimiter.lower(), delimiter)
    if len(found) != 1 or found in '"\n\r' or found.isalnum():
        raise ConfigError(
            f"delimiter: {delimiter!r} found. Give one character, such as ';', or one of "
            "comma, semicolon, tab, pipe and space."
        )
    return found


def check_decimal(decimal: str) -> str:
    """The decimal mark, which is a point or a comma."""
    if decimal not in (".", ","):
        raise ConfigError(f"decimal: {decimal!r} found. Give '.' or ','.")
    return decimal


def describe(delimiter: str) -> str:
    """A delimiter in words."""
    return next((name for name, value in _NAMES.items() if value == delimiter), repr(delimiter))


def single_blanks(text: bytes) -> bytes:
    """One blank between fields and none around a line, as runs of blanks and tabs are one gap."""
    return re.sub(rb"[ \t]+", b" ", re.sub(rb"^[ \t]+|[ \t]+$", b"", text, flags=re.M))


def records(text: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Fields of each line that is not blank, with the number of the line they begin in."""
    lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", newline="")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    line = 1
    for fields in reader:
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield line, fields
        line = reader.line_num + 1


def guess_delimiter(text: bytes) -> str | None:
    """The delimiter that cuts the header and most rows into equally many fields, if there is one.

    Runs of blanks count only where nothing else does: texts and times hold blanks, too.
    """
    fits = {candidate: _fit(text, candidate) for candidate in _CANDIDATES}
    best = max(_CANDIDATES, key=fits.__getitem__)
    if fits[best] >= _LEAST_FIT:
        return best
    sample = b"\n".join(text.split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS])
    return BLANK if _fit(single_blanks(sample), BLANK) >= _LEAST_FIT else None


def _fit(text: bytes, delimiter: str) -> float:
    """Share of sampled rows with as many fields as the header; 0 if that has only one."""
    sample: list[list[str]] = []
    with suppress(csv.Error):  # a quote that is never closed; reading reports it
        sample.extend(fields for _, fields in islice(records(text, delimiter), _SAMPLE_ROWS))
    width = len(sample[0]) if sample else 0
    if width < 2:
        return 0.0
    fitting = [len(row) >= width and not any(row[width:]) for row in sample]
    return sum(fitting[1:]) / (len(sample) - 1) if len(sample) > 1 else 1.0


def guess_decimal(text: bytes, delimiter: str, source: str) -> str:
    """The decimal mark: a comma if some numbers have one and none has a point.

    Where both occur the point is taken, and the columns with commas remain text: 1,234 must not become
    1.234 silently. Files with semicolons come from places that write decimal commas; elsewhere 1,234
    alone could be either.
    """
    if (b'"' if delimiter == "," else b",") not in text:
        return "."  # as in most files, and found much faster than below
    comma = _cell(_COMMA, delimiter).search(text)
    if comma is None or _cell(_POINT, delimiter).search(text) is not None:
        return "."
    decided = rb"(?!" + _THOUSANDS + rb"(?:\D|\Z))" + _COMMA
    if delimiter != ";" and _cell(decided, delimiter).search(text) is None:
        raise InputError(
            f"{source}: the comma in {comma['number'].decode()!r} may mark decimals or thousands. "
            "Choose with --decimal ',' or, for thousands, --decimal '.'."
        )
    return ","


def _cell(number: bytes, delimiter: str) -> re.Pattern[bytes]:
    """Matches a number that fills a field; one with the delimiter inside must stand in quotes."""
    edge = re.escape(delimiter.encode())
    quote = rb'"' if delimiter == "," and number is not _POINT else rb'"?'
    return re.compile(
        rb"(?:^|" + edge + rb") *" + quote + rb"(?P<number>" + number + rb")" + quote
        + rb" *(?=$|" + edge + rb")",
        re.M,
    )  # fmt: skip
