r"""Φ of a layer without holding Φ: columns are made for chunks of samples and rows, and made again.

Everything the model needs of Φ is a reduction: ΦM and Φ²V, φᵀCφ, ΦᵀΛΦ and ΦᵀΛy, ΦW. A reduction
runs over chunks that fit the cache; its backward pass makes each chunk again. So the memory of a step is
set by the chunk, not by the number of samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features.base import Coefficients, FeatureMap
from deeplfm.features.chunks import ChunkFunction, chunkwise, chunkwise_sum
from deeplfm.features.harmonic import HarmonicMap
from deeplfm.features.products import (
    FeatureBlocks,
    LazyColumns,
    add,
    diagonal_moments,
    sample_mean,
    weighted_squares,
)

# Waves (samples × rows × columns × terms) of a chunk, and how many may be kept for the backward pass.
_CHUNK_WAVES, _KEPT_WAVES = 2**19, 2**20
_FEWEST_ROWS = 256  # of a chunk, where samples have columns in common

Reduction = Callable[..., tuple[Tensor, ...]]
Piece = Sequence[Sequence[Tensor]]


class BlockColumns:
    """The columns of one feature map for some inputs.

    Columns that do not depend on the sample are made once, at construction: all where neither inputs
    nor Ω do, the share of the original inputs where the map is a sum over inputs, and all coefficients.
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
                coefficients = features.coefficients(frequency, feature_weight, reach, others)
                self.base = features.basis(original, coefficients)
            elif original.shape[-1]:
                inputs, self.x = slice(None), _join(hidden, original)
        reach = features.extent(self.x, frequency)
        self.coefficients = features.coefficients(frequency, feature_weight, reach, inputs)
        self.extras = features.extra_columns(self.seen) if features.extras else []
        self.whole: FeatureBlocks | None = None
        if self.is_free:
            self.whole = [*features.basis(self.x, self.coefficients), *self.extras]

    @property
    def seen(self) -> Float[Tensor, "*S N P"]:
        """All inputs of the map."""
        return self.x if self.base is None else _join(self.x, self.original)

    @property
    def is_fused(self) -> bool:
        """Whether moments of independent weights need no columns."""
        return self.harmonic is not None

    @property
    def harmonic(self) -> HarmonicMap | None:
        """The map, where moments of independent weights need no columns of it."""
        if self.is_free or not isinstance(self.features, HarmonicMap):
            return None
        return self.features

    @property
    def waves_per_row(self) -> int:
        """Waves to be evaluated for each sample of each row."""
        n_terms = self.x.shape[-1] if self.features.is_additive else 1
        per_term = self.features.n_groups * self.features.n_forces * self.features.n_features
        return 0 if self.is_free else n_terms * per_term

    def pieces(self, samples: list[int], rows: list[int]) -> list[list[Tensor]]:
        """Tensors from which :meth:`make` makes the columns of each chunk, rows varying fastest."""
        if self.whole is not None:
            blocks = zip(*(family.split(rows, dim=-2) for family in self.whole), strict=True)
            return [list(block) for block in blocks] * len(samples)
        coefficients = [list(self.coefficients)] * len(samples)
        if self.is_drawn:
            split = (item.split(samples) for item in self.coefficients)
            coefficients = [list(item) for item in zip(*split, strict=True)]
        columns = [_grid(self.x, self.x.dim() == 3, samples, rows)]
        columns += [_grid(share, False, samples, rows) for share in self.base or ()]
        columns += [_grid(extra, extra.dim() == 4, samples, rows) for extra in self.extras]
        return [
            [*coefficients[i // len(rows)], *(column[i] for column in columns)]
            for i in range(len(samples) * len(rows))
        ]

    def make(self, tensors: Sequence[Tensor]) -> FeatureBlocks:
        """The columns of a chunk, from its tensors."""
        if self.whole is not None:
            return tensors
        x, coefficients, base, extras = self._parts(tensors)
        return [*self.features.basis(x, coefficients, base), *extras]

    def moments(
        self, tensors: Sequence[Tensor], mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """ΦM and Φ²V of a chunk, without making its columns where the block ``is_fused``."""
        if self.harmonic is None:
            return diagonal_moments(self.make(tensors), mean, variance)
        x, coefficients, base, extras = self._parts(tensors)
        waves, others = self._waves_and_extras(mean, variance)
        found = self.harmonic.harmonic_moments(x, coefficients, base, *waves)
        if not extras:
            return found
        rest = diagonal_moments(extras, *others)
        return found[0] + rest[0], found[1] + rest[1]

    def squares(
        self,
        tensors: Sequence[Tensor],
        mean: Tensor,
        variance: Tensor,
        target: Tensor,
        weight: Tensor,
        others: Sequence[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """:func:`weighted_squares` of a chunk, given moments of all other columns; for ``is_fused``."""
        if self.harmonic is None:
            raise ValueError("squares need moments, which this block makes through its columns")
        x, coefficients, base, extras = self._parts(tensors)
        waves, of_extras = self._waves_and_extras(mean, variance)
        if extras:
            others = [*others, diagonal_moments(extras, *of_extras)]
        for known, _ in others:
            target = target - known
        found = self.harmonic.harmonic_squares(x, coefficients, base, *waves, target, weight)
        return sum(((weight * sample_mean(item)).sum() for _, item in others), start=found)

    def _waves_and_extras(
        self, mean: Tensor, variance: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Weights of the waves, and of the columns beside them."""
        width = self.features.n_columns - self.features.n_extra_columns
        waves = mean[..., :width, :], variance[..., :width, :]
        return waves, (mean[..., width:, :], variance[..., width:, :])

    def _parts(
        self, tensors: Sequence[Tensor]
    ) -> tuple[Tensor, Coefficients, tuple[Tensor, ...] | None, Sequence[Tensor]]:
        n_coefficients, n_base = len(self.coefficients), len(self.base or ())
        coefficients, (x, *others) = tensors[:n_coefficients], tensors[n_coefficients:]
        return x, tuple(coefficients), tuple(others[:n_base]) or None, others[n_base:]


class ChunkColumns(LazyColumns):
    """The columns of a layer for one chunk of samples and rows, made when they are used."""

    def __init__(self, blocks: Sequence[BlockColumns], tensors: Sequence[Sequence[Tensor]]) -> None:
        self._blocks, self._tensors = blocks, tensors
        self._made: list[list[Tensor]] | None = None
        self._has_gradient = torch.is_grad_enabled()

    @property
    def families(self) -> list[list[Tensor]]:
        """Families of columns of each feature map."""
        if self._made is None:
            pairs = zip(self._blocks, self._tensors, strict=True)
            with torch.set_grad_enabled(self._has_gradient):  # whatever the mode of the first use
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
        """ΦM and Φ²V, feature map by feature map: some need no columns."""
        weights = self._by_block(mean, variance)
        means, variances = zip(*map(self._moments, range(len(weights)), weights), strict=True)
        return add(list(means)), add(list(variances))

    def diagonal_squares(
        self, mean: Tensor, variance: Tensor, target: Tensor, weight: Tensor
    ) -> Tensor:
        """Σ λ((y − ΦM)² + Φ²V): with its gradient in one pass, by the last map that needs no columns."""
        fused = [i for i, block in enumerate(self._blocks) if block.is_fused]
        if not fused or self._made is not None or not torch.is_grad_enabled():
            return weighted_squares(*self.diagonal_moments(mean, variance), target, weight)
        weights, last = self._by_block(mean, variance), fused[-1]
        others = [self._moments(i, item) for i, item in enumerate(weights) if i != last]
        return self._blocks[last].squares(
            self._tensors[last], *weights[last], target, weight, others
        )

    def _by_block(self, mean: Tensor, variance: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The weights of every feature map."""
        widths = [block.features.n_columns for block in self._blocks]
        return list(zip(mean.split(widths, -2), variance.split(widths, -2), strict=True))

    def _moments(self, i: int, weights: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        if self._made is not None:
            return diagonal_moments(self._made[i], *weights)
        return self._blocks[i].moments(self._tensors[i], *weights)


class LayerColumns:
    """All columns of a layer, the blocks of feature maps side by side."""

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
            reduction: takes the columns of a chunk and the arguments, and returns matrices with a
                row for each row; no other tensor with a gradient may enter.
            arguments: tensors for all chunks.
            by_sample: tensors of which a chunk takes its samples.
            is_diagonal: the reduction is :func:`diagonal_moments`; where it needs no columns, it
                needs no chunks.
        """
        whole = self._in_one_piece(is_diagonal)
        if whole is not None:
            return reduction(whole, *arguments, *by_sample)
        pieces, samples, rows = self._split(_CHUNK_WAVES)
        shares = [item.split(samples) for item in by_sample]
        blocks = [
            [*_flat(piece), *arguments, *(share[i // len(rows)] for share in shares)]
            for i, piece in enumerate(pieces)
        ]
        parts = chunkwise(self._of_tensors(reduction, pieces[0]), blocks)
        return tuple(_assemble(list(part), len(rows)) for part in zip(*parts, strict=True))

    def total(
        self,
        reduction: Reduction,
        *arguments: Tensor,
        by_row: Sequence[Tensor] = (),
        is_diagonal: bool = False,
    ) -> tuple[Tensor, ...]:
        """A reduction over rows and the mean over samples; with gradients where it is one number."""
        whole = self._in_one_piece(is_diagonal)
        if whole is not None:
            return reduction(whole, *arguments, *by_row)
        pieces, samples, rows = self._split(_CHUNK_WAVES)
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
        return chunkwise_sum(weighted, blocks)

    def _in_one_piece(self, is_diagonal: bool) -> ChunkColumns | None:
        """All columns, where they are kept or need not be made."""
        needs_none = is_diagonal and all(block.is_free or block.is_fused for block in self.blocks)
        return self._everything() if self._kept is None and needs_none else self._kept

    def _of_tensors(self, reduction: Reduction, piece: Piece) -> ChunkFunction:
        """A reduction as a function of the tensors of a chunk, those of its columns first."""
        widths = [len(tensors) for tensors in piece]

        def function(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            columns, others = tensors[: sum(widths)], tensors[sum(widths) :]
            ends = itertools.accumulate(widths)
            own = [columns[end - width : end] for width, end in zip(widths, ends, strict=True)]
            return reduction(ChunkColumns(self.blocks, own), *others)

        return function

    def _everything(self) -> ChunkColumns:
        """All samples and rows as one chunk."""
        ((piece,), _, _) = self._split()
        return ChunkColumns(self.blocks, piece)

    def _split(self, chunk_waves: int | None = None) -> tuple[list[Piece], list[int], list[int]]:
        """Tensors of every chunk of samples and rows, and the sizes of both."""
        size = self.n_samples * self.n_rows
        if chunk_waves is not None:
            size = chunk_waves // max(1, self.n_waves)
        row_size = min(self.n_rows, max(1, size))
        if any(block.is_free for block in self.blocks):  # each chunk repeats their products
            row_size = min(row_size, max(_FEWEST_ROWS, size // self.n_samples))
        sample_size = min(self.n_samples, max(1, size // row_size))
        samples, rows = _sizes(self.n_samples, sample_size), _sizes(self.n_rows, row_size)
        made = [block.pieces(samples, rows) for block in self.blocks]
        return list(zip(*made, strict=True)), samples, rows


def _sizes(total: int, size: int) -> list[int]:
    """Parts of one size and a rest: buffers of equal size are used again."""
    return [size] * (total // size) + [total % size] * (total % size > 0)


def _flat(piece: Piece) -> list[Tensor]:
    return [tensor for tensors in piece for tensor in tensors]


def _assemble(parts: list[Tensor], n_row_chunks: int) -> Tensor:
    lines = [
        torch.cat(parts[i : i + n_row_chunks], dim=-2) for i in range(0, len(parts), n_row_chunks)
    ]
    return lines[0] if len(lines) == 1 else torch.cat(lines)


def _join(hidden: Tensor, original: Tensor) -> Float[Tensor, "S N HP"]:
    return torch.cat([hidden, original.expand(*hidden.shape[:-1], -1)], dim=-1)


def _grid(item: Tensor, is_sampled: bool, samples: list[int], rows: list[int]) -> list[Tensor]:
    """Chunks of *S … N ·, rows varying fastest; the backward pass of a split is one concatenation."""
    if len(samples) == len(rows) == 1:  # not even that
        return [item]
    parts = item.split(samples) if is_sampled else [item]
    blocks = [block for part in parts for block in part.split(rows, dim=-2)]
    return blocks if is_sampled else blocks * len(samples)
