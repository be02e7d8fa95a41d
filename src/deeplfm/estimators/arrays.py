"""The user's arrays: checked in chunks, and copied only if they are small.

Arrays of numbers are returned as they are: they may be larger than memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from deeplfm.errors import InputError
from deeplfm.estimators.stamps import LARGEST
from deeplfm.training.distributed import world

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# A step on all rows of a longer series needs gigabytes; in batches, its pursuit would take minutes.
_LONGEST_SERIES, _LONGEST_IN_BATCHES = 20_000, 100_000
_LARGE = 2**24  # values, 128 MB in float64, that are not copied
_MOST_COMPARED = 10_000  # rows among which equal ones are looked for
_CHUNK_VALUES = 2**19  # 4 MB in float64
_WILD = (f"larger than {LARGEST:g}", "Their squares overflow: give them in a larger unit.")


# how messages write a time of the model, which a forecaster knows in its user's kind
time_text: ContextVar[Callable[[float], str]] = ContextVar("time_text", default="time {}".format)


class NotNumbersError(InputError, TypeError):
    """Values that cannot be converted to numbers."""


@dataclass(frozen=True)
class Arrays:
    """Inputs, targets and weights of the rows of a fit, in the order of their use."""

    x: NDArray[Any]
    y: NDArray[Any]
    weight: Array | None  # None where all that count have weight 1
    index: Index | None  # which rows count, in which order; None for all in their own
    are_mapped: bool
    error: Array | None = None  # standard deviations of measurement errors

    @classmethod
    def of(
        cls,
        x: Any,
        y: Any,
        sample_weight: Any,
        fewest_known: int = 3,
        measurement_error: Any = None,
    ) -> Arrays:
        """Check what the user gave; each target needs some known values."""
        inputs = check_inputs(x)
        weight, index = check_weights(sample_weight, len(inputs)), None
        if weight is not None and not weight.all():
            index = np.flatnonzero(weight)  # the others must not affect scales and initial values
        targets = check_targets(y, len(inputs), index, fewest_known)
        if weight is not None and (weight[weight > 0] == 1).all():
            weight = None
        are_mapped = isinstance(x, np.memmap) or isinstance(y, np.memmap)
        error = check_errors(measurement_error, targets)
        return cls(inputs, targets, weight, index, are_mapped, error)

    def __len__(self) -> int:
        return len(self.x) if self.index is None else len(self.index)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, inputs and targets."""
        return len(self), self.x.shape[1], self.y.shape[1]

    @property
    def are_large(self) -> bool:
        """Whether rows are read as they are needed: there are many, or they are on disk."""
        return self.are_mapped or len(self) * (self.x.shape[1] + self.y.shape[1]) > _LARGE

    def read(self, rows: Index | slice) -> tuple[Array, Array, Array | None]:
        """Inputs, targets and weights of some rows, in float64."""
        where = rows if self.index is None else self.index[rows]
        weight = None if self.weight is None else self.weight[where]
        return _double(self.x[where]), _double(self.y[where]), weight

    def read_error(self, rows: Index | slice) -> Array | None:
        """Measurement errors of some rows."""
        if self.error is None:
            return None
        return self.error[rows if self.index is None else self.index[rows]]

    def chunks(self, only_own: bool = False) -> Iterator[tuple[Array, Array, Array | None]]:
        """Inputs, targets and weights of all rows, a bounded number at a time.

        ``only_own`` are those that this process reads: all, unless several share a fit.
        """
        n_rows = _chunk_rows(self.x.shape[1] + self.y.shape[1])
        firsts = range(0, len(self), n_rows)
        for first in firsts[world().part(len(firsts))] if only_own else firsts:
            yield self.read(slice(first, first + n_rows))

    def merged(self) -> Arrays:
        """Equal rows as one row with the sum of their weights, sorted by value where any have weights.

        A row of weight 2 must give the same fit as the row given twice, wherever it is, and held-out
        rows and batches are chosen by position. Of very many rows, each matters too little.
        """
        if len(self) > _MOST_COMPARED or self.error is not None:
            return self
        x, y, weight = self.read(slice(None))
        values = np.hstack([x, y])
        order = np.lexsort(values.T[::-1])
        before, after = values[order[:-1]], values[order[1:]]
        is_new = ((before != after) & ~(np.isnan(before) & np.isnan(after))).any(1)
        first = np.flatnonzero(np.r_[True, is_new])
        if len(first) < 3 or (weight is None and len(first) == len(self)):
            return self
        total = np.add.reduceat(np.ones(len(self)) if weight is None else weight[order], first)
        index = order[first] if self.index is None else self.index[order[first]]
        all_weights = np.zeros(len(self.x))
        all_weights[index] = total
        return replace(self, weight=all_weights, index=index)

    def by_time(self) -> Arrays:
        """Rows of a series in the order of their times."""
        time = self.x[:, 0] if self.index is None else self.x[self.index, 0]
        order = np.argsort(time, kind="stable")
        return replace(self, index=order if self.index is None else self.index[order])

    def trimmed(self) -> Arrays:
        """Rows of an ordered series from the first to the last with a known target.

        Otherwise empty rows at the end would be the held-out rows that score all candidates.
        """
        index = np.arange(len(self)) if self.index is None else self.index
        n_rows = _chunk_rows(self.y.shape[1])

        def known(first: int) -> Index:
            rows = index[first : first + n_rows]
            return first + np.flatnonzero(~np.isnan(_double(self.y[rows])).all(1))

        chunks = range(0, len(index), n_rows)
        begin = next(found[0] for first in chunks if len(found := known(first)))
        end = next(found[-1] for first in reversed(chunks) if len(found := known(first)))
        return replace(self, index=index[begin : end + 1])

    def most_recent(self, in_batches: bool) -> Arrays:
        """The last rows of an ordered series that is too long for its spectrum to be computed.

        Consecutive rows, since every n-th row would alias; and for training too: where phases drift,
        as in most long series, sinusoids that fit the whole record do not forecast.
        """
        n_rows = _LONGEST_IN_BATCHES if in_batches else _LONGEST_SERIES
        if self.index is None or len(self) <= n_rows:
            return self
        recent = self.index[-n_rows:].copy()
        first = time_text.get()(float(self.x[recent[0], 0]))
        longer = "" if in_batches else f", or set batch_size=1000 to use {_LONGEST_IN_BATCHES}"
        warnings.warn(
            f"fit: the series has {len(self)} rows, and only the {n_rows} most recent are used, from "
            f"{first} on. Average neighbouring rows, fit the segment that matters"
            f"{longer}.",
            stacklevel=3,
        )
        return replace(self, index=recent)


