"""Parquet files as memory-mapped arrays, so that tables larger than memory can be fitted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from deeplfm.errors import MISUSES, ConfigError, InputError

Matrix = NDArray[np.floating]

_BATCH_ROWS = 2**16
# A small buffer for each column; otherwise whole row groups are read, and a file may have only one.
_READING = {"buffer_size": 2**20, "pre_buffer": False}


@dataclass(frozen=True)
class ParquetTable:
    """Columns of a Parquet file as rows on disk.

    Attributes:
        X: memory-mapped inputs.
        y: memory-mapped targets, NaN where null; a vector if the target was given by its name alone.
        inputs: names of the columns of ``X``.
        targets: names of the columns of ``y``.
    """

    X: Matrix
    y: Matrix
    inputs: tuple[str, ...]
    targets: tuple[str, ...]


@contextmanager
def open_parquet(
    path: str | Path,
    *,
    targets: str | Sequence[str],
    inputs: str | Sequence[str] | None = None,
    folder: str | Path | None = None,
) -> Iterator[ParquetTable]:
    """Stream a Parquet file once into memory-mapped arrays, which are removed at the end.

    Mini-batches need rows in any order, and a Parquet file yields columns in one. So it is copied, in
    bounded memory, to scratch files of rows: float32 where that loses nothing, float64 elsewhere.
    Needs pyarrow: ``pip install 'deeplfm[parquet]'``.

    Args:
        path: the file.
        targets: column or columns to predict; null marks a missing target.
        inputs: columns to predict from; ``None`` takes all others.
        folder: where to put the scratch files, which have no names. ``None`` is the system's temporary
            folder, which on some systems is memory: choose a disk there.

    >>> import pyarrow, pyarrow.parquet
    >>> columns = {"hour": [1, 2, 3], "wind": [0.5, 0.1, 0.2], "delay": [9.0, None, 4.0]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(pyarrow.table(columns), f"{folder}/flights.parquet")
    ...     with open_parquet(f"{folder}/flights.parquet", targets="delay") as table:
    ...         table.X.shape, table.y.tolist(), table.inputs
    ((3, 2), [9.0, nan, 4.0], ('hour', 'wind'))
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(
            "open_parquet: pyarrow is not installed. Run: pip install 'deeplfm[parquet]'"
        ) from error
    wanted = _names(targets)
    with _scratch(folder) as x_file, _scratch(folder) as y_file:
        try:
            with parquet.ParquetFile(path, **_READING) as file:
                others = (name for name in file.schema_arrow.names if name not in wanted)
                given = tuple(others) if inputs is None else _names(inputs)
                _check(file, Path(path).name, given, wanted, arrow.types)
                x, y = _copy(
                    file, Path(path).name, given, wanted, arrow.float64(), (x_file, y_file)
                )
        except InputError:
            raise
        except (*MISUSES, arrow.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"open_parquet: {path} could not be copied ({reason}). "
                "Check that it is a whole Parquet file, and that the scratch folder has space."
            ) from error
        yield ParquetTable(x, y[:, 0] if isinstance(targets, str) else y, given, wanted)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _scratch(folder: str | Path | None) -> IO[bytes]:
    """A file that has no name where the system allows it: a killed run leaves nothing."""
    try:
        return tempfile.TemporaryFile(prefix="deeplfm-", dir=folder)
    except OSError as error:
        raise InputError(
            f"open_parquet: no scratch file can be made in {folder}: {error.strerror}. "
            "Give a folder that exists and can be written to."
        ) from error


def _check(
    file: Any, name: str, inputs: tuple[str, ...], targets: tuple[str, ...], types: Any
) -> None:
    """Refuse columns that are not there, or that hold anything but numbers."""
    schema = file.schema_arrow
    if not file.metadata.num_rows:
        raise InputError(f"open_parquet: {name} has no rows. Give at least three.")
    if not inputs or not targets:
        raise InputError(
            f"open_parquet: no {'targets' if inputs else 'inputs'}. Name at least one column."
        )
    for column in (*inputs, *targets):
        n_found = schema.names.count(column)
        if n_found != 1:
            raise InputError(
                f"open_parquet: {name} has {n_found or 'no'} columns named {column!r}. "
                f"Choose from {', '.join(schema.names)}."
            )
        if column in inputs and column in targets:
            raise InputError(
                f"open_parquet: column {column!r} is input and target. Decide for one of them."
            )
        kind = schema.field(column).type
        if not (
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_boolean(kind)
            or types.is_decimal(kind)
        ):
            raise InputError(
                f"open_parquet: column {column!r} of {name} holds {kind}, not numbers. Convert it "
                "(times to seconds or days since a date, classes to 0 and 1), or leave it out."
            )


def _copy(
    file: Any,
    name: str,
    inputs: tuple[str, ...],
    targets: tuple[str, ...],
    float64: Any,
    scratch: tuple[IO[bytes], IO[bytes]],
) -> tuple[Matrix, Matrix]:
    """Write the chosen columns as rows, and map them."""
    x_file, y_file = scratch
    x_type, y_type = _float_type(file, inputs), _float_type(file, targets)
    n_rows = 0
    # Through files and not through their mapping: a full disk is then an error, and not a crash.
    for batch in file.iter_batches(_BATCH_ROWS, columns=[*inputs, *targets]):
        for column in inputs:
            if batch.column(column).null_count:
                row = n_rows + batch.column(column).is_null().to_pylist().index(True)
                raise InputError(
                    f"open_parquet: column {column!r} of {name} is null in row {row}. Only "
                    "targets may be missing: fill it, or leave the column out."
                )
        for columns, kind, out in ((inputs, x_type, x_file), (targets, y_type, y_file)):
            values = [batch.column(column).cast(float64, safe=False) for column in columns]
            numbers = [value.to_numpy(zero_copy_only=False) for value in values]
            out.write(np.stack(numbers, axis=1).astype(kind).tobytes())
        n_rows += len(batch)
    for file_ in scratch:
        file_.flush()
    return (
        np.memmap(x_file, x_type, "r", shape=(n_rows, len(inputs))),
        np.memmap(y_file, y_type, "r", shape=(n_rows, len(targets))),
    )


def _float_type(file: Any, columns: tuple[str, ...]) -> np.dtype[Any]:
    """The smallest type that holds the columns without loss."""
    kinds = [np.dtype(file.schema_arrow.field(name).type.to_pandas_dtype()) for name in columns]
    exact = all(np.can_cast(kind, np.float32) for kind in kinds)
    return np.dtype(np.float32 if exact else np.float64)
