"""The user's arrays: checked and read in pieces, and left where they are unless they are small."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplfm.estimators.validation import (
    check_inputs,
    check_targets,
    check_weights,
    piece_rows,
)

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# A step on all rows of a longer series needs gigabytes; in batches, its pursuit would take minutes.
_LONGEST_SERIES, _LONGEST_IN_BATCHES = 20_000, 100_000
_LARGE = 2**24  # values, 128 MB in float64: a copy of them would be felt
_MOST_COMPARED = 10_000  # rows among which equal ones are looked for


@dataclass(frozen=True)
class Arrays:
    """Inputs, targets and weights of the rows that count, in the order in which they are used.

    Attributes:
        x: all inputs, in the type that the user chose.
        y: all targets.
        weight: of every row; ``None`` where all that count have weight 1.
        index: which rows count, in which order; ``None`` for all as they come.
        are_mapped: whether some are memory-mapped.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    weight: Array | None
    index: Index | None
    are_mapped: bool

    @classmethod
    def of(cls, x: Any, y: Any, sample_weight: Any, fewest_known: int = 3) -> Arrays:
        """Check what the user gave; each target needs some known values."""
        inputs = check_inputs(x)
        weight, index = check_weights(sample_weight, len(inputs)), None
        if weight is not None and not weight.all():
            index = np.flatnonzero(weight)  # the others must not shape scales and starts
        targets = check_targets(y, len(inputs), index, fewest_known)
        if weight is not None and (weight[weight > 0] == 1).all():
            weight = None
        are_mapped = isinstance(x, np.memmap) or isinstance(y, np.memmap)
        return cls(inputs, targets, weight, index, are_mapped)

    def __len__(self) -> int:
        return len(self.x) if self.index is None else len(self.index)

    @property
    def stay_where_they_are(self) -> bool:
        """Whether rows are read as they are needed: there are many, or they are on disk."""
        return self.are_mapped or len(self) * (self.x.shape[1] + self.y.shape[1]) > _LARGE

    def read(self, rows: Index | slice) -> tuple[Array, Array, Array | None]:
        """Inputs, targets and weights of some rows, in float64."""
        where = rows if self.index is None else self.index[rows]
        weight = None if self.weight is None else self.weight[where]
        return _double(self.x[where]), _double(self.y[where]), weight

    def pieces(self) -> Iterator[tuple[Array, Array, Array | None]]:
        """Inputs, targets and weights of all rows, a bounded number at a time."""
        n_rows = piece_rows(self.x.shape[1] + self.y.shape[1])
        for first in range(0, len(self), n_rows):
            yield self.read(slice(first, first + n_rows))

    def merged(self) -> Arrays:
        """Equal rows as one whose weights add up, in an order of their own where any have weights.

        Held-out rows and batches go by row, and would tell a row of weight 2 from one given twice, or
        given elsewhere. Of very many rows, each has too little say for this to matter.
        """
        if len(self) > _MOST_COMPARED:
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
        """Rows of a series in order: the order in which they come must not matter."""
        time = self.x[:, 0] if self.index is None else self.x[self.index, 0]
        order = np.argsort(time, kind="stable")
        return replace(self, index=order if self.index is None else self.index[order])

    def trimmed(self) -> Arrays:
        """Rows of an ordered series from the first to the last with a known target.

        Times to come that were left empty would be the tail by which all starts are judged.
        """
        index = np.arange(len(self)) if self.index is None else self.index
        n_rows = piece_rows(self.y.shape[1])

        def known(first: int) -> Index:
            rows = index[first : first + n_rows]
            return first + np.flatnonzero(~np.isnan(_double(self.y[rows])).all(1))

        pieces = range(0, len(index), n_rows)
        begin = next(found[0] for first in pieces if len(found := known(first)))
        end = next(found[-1] for first in reversed(pieces) if len(found := known(first)))
        return replace(self, index=index[begin : end + 1])

    def most_recent(self, in_batches: bool) -> Arrays:
        """The last rows of an ordered series that is too long for its spectrum to be read.

        A window, and not every so many rows, which would alias; nor a window for the spectrum and
        all rows for training: where phases drift, as they do in most long series, lines that must
        fit the whole record forecast nothing.
        """
        n_rows = _LONGEST_IN_BATCHES if in_batches else _LONGEST_SERIES
        if self.index is None or len(self) <= n_rows:
            return self
        recent = self.index[-n_rows:].copy()
        longer = "" if in_batches else f", or set batch_size=1000 to use {_LONGEST_IN_BATCHES}"
        warnings.warn(
            f"fit: the series has {len(self)} rows, and only the {n_rows} most recent are used, from "
            f"time {self.x[recent[0], 0]} on. Average neighbouring rows, fit the stretch that matters"
            f"{longer}.",
            stacklevel=3,
        )
        return replace(self, index=recent)


def _double(values: NDArray[Any]) -> Array:
    return np.asarray(values, dtype=np.float64)