def check_inputs(x: Any, n_columns: int | None = None, owner: str = "model") -> NDArray[Any]:
    """Inputs as a finite matrix of numbers; a vector is one column."""
    array = _matrix(x, "X")
    advice = "Remove these rows, or fill the inputs: only targets may be missing."
    _refuse(array, lambda values: ~np.isfinite(values), "X", "NaN or infinite", advice)
    _refuse(array, _is_wild, "X", *_WILD)
    if n_columns is not None and array.shape[1] != n_columns:
        advice = "Give the same columns in the same order."
        if np.asarray(x).ndim == 1:
            advice = "Reshape your data: X.reshape(1, -1) makes a vector a row."
        raise InputError(
            f"X has {array.shape[1]} features, but {owner} is expecting {n_columns} features as input. "
            f"{advice}"
        )
    return array


def check_vector(x: Any, is_series: bool | None) -> None:
    """Refuse a vector of inputs that are no times; a matrix is always accepted.

    scikit-learn takes a vector for a mistake. Here it is a time axis, if its values are in order as
    times of a series are, or if the user declared a series.
    """
    if is_series or np.asarray(x).ndim != 1:
        return
    if is_series is False:
        raise InputError(
            "X: a vector found, which are times, but is_series=False asks for a table. Reshape "
            "your data: X.reshape(-1, 1) is a table of one column."
        )
    times = np.asarray(x, dtype=np.float64)
    is_back = times[1:] < times[:-1]
    if is_back.any():
        row = int(is_back.argmax()) + 1
        raise InputError(
            f"X: a vector found, whose values do not increase ({times[row]:g} in row {row} after "
            f"{times[row - 1]:g}). Sort times, or set is_series=True to give them in any order. "
            "Otherwise reshape your data: X.reshape(-1, 1) is one input column."
        )


