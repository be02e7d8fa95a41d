r"""The columns of one feature map: what no sample changes is made once, the rest by blocks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features import FeatureMap
from deeplfm.features.base import Coefficients
from deeplfm.features.harmonic import HarmonicMap
from deeplfm.variational.products import FeatureBlocks, diagonal_moments, sample_mean


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
                tables = features.coefficients(frequency, feature_weight, reach, others)
                self.base = features.basis(original, tables)
            elif original.shape[-1]:
                inputs, self.x = slice(None), _join(hidden, original)
        reach = features.extent(self.x, frequency)
        self.tables = features.coefficients(frequency, feature_weight, reach, inputs)
        self.extras = features.extra_columns(self.seen) if features.extras else []
        self.whole: FeatureBlocks | None = None
        if self.is_free:
            self.whole = [*features.basis(self.x, self.tables), *self.extras]

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
        return [*self.features.basis(x, tables, base), *extras]

    def moments(
        self, tensors: Sequence[Tensor], mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """ΦM and Φ²V of a block, without making its columns where it ``is_fused``."""
        if self.harmonic is None:
            return diagonal_moments(self.make(tensors), mean, variance)
        x, tables, base, extras = self._parts(tensors)
        waves, others = self._waves_and_extras(mean, variance)
        found = self.harmonic.harmonic_moments(x, tables, base, *waves)
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
        """:func:`weighted_squares` of a block that ``is_fused``, given moments of all other columns."""
        if self.harmonic is None:
            raise ValueError("squares need moments, which this block makes through its columns")
        x, tables, base, extras = self._parts(tensors)
        waves, of_extras = self._waves_and_extras(mean, variance)
        if extras:
            others = [*others, diagonal_moments(extras, *of_extras)]
        for known, _ in others:
            target = target - known
        found = self.harmonic.harmonic_squares(x, tables, base, *waves, target, weight)
        return sum(((weight * sample_mean(item)).sum() for _, item in others), start=found)

    def _waves_and_extras(
        self, mean: Tensor, variance: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Tables of weights for the waves, and for the columns beside them."""
        width = self.features.n_columns - self.features.n_extra_columns
        waves = mean[..., :width, :], variance[..., :width, :]
        return waves, (mean[..., width:, :], variance[..., width:, :])

    def _parts(
        self, tensors: Sequence[Tensor]
    ) -> tuple[Tensor, Coefficients, tuple[Tensor, ...] | None, Sequence[Tensor]]:
        n_tables, n_base = len(self.tables), len(self.base or ())
        tables, x, others = tensors[:n_tables], tensors[n_tables], tensors[n_tables + 1 :]
        return x, tuple(tables), tuple(others[:n_base]) or None, others[n_base:]


def _join(hidden: Tensor, original: Tensor) -> Float[Tensor, "S N HP"]:
    return torch.cat([hidden, original.expand(*hidden.shape[:-1], -1)], dim=-1)


def _grid(item: Tensor, is_sampled: bool, samples: list[int], rows: list[int]) -> list[Tensor]:
    """Blocks of *S … N ·, rows varying fastest; split, whose backward pass is one concatenation."""
    if len(samples) == len(rows) == 1:  # not even that
        return [item]
    parts = item.split(samples) if is_sampled else [item]
    blocks = [block for part in parts for block in part.split(rows, dim=-2)]
    return blocks if is_sampled else blocks * len(samples)
