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
from jaxtyping import Float
from torch import Tensor

from deeplfm.blockwise import blockwise
from deeplfm.features import FeatureMap
from deeplfm.features.base import Tables
from deeplfm.variational.products import FeatureBlocks, LazyColumns, add, diagonal_moments

# Waves (samples × rows × columns × terms) of a block, and how many may be kept for the backward pass.
_BLOCK_WAVES, _KEPT_WAVES = 2**19, 2**20
# The same where columns are never made, and only transients of the rows are.
_FUSED_WAVES, _KEPT_FUSED_WAVES = 2**23, 2**24

Reduction = Callable[..., tuple[Tensor, ...]]
Piece = Sequence[Sequence[Tensor]]


class BlockColumns:
    """The columns of one feature map for some inputs.

    What does not depend on the sample is done once, at construction: all columns where neither inputs
    nor Ω do, the share of the original inputs where the map is a sum over inputs, and all tables.

    Args:
        features: the map.
        frequency: Ω.
        feature_weight: prior standard deviation of each wave within its force.
        original: inputs that are the same for all samples.
        hidden: inputs that differ by sample; they come first.
    """

    def __init__(
        self,
        features: FeatureMap,
        frequency: Float[Tensor, "*S G P Q M"],
        feature_weight: Float[Tensor, " M"],
        original: Float[Tensor, "N P"],
        hidden: Float[Tensor, "S N H"] | None = None,
    ) -> None:
        self.features, self.original, self.hidden = features, original, hidden
        self.is_drawn = frequency.dim() == 5
        self.is_free = hidden is None and not self.is_drawn
        inputs, self.x = slice(None), original
        self.base: tuple[Tensor, ...] | None = None
        if hidden is not None:
            inputs, self.x = slice(0, hidden.shape[-1]), hidden
            others = slice(hidden.shape[-1], None)
            if features.is_additive and not self.is_drawn and original.shape[-1]:
                reach = features.extent(original, frequency)
                tables = features.tables(frequency, feature_weight, reach, others)
                self.base = features.waves(original, tables)
            elif original.shape[-1]:
                inputs, self.x = slice(None), _join(hidden, original)
        reach = features.extent(self.x, frequency)
        self.tables = features.tables(frequency, feature_weight, reach, inputs)
        self.extras = features.extra_columns(self.seen) if features.extras else []
        self.whole: FeatureBlocks | None = None
        if self.is_free:
            self.whole = [*features.waves(self.x, self.tables), *self.extras]

    @property
    def seen(self) -> Float[Tensor, "*S N P"]:
        """All inputs of the map."""
        return self.x if self.base is None else _join(self.x, self.original)

    @property
    def is_fused(self) -> bool:
        """Whether moments of independent weights need no columns."""
        return not self.is_free and self.features.has_wave_moments(self.tables)

    @property
    def waves_per_row(self) -> int:
        """Waves to be evaluated for each sample of each row."""
        n_terms = self.x.shape[-1] if self.features.is_additive else 1
        per_term = self.features.n_groups * self.features.n_forces * self.features.n_features
        return 0 if self.is_free else n_terms * per_term

    def pieces(self, samples: list[int], rows: list[int]) -> list[list[Tensor]]:
        """Tensors of which :meth:`make` makes the columns of each block, rows varying fastest."""
        if self.whole is not None:
            blocks = zip(*(family.split(rows, dim=-2) for family in self.whole), strict=True)
            return [list(block) for block in blocks] * len(samples)
        tables = [list(self.tables)] * len(samples)
        if self.is_drawn:
            split = (table.split(samples) for table in self.tables)
            tables = [list(table) for table in zip(*split, strict=True)]
        columns = [_grid(self.x, self.x.dim() == 3, samples, rows)]
        columns += [_grid(share, False, samples, rows) for share in self.base or ()]
        columns += [_grid(extra, extra.dim() == 4, samples, rows) for extra in self.extras]
        return [
            [*tables[i // len(rows)], *(column[i] for column in columns)]
            for i in range(len(samples) * len(rows))
        ]

    def make(self, tensors: Sequence[Tensor]) -> FeatureBlocks:
        """The columns of a block, from its tensors."""
        if self.whole is not None:
            return tensors
        x, tables, base, extras = self._parts(tensors)
        return [*self.features.waves(x, tables, base), *extras]

    def moments(
        self, tensors: Sequence[Tensor], mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """ΦM and Φ²V of a block without making its columns; for one that ``is_fused``."""
        x, tables, base, extras = self._parts(tensors)
        width = self.features.n_columns - self.features.n_extra_columns
        waves, others = mean[..., :width, :], mean[..., width:, :]
        wave_variance, other_variance = variance[..., :width, :], variance[..., width:, :]
        found = self.features.wave_moments(x, tables, base, waves, wave_variance)
        if not extras:
            return found
        rest = diagonal_moments(extras, others, other_variance)
        return found[0] + rest[0], found[1] + rest[1]

    def _parts(
        self, tensors: Sequence[Tensor]
    ) -> tuple[Tensor, Tables, tuple[Tensor, ...] | None, Sequence[Tensor]]:
        n_tables, n_base = len(self.tables), len(self.base or ())
        tables, x, others = tensors[:n_tables], tensors[n_tables], tensors[n_tables + 1 :]
        return x, tuple(tables), tuple(others[:n_base]) or None, others[n_base:]


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
        self._kept: PieceColumns | None = None
        if n_samples * n_rows * self.n_waves <= _KEPT_WAVES:
            ((piece,), _, _) = self._split()
            self._kept = PieceColumns(blocks, piece)

    def whole(self) -> FeatureBlocks:
        """Φ itself, by families of columns; for few samples and rows."""
        ((piece,), _, _) = self._split()
        return list(self._kept or PieceColumns(self.blocks, piece))

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
            is_diagonal: the reduction is :func:`diagonal_moments`; where it needs no columns, blocks
                may be larger.
        """
        if self._kept is not None:
            return reduction(self._kept, *arguments, *by_sample)
        pieces, samples, rows = self._split(self._fused_waves() if is_diagonal else _BLOCK_WAVES)
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

    def _fused_waves(self) -> int | None:
        """Waves of a block of a reduction that needs no columns where feature maps can do without."""
        if not all(block.is_free or block.is_fused for block in self.blocks):
            return _BLOCK_WAVES
        n_waves = self.n_samples * self.n_rows * self.n_waves
        return None if n_waves <= _KEPT_FUSED_WAVES else _FUSED_WAVES

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


def _join(hidden: Tensor, original: Tensor) -> Float[Tensor, "S N HP"]:
    return torch.cat([hidden, original.expand(*hidden.shape[:-1], -1)], dim=-1)


def _grid(item: Tensor, is_sampled: bool, samples: list[int], rows: list[int]) -> list[Tensor]:
    """Blocks of *S … N ·, rows varying fastest; split, whose backward pass is one concatenation."""
    parts = item.split(samples) if is_sampled else [item]
    blocks = [block for part in parts for block in part.split(rows, dim=-2)]
    return blocks if is_sampled else blocks * len(samples)


def _sizes(total: int, size: int) -> list[int]:
    """Parts of one size and a rest: buffers of equal size are used again."""
    return [size] * (total // size) + [total % size] * (total % size > 0)


def _assemble(parts: list[Tensor], n_row_blocks: int) -> Tensor:
    lines = [
        torch.cat(parts[i : i + n_row_blocks], dim=-2) for i in range(0, len(parts), n_row_blocks)
    ]
    return lines[0] if len(lines) == 1 else torch.cat(lines)