def check_targets(
    y: Any, n_rows: int, index: Index | None = None, fewest_known: int = 1
) -> NDArray[Any]:
    """Targets as a matrix of numbers in which NaN marks a missing value."""
    if y is None:
        raise InputError(
            "y: fit requires y to be passed, but the target y is None. Give one target row per input."
        )
    array = _matrix(y, "y")
    if len(array) != n_rows:
        raise InputError(
            f"y: {len(array)} rows, but X has {n_rows}. Give one target row per input."
        )
    advice = "Remove them, or write NaN to mark them as missing."
    _refuse(array, np.isinf, "y", "infinite", advice)
    _refuse(array, _is_wild, "y", *_WILD)
    n_rows = n_rows if index is None else len(index)
    none = np.zeros(array.shape[1], dtype=np.int64)
    own = sum((np.isnan(chunk).sum(0) for _, chunk in _chunks(array, index)), start=none)
    missing = np.sum(world().gather(own), axis=0)
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


def check_errors(measurement_error: Any, y: NDArray[Any]) -> Array | None:
    """Standard deviations of measurement errors, one for each target that is known."""
    if measurement_error is None:
        return None
    error = np.asarray(measurement_error, dtype=np.float64)
    error = error[:, None] if error.ndim == 1 else error
    if error.shape not in (y.shape, (len(y), 1)):
        raise InputError(
            f"measurement_error: shape {error.shape}, but y has {y.shape}. Give one standard deviation "
            "for each row, or for each target of each row."
        )
    error = np.where(np.isnan(_double(y)), 0.0, error)
    if not (np.isfinite(error).all() and (error >= 0).all()):
        row, column = np.argwhere(~(np.isfinite(error) & (error >= 0)))[0]
        raise InputError(
            f"measurement_error: {error[row, column]} in row {row}, column {column}. Give a finite "
            "standard deviation of at least 0 wherever the target is known."
        )
    return error if error.any() else None


def _matrix(value: Any, name: str) -> NDArray[Any]:
    if issparse(value):
        raise InputError(f"{name}: a sparse matrix found, which is not supported. Use .toarray().")
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise ValueError("Complex data not supported")
        if array.dtype.kind in "mM":
            raise ValueError("timestamps or durations")
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


def _chunk_rows(n_columns: int) -> int:
    return max(1, _CHUNK_VALUES // n_columns)


def _chunks(array: NDArray[Any], index: Index | None = None) -> Iterator[tuple[int, Array]]:
    """Rows that this process reads, in float64, with the number of the first; some at a time."""
    n_rows, size = len(array) if index is None else len(index), _chunk_rows(array.shape[1])
    firsts = range(0, n_rows, size)
    for first in firsts[world().part(len(firsts))]:
        rows = slice(first, first + size)
        yield first, _double(array[rows] if index is None else array[index[rows]])


def _is_wild(values: Array) -> NDArray[np.bool_]:
    return np.abs(values) > LARGEST


def _refuse(
    array: NDArray[Any],
    is_bad: Callable[[Array], NDArray[np.bool_]],
    name: str,
    what: str,
    advice: str,
) -> None:
    """Refuse an array with bad values: how many there are, and where the first is."""
    total, where = 0, None
    for first, chunk in _chunks(array):
        bad = is_bad(chunk)
        if bad.any() and not total:
            row, column = np.argwhere(bad)[0]
            where = f"row {first + row}, column {column}"
        total += int(bad.sum())
    totals, places = zip(*world().gather((total, where)), strict=True)
    if n_bad := sum(totals):
        first = next(place for place in places if place)
        raise InputError(f"{name}: {n_bad} values are {what} (first: {first}). {advice}")


def _double(values: NDArray[Any]) -> Array:
    return np.asarray(values, dtype=np.float64)
