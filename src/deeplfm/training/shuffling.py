"""Mini-batches in random order, at a cost that does not grow with the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Int64
from torch import Tensor


def shuffled_batches(
    n_rows: int,
    batch_size: int,
    generator: torch.Generator,
    block: int = 2**10,
    window: int = 2**17,
) -> Iterator[Int64[Tensor, " M"]]:
    """Batches of one epoch: every row once.

    Many rows are cut into blocks of neighbours. The blocks are shuffled and gathered into windows, and
    the rows within each window are shuffled. A batch thus mixes rows from a hundred places or more, as
    it must in a file sorted by date; a window's pages are read once and together; and no permutation of
    all rows is held. Up to two windows of rows are one window, shuffled as a whole.

    Args:
        n_rows: number N of rows.
        batch_size: at most this many rows in a batch; none is ragged.
        generator: source of the order.
        block: neighbouring rows that stay in one window.
        window: rows that are mixed at a time, at the least.
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
