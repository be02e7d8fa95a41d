"""Checks of arrays that users hand in; each error says where, what, found, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deeplfm.errors import ConfigError, InputError

Array = NDArray[np.float64]


def check_inputs(x: Any, n_columns: int | None = None) -> Array:
    """Inputs as a finite float64 matrix; a vector is one column."""
    array = _matrix(x, "X")
    _finite(array, "X", "Remove these rows, or fill the inputs: only targets may be missing")
    if n_columns is not None and array.shape[1] != n_columns:
        raise InputError(
            f"X: {array.shape[1]} columns, but the model was fitted on {n_columns}. "
            "Give the same columns in the same order."
        )
    return array


def check_targets(y: Any, n_rows: int) -> Array:
    """Targets as a float64 matrix in which NaN marks a missing value."""
    array = _matrix(y, "y")
    if len(array) != n_rows:
        raise InputError(
            f"y: {len(array)} rows, but X has {n_rows}. Give one target row per input."
        )
    infinite = np.isinf(array)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"y: {infinite.sum()} values are infinite (first: row {row}, column {column}). "
            "Remove them, or write NaN to mark them as missing."
        )
    for column in range(array.shape[1]):
        known = int((~np.isnan(array[:, column])).sum())
        if known < 3:
            raise InputError(
                f"y: column {column} has {known} known values of {len(array)}; at least 3 are needed. "
                "Leave the column out, or give more data."
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
            "sample_weight: every weight must be finite and at least 0, and one above 0. "
            f"Found a smallest of {weight.min()} and a largest of {weight.max()}."
        )
    return weight


def check_settings(settings: Mapping[str, Any]) -> None:
    """Numbers of an estimator that must be whole and positive, and a device that is there."""
    for name in ("n_forces", "n_features", "n_steps", "random_state"):
        value = settings[name]
        least = 0 if name in ("random_state", "n_steps") else 1
        if name == "n_steps" and value is None:
            continue
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{name}: {value!r} found. Give a whole number of at least {least}.")
    hidden = settings["hidden"]
    if not isinstance(hidden, tuple | list) or any(
        not isinstance(width, int | np.integer) or width < 1 for width in hidden
    ):
        raise ConfigError(f"hidden: {hidden!r} found. Give the width of each layer, such as (3,).")
    try:
        torch.empty(0, device=settings["device"])
    except (AssertionError, RuntimeError) as error:
        raise ConfigError(
            f"device: {settings['device']!r} is not available here ({error}). Use 'cpu'."
        ) from error


def _matrix(value: Any, name: str) -> Array:
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: not all values are numbers ({error}). Convert text and dates to numbers first."
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"{name}: {array.ndim} dimensions found. Give a vector or a matrix.")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InputError(f"{name}: shape {array.shape} holds no values. Give at least one row.")
    return array


def _finite(array: Array, name: str, advice: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{name}: {bad.sum()} values are NaN or infinite (first: row {row}, column {column}). "
            f"{advice}."
        )
