"""Tables from and to files: CSV in its many forms, compressed or not, and Parquet."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from deeplfm.data.delimiters import check_decimal, check_delimiter
from deeplfm.data.numbers import (
    FORMULA,
    check_names,
    numeric_column,
    source_name,
    with_columns,
    with_floats,
)
from deeplfm.data.text import parse_text
from deeplfm.errors import MISUSES, InputError
from deeplfm.io.files import write_whole, writing

__all__ = ["numeric_column", "read_table", "write_table"]

_FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
# A table is read into memory, several times its size in text.
MOST_BYTES = 2**30
_MOST_RATIO, _ALWAYS_ALLOWED = 100, 2**26  # of a gzip file: a text shrinks to a tenth, seldom more
_MOST_PARQUET_VALUES = 2**28


def read_table(
    source: str | Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    fewest_columns: int = 2,
    keep_fields: bool = False,
) -> pd.DataFrame:
    r"""Read a table from a file, or from standard input.

    The format is found from the content: Parquet, or text in UTF-8, UTF-16 or Latin-1 with
    the delimiter comma, semicolon, tab, pipe or blanks, a decimal point or comma, gzipped or not.
    The first line names the columns. Numbers become float64; empty fields and marks such as NA, null
    and - become NaN; everything else, dates included, remains text.

    Args:
        source: the file; ``-`` is standard input.
        delimiter: between fields: a character, or comma, semicolon, tab, pipe or space.
        decimal: ``.`` or ``,``.
        fewest_columns: fewer are an error, as of a text whose delimiter was not found.
        keep_fields: leave the fields of a text, as they are written, in the attributes of the table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vitals.csv"
    ...     _ = path.write_text("time;abp\n0,5;80,1\n1,0;NA\n")
    ...     read_table(path)
       time   abp
    0   0.5  80.1
    1   1.0   NaN
    """
    name = source_name(source)
    separator = None if delimiter is None else check_delimiter(delimiter)
    mark = None if decimal is None else check_decimal(decimal)
    content = _unzipped(_content(source, name), name)
    if content.startswith(_PARQUET) or name.endswith(".parquet"):
        return with_floats(_parse_parquet(content, name))
    return parse_text(content, name, separator, mark, fewest_columns, keep_fields)


def write_table(
    frame: pd.DataFrame, target: str | Path, *, index: bool = True, delimiter: str = ","
) -> None:
    """Write a table to a file, whole or not at all, or to standard output.

    Floats have as many digits as are needed to read the same number again, timestamps are ISO 8601
    with their offset from UTC, and missing values are empty.

    Args:
        frame: the table.
        target: the file; its suffix chooses CSV, TSV (both also with .gz) or Parquet. ``-`` writes
            CSV to standard output.
        index: whether the index is written too, as the first column.
        delimiter: between the fields of CSV.
    """
    name = str(target)
    suffix = next((end for end in _FORMATS if name.lower().endswith(end)), None)
    if name != "-" and suffix is None:
        raise InputError(
            f"{name}: the name has no suffix of a known format. "
            f"Let it end in one of {', '.join(_FORMATS)}."
        )
    table = frame.reset_index(allow_duplicates=True) if index else frame
    table = table.set_axis(table.columns.map(str), axis=1)
    table.attrs = {}  # of the file that it was read from
    check_names(table.columns, name)
    if suffix != ".parquet":
        table = table.set_axis([escaped(column) for column in table.columns], axis=1)
    if name == "-":
        _print(_csv(table, delimiter))
    else:
        _save(_encoded(table, str(suffix), name, delimiter), Path(target))


def escaped(name: str) -> str:
    """A name of a column that no spreadsheet takes for a formula; :func:`read_table` takes it back."""
    return f"'{name}" if name.startswith(FORMULA) else name


def _content(source: str | Path, name: str) -> bytes:
    try:
        if str(source) == "-":
            return _limited(sys.stdin.buffer.read(MOST_BYTES + 1), name, MOST_BYTES)
        with Path(source).open("rb") as file:
            return _limited(file.read(MOST_BYTES + 1), name, MOST_BYTES)
    except FileNotFoundError as error:
        raise InputError(
            f"{name}: there is no such file. Check the name and the folder."
        ) from error
    except IsADirectoryError as error:
        raise InputError(f"{name}: this is a folder. Give a file in it.") from error
    except OSError as error:
        raise InputError(
            f"{name}: cannot be read ({error.strerror or error}). Check that you may read it."
        ) from error


def _limited(content: bytes, name: str, most: int) -> bytes:
    """The content, if it is not too much."""
    if len(content) > most:
        raise InputError(
            f"{name}: more than {most // 2**20} MiB of table found. Average neighbouring rows, or fit a "
            "part of them; deeplfm.data.open_parquet reads larger tables from Parquet."
        )
    return content


def _unzipped(content: bytes, name: str) -> bytes:
    if not content.startswith(_GZIP):
        return content
    most = min(MOST_BYTES, max(_ALWAYS_ALLOWED, _MOST_RATIO * len(content)))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            return _limited(file.read(most + 1), name, most)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(
            f"{name}: the gzip file is damaged ({error}). Copy or download it again."
        ) from error


def _require_pyarrow(name: str) -> None:
    if find_spec("pyarrow") is None:
        raise InputError(
            f"{name}: Parquet needs pyarrow, which is not installed. "
            'Run pip install "deeplfm[parquet]", or use CSV.'
        )


def _check_values(n_values: int, name: str) -> None:
    if n_values > _MOST_PARQUET_VALUES:
        raise InputError(
            f"{name}: {n_values} values found, and at most {_MOST_PARQUET_VALUES} are read into memory. "
            "Fit a part of them; deeplfm.data.open_parquet reads larger tables."
        )


def _parse_parquet(content: bytes, name: str) -> pd.DataFrame:
    _require_pyarrow(name)
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        _check_values(file.metadata.num_rows * max(1, file.metadata.num_columns), name)
        table = file.read()
        check_names(table.column_names, name)
        frame = table.to_pandas()
    except InputError:
        raise
    except (*MISUSES, pyarrow.ArrowException) as error:
        reason = " ".join(f"{error}".split())[:200].rstrip(".")
        raise InputError(
            f"{name}: not a whole Parquet file ({reason}). Copy or write it again."
        ) from error
    if not isinstance(frame.index, pd.RangeIndex) or frame.index.name is not None:
        frame = frame.reset_index()  # as in CSV, where it is a column
    frame = frame.set_axis(frame.columns.map(str), axis=1)
    if not len(frame) or not len(frame.columns):
        raise InputError(
            f"{name}: {len(frame)} rows and {len(frame.columns)} columns found. Give at least one."
        )
    return frame


def _encoded(table: pd.DataFrame, suffix: str, name: str, delimiter: str) -> bytes:
    if suffix == ".parquet":
        _require_pyarrow(name)
        try:
            return table.to_parquet(None, engine="pyarrow", index=False)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{name}: a column cannot be written as Parquet ({str(error).partition(chr(10))[0]})"
                ". Let each column hold values of one kind, or write CSV."
            ) from error
    text = _csv(table, "\t" if suffix.startswith(".tsv") else delimiter).encode()
    return gzip.compress(text, mtime=0) if suffix.endswith(".gz") else text


def _csv(table: pd.DataFrame, delimiter: str) -> str:
    stamps = {
        column: _iso8601(table[column])
        for column in table.columns
        if pd.api.types.is_datetime64_any_dtype(table[column].dtype)
    }
    return with_columns(table, stamps).to_csv(sep=delimiter, index=False, lineterminator="\n")


def _iso8601(times: pd.Series) -> pd.Series:
    """Timestamps as text, all with the same number of digits."""
    known = times.dropna().dt
    if known.nanosecond.any():
        digits = "nanoseconds"
    elif (known.microsecond % 1000).any():
        digits = "microseconds"
    else:
        digits = "milliseconds" if known.microsecond.any() else "seconds"
    text = [None if pd.isna(time) else time.isoformat(timespec=digits) for time in times]
    return pd.Series(text, index=times.index, dtype=object)


def _save(content: bytes, path: Path) -> None:
    with writing(path):
        write_whole(path, lambda temporary: temporary.write_bytes(content))


def _print(text: str) -> None:
    """Write to standard output; a reader that has seen enough, such as head, is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would flush once more at exit, and complain.
        with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
