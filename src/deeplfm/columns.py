r"""Φ of a layer without holding Φ: columns are made for blocks of samples and rows, and made again.

Everything the model needs of Φ is a reduction: ΦM and Φ²V, φᵀCφ, ΦᵀΛΦ and ΦᵀΛy, ΦW. A reduction
runs over blocks that fit the cache; its backward pass makes each block anew. So the memory of a step is
set by the block, not by the number of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from deeplfm.block_columns import BlockColumns
from deeplfm.blockwise import blockwise
from deeplfm.variational.products import FeatureBlocks, LazyColumns, add, diagonal_moments

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
        widths = [block.features.n_columns for block in self._blocks]
        parts = zip(mean.split(widths, -2), variance.split(widths, -2), strict=True)
        means, variances = [], []
        for i, (block_mean, block_variance) in enumerate(parts):
            block, tensors = self._blocks[i], self._tensors[i]
            if self._made is None and block.is_fused:
                found = block.moments(tensors, block_mean, block_variance)
            else:
                columns = block.make(tensors) if self._made is None else self._made[i]
                found = diagonal_moments(columns, block_mean, block_variance)
            means.append(found[0])
            variances.append(found[1])
        return add(means), add(variances)


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
        if self._kept is not None:
            return reduction(self._kept, *arguments, *by_sample)
        if is_diagonal and all(block.is_free or block.is_fused for block in self.blocks):
            return reduction(self._everything(), *arguments, *by_sample)
        pieces, samples, rows = self._split(_BLOCK_WAVES)
        shares = [item.split(samples) for item in by_sample]
        widths = [len(tensors) for tensors in pieces[0]]

        def function(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            piece, start = [], 0
            for width in widths:
                piece.append(tensors[start : start + width])
                start += width
            return reduction(PieceColumns(self.blocks, piece), *tensors[start:])

        blocks = [
            [
                *(tensor for tensors in piece for tensor in tensors),
                *arguments,
                *(share[i // len(rows)] for share in shares),
            ]
            for i, piece in enumerate(pieces)
        ]
        parts = blockwise(function, blocks)
        return tuple(_assemble(list(part), len(rows)) for part in zip(*parts, strict=True))

    @torch.no_grad()
    def total(self, reduction: Reduction, *by_row: Tensor) -> tuple[Tensor, ...]:
        """A reduction over rows and the mean over samples, without gradients.

        Args:
            reduction: takes the columns of a block and the arguments.
            by_row: tensors of which a block takes its rows, the last dimension but one.
        """
        if self._kept is not None:
            return reduction(self._kept, *by_row)
        pieces, samples, rows = self._split(_BLOCK_WAVES)
        shares = [item.split(rows, dim=-2) for item in by_row]
        totals: list[Tensor] = []
        for i, piece in enumerate(pieces):
            part = samples[i // len(rows)] / self.n_samples
            known = [share[i % len(rows)] for share in shares]
            found = [part * item for item in reduction(PieceColumns(self.blocks, piece), *known)]
            totals = [a.add_(b) for a, b in zip(totals, found, strict=True)] if totals else found
        return tuple(totals)

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


def _assemble(parts: list[Tensor], n_row_blocks: int) -> Tensor:
    lines = [
        torch.cat(parts[i : i + n_row_blocks], dim=-2) for i in range(0, len(parts), n_row_blocks)
    ]
    return lines[0] if len(lines) == 1 else torch.cat(lines)
