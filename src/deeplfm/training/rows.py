"""Training rows, in memory or read when needed, their batches, and exact weights given all of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice, repeat
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from deeplfm.randomness import generator_for
from deeplfm.training.distributed import world

_CHUNK_ROWS = 4096
_LIGHT = 0.01  # of the median weight of an output's targets


class RowSource(ABC):
    """Rows in standardised units, in memory or in storage.

    Training takes batches; functions of all rows add up chunks, so that memory does not grow with the
    number of rows. Results are the same to the last bit wherever the rows are stored.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number N of rows."""

    @abstractmethod
    def take(self, index: Int64[Tensor, " M"]) -> Rows:
        """Some of the rows, in memory and in the order of the index."""

    def subset(self, index: Int64[Tensor, " M"]) -> RowSource:
        """Some of the rows, not read yet."""
        return StoredRows(lambda chosen: self.take(index[chosen]), len(index))

    def without(self, index: Int64[Tensor, " M"]) -> RowSource:
        """All but a few rows, not read yet; memory grows with the few only."""
        n_before = index.sort().values - torch.arange(len(index))  # rows that stay, before each
        return StoredRows(
            lambda chosen: self.take(chosen + torch.searchsorted(n_before, chosen, right=True)),
            len(self) - len(index),
        )

    def chunks(self, some: slice = slice(None)) -> Iterator[Rows]:
        """All rows in order, or consecutive ones, a limited number at a time."""
        first, end, _ = some.indices(len(self))
        for chunk in range(first, end, _CHUNK_ROWS):
            yield self.take(torch.arange(chunk, min(chunk + _CHUNK_ROWS, end)))

    def everything(self) -> Rows:
        """All rows in memory."""
        return self.take(torch.arange(len(self)))

    def batches(self, size: int, seed: int, first: int = 0) -> Iterator[Share]:
        """Mini-batches without end, every row once in an epoch; those before ``first`` are not read.

        Of several processes, each reads its share of a batch. A batch may be all rows.
        """
        if size >= len(self):
            share = self._share(len(self), torch.arange(len(self)))
            yield from repeat(share)
        indices = (
            index
            for epoch in count()
            for index in shuffled_batches(len(self), size, generator_for(seed, "epoch", epoch))
        )
        for index in islice(indices, first, None):
            yield self._share(len(index), index)

    def _share(self, n_batch: int, index: Int64[Tensor, " M"]) -> Share:
        own = world().share(n_batch, "rows of a batch")
        is_all = n_batch == len(self) == own.stop - own.start
        return Share(self.everything() if is_all else self.take(index[own]), own, n_batch)


class Share(NamedTuple):
    """The rows of a batch that this process reads: all, unless several share it.

    Attributes:
        rows: their inputs and targets.
        of_batch: which rows of the batch they are.
        n_batch: number of rows of the batch.
    """

    rows: Rows
    of_batch: slice
    n_batch: int


@dataclass(frozen=True)
class Rows(RowSource):
    """Rows in memory.

    Attributes:
        x: inputs.
        y: targets; NaN marks a missing one.
        weight: of each row's likelihood.
        error: variance of the measurement error of each target, beside the noise; None without one.
    """

    x: Float[Tensor, "N P"]
    y: Float[Tensor, "N D"]
    weight: Float[Tensor, " N"] | None = None
    error: Float[Tensor, "N D"] | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def counts(self) -> Float[Tensor, "N D"]:
        """Number of observations each target stands for: its row's weight, 0 where it is missing."""
        known = (~self.y.isnan()).to(self.y.dtype)
        return known if self.weight is None else known * self.weight[:, None].to(known)

    def mean_by_count(self, values: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
        """Mean over the observed targets of each output, weighted by count; 0 where there is none."""
        return self.sum_by_count(values) / self.counts.to(values).sum(0).clamp_min(1e-300)

    def sum_by_count(self, values: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
        """Sum over the observed targets of each output, weighted by count."""
        return (values.nan_to_num(0.0) * self.counts.to(values)).sum(0)

    def without_light_targets(self) -> Rows:
        """The same rows, with targets of negligible weight beside others of their output missing."""
        if self.weight is None:
            return self
        counts = torch.where(self.counts > 0, self.counts, torch.nan)
        is_light = counts < _LIGHT * counts.nanmedian(0).values
        return replace(self, y=torch.where(is_light, torch.nan, self.y))

    def output(self, d: int) -> Rows:
        """The same rows with one output."""
        error = None if self.error is None else self.error[:, d : d + 1]
        return Rows(self.x, self.y[:, d : d + 1], self.weight, error)

    def take(self, index: Int64[Tensor, " M"] | slice) -> Rows:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[index]
        error = None if self.error is None else self.error[index]
        return Rows(self.x[index], self.y[index], weight, error)

    def subset(self, index: Int64[Tensor, " M"]) -> Rows:
        """Some of the rows, as a copy in memory."""
        return self.take(index)

    def everything(self) -> Rows:
        """The rows themselves."""
        return self


class StoredRows(RowSource):
    """Rows in storage, such as a memory-mapped file.

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


def shuffled_batches(
    n_rows: int,
    batch_size: int,
    generator: torch.Generator,
    block: int = 2**10,
    window: int = 2**17,
) -> Iterator[Int64[Tensor, " M"]]:
    """Row numbers of the batches of one epoch, in random order.

    Up to two windows of rows are shuffled as a whole. More rows are cut into blocks of consecutive rows;
    blocks are shuffled and gathered into windows, and the rows of each window are shuffled. So a batch
    mixes rows from a hundred places or more even in a file sorted by date, each page of the file is read
    once, and no permutation of all rows is stored.

    Args:
        n_rows: number N of rows.
        batch_size: largest number of rows of a batch; batches are of nearly equal size.
        generator: source of the order.
        block: consecutive rows that stay in one window.
        window: least number of rows that are shuffled together.
    """
    n_windows = n_rows // max(window, batch_size)
    if n_windows < 2:
        yield from _batches(torch.randperm(n_rows, generator=generator), batch_size)
        return
    blocks = torch.randperm(math.ceil(n_rows / block), generator=generator)
    for part in blocks.tensor_split(n_windows):
        rows = (part[:, None] * block + torch.arange(block)).flatten()
        rows = rows[rows < n_rows]  # the last block may be shorter
        yield from _batches(rows[torch.randperm(len(rows), generator=generator)], batch_size)


def _batches(order: Int64[Tensor, " N"], size: int) -> tuple[Tensor, ...]:
    return order.tensor_split(math.ceil(len(order) / size))


class Conditioned(Protocol):
    """A model whose weights may be solved in closed form from sums over rows."""

    @property
    def has_exact_output(self) -> bool:
        """Whether they are."""

    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Sums over some rows."""

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights from sums over all rows."""


@torch.no_grad()
def statistics(
    model: Conditioned, rows: RowSource
) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
    """Sufficient statistics of all rows for the exact output weights: sums over their chunks."""
    own = rows.chunks(world().share(len(rows), "rows"))
    parts = (model.statistics(chunk.x, chunk.y, chunk.weight) for chunk in own)
    gram, moment = next(parts)
    for more_gram, more_moment in parts:
        gram, moment = gram + more_gram, moment + more_moment
    gram, moment = world().sum_(gram, moment)
    return gram, moment


def condition(model: Conditioned, rows: RowSource) -> None:
    """Solve exact output weights on all rows, where a model has them."""
    if model.has_exact_output:
        model.solve(*statistics(model, rows))
