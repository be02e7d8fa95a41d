"""Tables in text: bytes of any common encoding and dialect become a frame."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy import ndarray

from deeplfm.data.delimiters import (
    BLANK,
    describe,
    guess_decimal,
    guess_delimiter,
    records,
    single_blanks,
)
from deeplfm.data.numbers import (
    FIRST_LINE,
    FORMULA,
    MISSING,
    check_names,
    is_number,
    with_columns,
    with_floats,
)
from deeplfm.errors import InputError

NAMELESS = "column {}"  # by its place
FIELDS = "fields"  # in the attributes of a frame: its text, as :class:`Fields`
_FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\x89HDF": "an HDF5 file",
}
_HINT = re.compile(rb'"?sep=(.)"?(?=\n)', re.IGNORECASE)  # the first line of some spreadsheets' CSV
_ESCAPED = tuple(f"'{sign}" for sign in FORMULA)
_VALUE = re.compile(rb'[^\s,;|"]')
_CONTROL = bytes([*range(0x09), *range(0x0E, 0x20)])
# From version 3.1 on pandas reads floats exactly by default, and the option has a warning.
_IS_EXACT = tuple(int(part) for part in pd.__version__.split(".")[:2]) >= (3, 1)
_EXACT = {} if _IS_EXACT else {"float_precision": "round_trip"}


@dataclass(frozen=True, eq=False)
class Fields:
    """A table in text, kept so that results can change a few fields and leave the others alone."""

    text: bytes
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    n_named: int

    def __deepcopy__(self, memo: Any) -> Fields:
        return self  # frames copy their attributes

    def filled(self, frame: pd.DataFrame, gaps: Mapping[str, Bool[ndarray, " N"]]) -> pd.DataFrame:
        """All fields as they are written, except that gaps get the numbers of a frame.

        Args:
            frame: the same rows. Its columns that are not in the text are added; columns of the text
                that it lacks, such as the time, come first.
            gaps: which rows to fill, by column.
        """
        written = pd.read_csv(
            io.BytesIO(self.text),
            sep=self.delimiter,
            header=0,
            names=list(self.names),
            index_col=False,
            skipinitialspace=True,
            dtype=str,
            na_filter=False,
        ).iloc[: len(frame), : self.n_named]
        columns = {name: written[name].to_numpy(object) for name in written.columns}
        for name in frame.columns:
            if name in gaps:
                columns[name] = np.where(gaps[name], self._numbers(frame[name]), columns[name])
            elif name not in columns:
                columns[name] = self._numbers(frame[name])
        index = [name for name in written.columns if name not in frame.columns]
        return pd.DataFrame(columns)[[*index, *frame.columns]]

    def _numbers(self, column: pd.Series) -> ndarray:
        """Numbers with all their digits, missing ones empty."""
        texts = ["" if pd.isna(x) else repr(float(x)).replace(".", self.decimal) for x in column]
        return np.array(texts, dtype=object)


@dataclass(frozen=True)
class _Layout:
    """Names of the columns, how many the file names, and the line of the first row.

    The line is ``None`` where blank lines or fields of several lines move the rows that follow.
    """

    names: list[str]
    n_named: int
    first_line: int | None


def parse_text(
    content: bytes,
    source: str,
    delimiter: str | None,
    decimal: str | None,
    fewest_columns: int = 2,
    keep_fields: bool = False,
) -> pd.DataFrame:
    """The table in a text; a delimiter or decimal mark that is not given is found from the content."""
    text = _utf8(content, source)
    if _VALUE.search(text) is None:
        raise InputError(f"{source}: the file is empty. Give a line of column names, and rows.")
    if hint := _HINT.match(text):
        text = text[hint.end() :]  # leaves the end of the line, so that lines keep their numbers
        delimiter = delimiter or hint[1].decode()
    separator = guess_delimiter(text) if delimiter is None else delimiter
    if separator is None and fewest_columns > 1:
        raise _one_column(text, source, None)
    separator = separator or ","
    if separator == BLANK:
        text = single_blanks(text)
    try:
        layout = _layout(text, source, separator, fewest_columns)
    except csv.Error as error:
        raise _unreadable(source, str(error)) from error
    mark = guess_decimal(text, separator, source) if decimal is None else decimal
    try:
        frame = pd.read_csv(
            io.BytesIO(text),
            sep=separator,
            decimal=mark,
            header=0,
            names=layout.names,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,  # the type of a column is decided once, by all its values
            na_values=sorted(MISSING),
            **_EXACT,
        )
        columns = {name: _tidy(column, mark) for name, column in frame.items()}
    except pd.errors.ParserError as error:
        raise _unreadable(source, str(error)) from error
    except OverflowError as error:  # an integer of 309 digits or more
        raise InputError(
            f"{source}: a whole number is larger than 10^308. Remove it, or leave its field empty to "
            "mark it as missing."
        ) from error
    frame = with_floats(_without_margins(with_columns(frame, columns), layout))
    if not len(frame):
        raise _no_rows(source)
    if keep_fields and separator != BLANK:  # where an empty field cannot be written
        frame.attrs[FIELDS] = Fields(text, separator, mark, tuple(layout.names), layout.n_named)
    if layout.first_line is not None:
        frame.attrs[FIRST_LINE] = layout.first_line
    return frame


def _utf8(content: bytes, source: str) -> bytes:
    """The text in UTF-8 without a byte order mark, its lines ended by line feeds."""
    for magic, kind in _FOREIGN.items():
        if content.startswith(magic):
            raise InputError(f"{source}: this is {kind}, not text. Save the table as CSV.")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    elif len(content) != len(content.translate(None, delete=_CONTROL)):
        first = next(place for place, byte in enumerate(content) if byte in _CONTROL)
        raise InputError(
            f"{source}: not a text file (byte {content[first]:02x} at position {first}). "
            "Give CSV or Parquet."
        )
    else:
        encodings = ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return text.replace("\r\n", "\n").replace("\r", "\n").encode()
    raise InputError(f"{source}: not a whole UTF-16 text. Save the table again, as UTF-8.")


def _layout(text: bytes, source: str, delimiter: str, fewest_columns: int) -> _Layout:
    """Names and number of the columns; a line that does not fit is refused by its number."""
    rows = records(text, delimiter)
    header_line, header = next(rows)
    while len(header) > 1 and not header[-1].strip():
        del header[-1]  # lines that end in a delimiter
    if len(header) < fewest_columns:
        raise _one_column(text, source, delimiter)
    width, n_rows, last_line = len(header), 0, header_line
    for last_line, fields in rows:
        n_rows += 1
        if len(fields) == len(header):
            continue
        # A missing field between blanks leaves no trace, and would move those that follow.
        if any(fields[len(header) :]) or (delimiter == BLANK and len(fields) < len(header)):
            raise InputError(
                f"{source}: fields in line {last_line}: {len(fields)}, but the first line names "
                f"{len(header)} columns (delimiter: {describe(delimiter)}). Correct the line, put "
                "fields that hold the delimiter in quotes, or try another --delimiter."
            )
        width = max(width, len(fields))
    if not n_rows:
        raise _no_rows(source)
    is_regular = last_line == header_line + n_rows
    names = _names(header + [""] * (width - len(header)), source)
    return _Layout(names, len(header), header_line + 1 if is_regular else None)


def _names(header: list[str], source: str) -> list[str]:
    """Names of the columns, with one for those that have none."""
    stripped = [name.strip() for name in header]
    stripped = [name[1:] if name.startswith(_ESCAPED) else name for name in stripped]
    if all(is_number(name.replace(",", ".")) for name in stripped if name):
        raise InputError(
            f"{source}: the first line holds numbers ({', '.join(stripped[:3])}) in place of the "
            "names of the columns. Add a line of names at the top."
        )
    names = [name or NAMELESS.format(place) for place, name in enumerate(stripped, start=1)]
    check_names(names, source)
    return names


def _tidy(column: pd.Series, decimal: str) -> pd.Series:
    """Text without blanks around it, as numbers where it is nothing else."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "integer":  # too large for 64 bits
        return column.astype(np.float64)
    if kind != "string":
        return column
    stripped = column.str.strip()
    known = stripped.mask(stripped.isin(MISSING))
    plain = known.str.replace(decimal, ".", regex=False) if decimal == "," else known
    if plain.dropna().map(is_number).all():
        return plain.astype(np.float64)
    return known


