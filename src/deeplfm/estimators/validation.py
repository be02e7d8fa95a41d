"""Checks of arrays that users hand in; each error says where, what, found, and what to do.

Arrays of numbers come back as they are, and are looked at in pieces: they may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse

from deeplfm.errors import ConfigError, InputError

Array = NDArray[np.float64]

_PIECE_VALUES = 2**19  # 4 MB in float64


class NotNumbersError(InputError, TypeError):
    """Values of a kind that no number can be made of."""


def piece_rows(n_columns: int) -> int:
    """How many rows of a wide or narrow matrix to look at together."""
    return max(1, _PIECE_VALUES // n_columns)


def check_inputs(x: Any, n_columns: int | None = None, owner: str = "model") -> NDArray[Any]:
    """Inputs as a finite matrix of numbers; a vector is one column.

    Args:
        x: inputs.
        n_columns: how many columns there must be; ``None`` for any number.
        owner: who expects them.
    """
    array = _matrix(x, "X")
    n_bad, where = _count(array, lambda values: ~np.isfinite(values))
    if n_bad:
        raise InputError(
            f"X: {n_bad} values are NaN or infinite (first: {where}). "
            "Remove these rows, or fill the inputs: only targets may be missing."
        )
    if n_columns is not None and array.shape[1] != n_columns:
        advice = "Give the same columns in the same order."
        if np.asarray(x).ndim == 1:
            advice = "Reshape your data: X.reshape(1, -1) makes a vector a row."
        raise InputError(
            f"X has {array.shape[1]} features, but {owner} is expecting {n_columns} features as input. "
            f"{advice}"
        )
    return array


def check_targets(
    y: Any, n_rows: int, index: NDArray[np.int64] | None = None, fewest_known: int = 1
) -> NDArray[Any]:
    """Targets as a matrix of numbers in which NaN marks a missing value.

    Args:
        y: targets.
        n_rows: number of rows of the inputs.
        index: rows that count; ``None`` for all.
        fewest_known: values that every column must have.
    """
    if y is None:
        raise InputError(
            "y: fit requires y to be passed, but the target y is None. Give one target row per input."
        )
    array = _matrix(y, "y")
    if len(array) != n_rows:
        raise InputError(
            f"y: {len(array)} rows, but X has {n_rows}. Give one target row per input."
        )
    n_infinite, where = _count(array, np.isinf)
    if n_infinite:
        raise InputError(
            f"y: {n_infinite} values are infinite (first: {where}). "
            "Remove them, or write NaN to mark them as missing."
        )
    n_rows = n_rows if index is None else len(index)
    missing = sum(np.isnan(piece).sum(0) for _, piece in _pieces(array, index))
    for column, known in enumerate((n_rows - missing).tolist()):
        if known < fewest_known:
            raise InputError(
                f"y: column {column} has {known} known values of {n_rows} samples; at least "
                f"{fewest_known} are needed. Leave the column out, or give more data."
            )
    return array


def check_weights(sample_weight: Any, n_rows: int) -> Array | None:
    """Row weights as a non-negative vector."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise InputError(
            f"sample_weight: shape {weight.shape}, but X has {n_rows} rows. Give one number per row."
        )
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise InputError(
            "sample_weight: every weight must be finite and at least 0, and one above zero. "
            f"Found a smallest of {weight.min()} and a largest of {weight.max()}."
        )
    return weight


def check_settings(settings: Mapping[str, Any]) -> None:
    """Numbers of an estimator that must be whole and positive, and a device that is there."""
    for name in ("n_steps", "batch_size", "random_state"):
        value = settings[name]
        least = 0 if name in ("random_state", "n_steps") else 1
        if name in ("n_steps", "batch_size") and value is None:
            continue
        if not is_whole(value) or value < least:
            raise ConfigError(f"{name}: {value!r} found. Give a whole number of at least {least}.")
    n_jobs = settings["n_jobs"]
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise ConfigError(
            f"n_jobs: {n_jobs!r} found. Give a number of processes, or -1 for one on each core."
        )
    is_log = settings["log_targets"]
    if is_log is not None and not isinstance(is_log, bool | np.bool_):
        raise ConfigError(
            f"log_targets: {is_log!r} found. Give True for all targets, False for none, or None."
        )
    try:
        torch.empty(0, device=settings["device"])
    except (AssertionError, RuntimeError) as error:
        raise ConfigError(
            f"device: {settings['device']!r} is not available here ({error}). Use 'cpu'."
        ) from error


def is_whole(value: Any) -> bool:
    """Whether a setting is a whole number; a truth value is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _matrix(value: Any, name: str) -> NDArray[Any]:
    if issparse(value):
        raise InputError(f"{name}: a sparse matrix found, which is not supported. Use .toarray().")
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise ValueError("Complex data not supported")
        if array.dtype.kind in "mM":
            raise ValueError("times of a calendar or a clock")
        if not np.can_cast(array.dtype, np.float64):
            array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        kind = NotNumbersError if isinstance(error, TypeError) else InputError
        raise kind(
            f"{name}: not all values are numbers ({error}). Convert them to numbers first; "
            "DeepLFMForecaster takes timestamps and durations."
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"{name}: {array.ndim} dimensions found. Give a vector or a matrix.")
    if array.shape[1] == 0:
        raise InputError(
            f"{name}: 0 feature(s) (shape={array.shape}) while a minimum of 1 is required. Give at "
            "least one column."
        )
    if array.shape[0] == 0:
        raise InputError(f"{name}: shape {array.shape} holds no values. Give at least one row.")
    return array


def _pieces(
    array: NDArray[Any], index: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, Array]]:
    """Neighbouring rows in float64, with the number of the first, a bounded number at a time."""
    n_rows, size = len(array) if index is None else len(index), piece_rows(array.shape[1])
    for first in range(0, n_rows, size):
        rows = slice(first, first + size)
        piece = array[rows] if index is None else array[index[rows]]
        yield first, np.asarray(piece, dtype=np.float64)


def _count(
    array: NDArray[Any], is_bad: Callable[[Array], NDArray[np.bool_]]
) -> tuple[int, str | None]:
    """How many values are bad, and where the first is."""
    total, where = 0, None
    for first, piece in _pieces(array):
        bad = is_bad(piece)
        if bad.any() and not total:
            row, column = np.argwhere(bad)[0]
            where = f"row {first + row}, column {column}"
        total += int(bad.sum())
    return total, where
