r"""Φ of a layer without holding Φ: columns are made for blocks of samples and rows, and made again.

Everything the model needs of Φ is a reduction: ΦM and Φ²V, φᵀCφ, ΦᵀΛΦ and ΦᵀΛy, ΦW. A reduction
runs over blocks that fit the cache; its backward pass makes each block anew. So the memory of a step is
set by the block, not by the number of samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from deeplfm.features.block_columns import BlockColumns
from deeplfm.features.chunks import BlockFunction, blockwise, blockwise_sum
from deeplfm.variational.products import (
    FeatureBlocks,
    LazyColumns,
    add,
    diagonal_moments,
    weighted_squares,
)

# Waves (samples × rows × columns × terms) of a block, and how many may be kept for the backward pass.
_BLOCK_WAVES, _KEPT_WAVES = 2**19, 2**20

Reduction = Callable[..., tuple[Tensor, ...]]
Piece = Sequence[Sequence[Tensor]]


class PieceColumns(LazyColumns):
    """The columns of a layer for one block of samples and rows, made when they are looked at."""

    def __init__(self, blocks: Sequence[BlockColumns], tensors: Sequence[Sequence[Tensor]]) -> None:
        self._blocks, self._tensors = blocks, tensors
        self._made: list[list[Tensor]] | None = None
        self._has_gradient = torch.is_grad_enabled()

    @property
    def families(self) -> list[list[Tensor]]:
        """Families of columns of each feature map."""
        if self._made is None:
            pairs = zip(self._blocks, self._tensors, strict=True)
            with torch.set_grad_enabled(self._has_gradient):  # whoever looks first
                self._made = [list(block.make(tensors)) for block, tensors in pairs]
        return self._made

    @cached_property
    def _columns(self) -> list[Tensor]:
        return [column for families in self.families for column in families]

    def __getitem__(self, index: Any) -> Any:
        return self._columns[index]

    def __len__(self) -> int:
        return len(self._columns)

    def diagonal_moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """ΦM and Φ²V, feature map by feature map: each may know a way without columns."""
        tables = self._by_block(mean, variance)
        means, variances = zip(*map(self._moments, range(len(tables)), tables), strict=True)
        return add(list(means)), add(list(variances))

    def diagonal_squares(
        self, mean: Tensor, variance: Tensor, target: Tensor, weight: Tensor
    ) -> Tensor:
        """Σ λ((y − ΦM)² + Φ²V): with its gradient in one pass, by the last map that knows a way."""
        fused = [i for i, block in enumerate(self._blocks) if block.is_fused]
        if not fused or self._made is not None or not torch.is_grad_enabled():
            return weighted_squares(*self.diagonal_moments(mean, variance), target, weight)
        tables, last = self._by_block(mean, variance), fused[-1]
        others = [self._moments(i, item) for i, item in enumerate(tables) if i != last]
        return self._blocks[last].squares(
            self._tensors[last], *tables[last], target, weight, others
        )

    def _by_block(self, mean: Tensor, variance: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The weights of every feature map."""
        widths = [block.features.n_columns for block in self._blocks]
        return list(zip(mean.split(widths, -2), variance.split(widths, -2), strict=True))

    def _moments(self, i: int, tables: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        if self._made is not None:
            return diagonal_moments(self._made[i], *tables)
        return self._blocks[i].moments(self._tensors[i], *tables)


class LayerColumns:
    """All columns of a layer, as blocks of feature maps side by side.

    Args:
        blocks: columns of each feature map.
        n_samples: number S of samples.
        n_rows: number N of rows.
    """

    def __init__(self, blocks: Sequence[BlockColumns], n_samples: int, n_rows: int) -> None:
        self.blocks, self.n_samples, self.n_rows = blocks, n_samples, n_rows
        self.is_free = all(block.is_free for block in blocks)
        self.n_waves = sum(block.waves_per_row for block in blocks)
        is_small = n_samples * n_rows * self.n_waves <= _KEPT_WAVES
        self._kept = self._everything() if is_small else None

    def whole(self) -> FeatureBlocks:
        """Φ itself, by families of columns; for few samples and rows."""
        return list(self._kept or self._everything())

    def map(
        self,
        reduction: Reduction,
        *arguments: Tensor,
        by_sample: Sequence[Tensor] = (),
        is_diagonal: bool = False,
    ) -> tuple[Tensor, ...]:
        """A reduction over columns, put together for all samples and rows.

        Args:
            reduction: takes the columns of a block and the arguments, and returns matrices with a
                line for each row; it must see no other tensor that has a gradient.
            arguments: tensors for all blocks.
            by_sample: tensors of which a block takes its samples.
            is_diagonal: the reduction is :func:`diagonal_moments`; where it needs no columns, it
                needs no blocks.
        """
        whole = self._in_one_piece(is_diagonal)
        if whole is not None:
            return reduction(whole, *arguments, *by_sample)
        pieces, samples, rows = self._split(_BLOCK_WAVES)
        shares = [item.split(samples) for item in by_sample]
        blocks = [
            [*_flat(piece), *arguments, *(share[i // len(rows)] for share in shares)]
            for i, piece in enumerate(pieces)
        ]
        parts = blockwise(self._of_tensors(reduction, pieces[0]), blocks)
        return tuple(_assemble(list(part), len(rows)) for part in zip(*parts, strict=True))

    def total(
        self,
        reduction: Reduction,
        *arguments: Tensor,
        by_row: Sequence[Tensor] = (),
        is_diagonal: bool = False,
    ) -> tuple[Tensor, ...]:
        """A reduction over rows and the mean over samples; with gradients where it is one number.

        Args:
            reduction: as for :meth:`map`, but that it returns sums over rows and means over samples.
            arguments: tensors for all blocks.
            by_row: tensors of which a block takes its rows, the last dimension but one.
            is_diagonal: the reduction is :func:`diagonal_squares`.
        """
        whole = self._in_one_piece(is_diagonal)
        if whole is not None:
            return reduction(whole, *arguments, *by_row)
        pieces, samples, rows = self._split(_BLOCK_WAVES)
        shares = [item.split(rows, dim=-2) for item in by_row]
        parts = [torch.tensor(size / self.n_samples, dtype=torch.float64) for size in samples]
        function = self._of_tensors(reduction, pieces[0])

        def weighted(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            part = tensors[-1].item()  # of all samples
            return tuple(part * item for item in function(tensors[:-1]))

        blocks = [
            [
                *_flat(piece),
                *arguments,
                *(share[i % len(rows)] for share in shares),
                parts[i // len(rows)],
            ]
            for i, piece in enumerate(pieces)
        ]
        return blockwise_sum(weighted, blocks)

    def _in_one_piece(self, is_diagonal: bool) -> PieceColumns | None:
        """All columns, where they are kept or need not be made."""
        needs_none = is_diagonal and all(block.is_free or block.is_fused for block in self.blocks)
        return self._everything() if self._kept is None and needs_none else self._kept

    def _of_tensors(self, reduction: Reduction, piece: Piece) -> BlockFunction:
        """A reduction as a function of the tensors of a block, those of its columns first."""
        widths = [len(tensors) for tensors in piece]

        def function(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            columns, others = tensors[: sum(widths)], tensors[sum(widths) :]
            ends = itertools.accumulate(widths)
            own = [columns[end - width : end] for width, end in zip(widths, ends, strict=True)]
            return reduction(PieceColumns(self.blocks, own), *others)

        return function

    def _everything(self) -> PieceColumns:
        """All samples and rows as one block."""
        ((piece,), _, _) = self._split()
        return PieceColumns(self.blocks, piece)

    def _split(self, block_waves: int | None = None) -> tuple[list[Piece], list[int], list[int]]:
        """Tensors of every block of samples and rows, and the sizes of both."""
        size = self.n_samples * self.n_rows
        if block_waves is not None:
            size = block_waves // max(1, self.n_waves)
        row_size = min(self.n_rows, max(1, size))
        sample_size = min(self.n_samples, max(1, size // row_size))
        samples, rows = _sizes(self.n_samples, sample_size), _sizes(self.n_rows, row_size)
        made = [block.pieces(samples, rows) for block in self.blocks]
        return list(zip(*made, strict=True)), samples, rows


def _sizes(total: int, size: int) -> list[int]:
    """Parts of one size and a rest: buffers of equal size are used again."""
    return [size] * (total // size) + [total % size] * (total % size > 0)


def _flat(piece: Piece) -> list[Tensor]:
    return [tensor for tensors in piece for tensor in tensors]


def _assemble(parts: list[Tensor], n_row_blocks: int) -> Tensor:
    lines = [
        torch.cat(parts[i : i + n_row_blocks], dim=-2) for i in range(0, len(parts), n_row_blocks)
    ]
    return lines[0] if len(lines) == 1 else torch.cat(lines)
