"""Rows to train on: in memory, or left where they are and read when they are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_CHUNK_ROWS = 4096
_LIGHT = 0.01  # of the median weight of an output's targets


class RowSource(ABC):
    """Rows in standardised units, wherever they are kept.

    Training takes batches of them, and whatever needs all of them goes through chunks, so that memory
    does not grow with their number. Where rows are kept does not change a bit of any result.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number N of rows."""

    @abstractmethod
    def take(self, index: Int64[Tensor, " M"]) -> Rows:
        """Some of the rows, in memory and in the order of the index."""

    def subset(self, index: Int64[Tensor, " M"]) -> RowSource:
        """Some of the rows, left where they are."""
        return StoredRows(lambda chosen: self.take(index[chosen]), len(index))

    def without(self, index: Int64[Tensor, " M"]) -> RowSource:
        """All but a few rows, left where they are; only the few cost memory."""
        n_before = index.sort().values - torch.arange(len(index))  # rows that stay, before each
        return StoredRows(
            lambda chosen: self.take(chosen + torch.searchsorted(n_before, chosen, right=True)),
            len(self) - len(index),
        )

    def chunks(self) -> Iterator[Rows]:
        """All rows in order, a bounded number at a time."""
        for chunk in range(0, len(self), _CHUNK_ROWS):
            yield self.take(torch.arange(chunk, min(chunk + _CHUNK_ROWS, len(self))))

    def everything(self) -> Rows:
        """All rows in memory."""
        return self.take(torch.arange(len(self)))


@dataclass(frozen=True)
class Rows(RowSource):
    """Rows in memory.

    Attributes:
        x: inputs.
        y: targets; NaN marks a missing one.
        weight: of each row's likelihood.
    """

    x: Float[Tensor, "N P"]
    y: Float[Tensor, "N D"]
    weight: Float[Tensor, " N"] | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def counts(self) -> Float[Tensor, "N D"]:
        """How many targets each one stands for: its row's weight, and none where it is missing."""
        known = (~self.y.isnan()).to(self.y.dtype)
        return known if self.weight is None else known * self.weight[:, None].to(known)

    def mean_by_count(self, values: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
        """The mean of what is said of each target, over all that are known; 0 where none is."""
        return self.sum_by_count(values) / self.counts.to(values).sum(0).clamp_min(1e-300)

    def sum_by_count(self, values: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
        """The sum of what is said of each target, over all that are known."""
        return (values.nan_to_num(0.0) * self.counts.to(values)).sum(0)

    def without_light_targets(self) -> Rows:
        """Rows in which targets of next to no weight, beside others of their output, are missing."""
        if self.weight is None:
            return self
        counts = torch.where(self.counts > 0, self.counts, torch.nan)
        is_light = counts < _LIGHT * counts.nanmedian(0).values
        return replace(self, y=torch.where(is_light, torch.nan, self.y))

    def output(self, d: int) -> Rows:
        """The same rows with one output."""
        return Rows(self.x, self.y[:, d : d + 1], self.weight)

    def take(self, index: Int64[Tensor, " M"]) -> Rows:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[index]
        return Rows(self.x[index], self.y[index], weight)

    def subset(self, index: Int64[Tensor, " M"]) -> Rows:
        """Some of the rows: those in memory are simply taken."""
        return self.take(index)

    def everything(self) -> Rows:
        """Themselves."""
        return self


class StoredRows(RowSource):
    """Rows kept elsewhere, such as in a memory-mapped file.

    Args:
        read: the rows at some positions, in their order and in standardised units.
        n_rows: number N of rows.

    >>> import numpy as np
    >>> table = np.arange(12.0).reshape(4, 3)
    >>> def read(index):
    ...     part = torch.as_tensor(table[index])
    ...     return Rows(part[:, :2], part[:, 2:])
    >>> StoredRows(read, 4).take(torch.tensor([2, 0])).y
    tensor([[8.],
            [2.]], dtype=torch.float64)
    """

    def __init__(self, read: Callable[[Int64[Tensor, " M"]], Rows], n_rows: int) -> None:
        self._read, self._n_rows = read, n_rows

    def __len__(self) -> int:
        return self._n_rows

    def take(self, index: Int64[Tensor, " M"]) -> Rows:
        """Read some of the rows."""
        return self._read(index)