def _without_margins(frame: pd.DataFrame, layout: _Layout) -> pd.DataFrame:
    """The table without columns that have neither name nor values, and empty rows at its end."""
    named = frame.iloc[:, : layout.n_named]
    has_values = named.notna().any(axis=1).to_numpy()
    return named.iloc[: has_values.nonzero()[0].max(initial=-1) + 1]


def _one_column(text: bytes, source: str, delimiter: str | None) -> InputError:
    """The error of a file that was not cut into columns."""
    start = text.lstrip()[:40].partition(b"\n")[0].decode(errors="ignore")
    if delimiter is None:
        return InputError(
            f"{source}: only one column found ({start!r}): no comma, semicolon, tab, pipe or blank "
            "separates others. Give at least two columns, or try --delimiter."
        )
    better = guess_delimiter(text)
    advice = "Give at least two columns, or try another --delimiter."
    if better not in (None, delimiter):
        advice = f"It looks like {describe(better)}: try --delimiter {describe(better)}."
    return InputError(
        f"{source}: only one column found ({start!r}) with delimiter {describe(delimiter)}. {advice}"
    )


def _no_rows(source: str) -> InputError:
    return InputError(f"{source}: column names, but no rows below them. Give at least one row.")


def _unreadable(source: str, reason: str) -> InputError:
    return InputError(
        f"{source}: cannot be cut into fields ({reason.strip().rstrip('.')}). "
        "Check that every quote is closed."
    )
