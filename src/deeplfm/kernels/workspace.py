"""Memory that is used again: to ask the system for fresh pages costs as much as the sines."""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch
from torch import Tensor

_MOST_SHAPES = 100  # of tiles whose parts are remembered


class TileShape(NamedTuple):
    """Sizes of a tile.

    Attributes:
        n_terms: number J of terms.
        n_samples: number S of samples.
        n_rows: number N of rows of each.
        n_columns: number K of columns.
        n_starts: for each kind of transients how many columns, from the first on, may have them.
    """

    n_terms: int
    n_samples: int
    n_rows: int
    n_columns: int
    n_starts: tuple[int, ...]

    @property
    def n_lines(self) -> int:
        """Rows R = SN of all samples."""
        return self.n_samples * self.n_rows

    @property
    def n_values(self) -> int:
        """Entries of all buffers."""
        return (2 * self.n_terms + 4) * self.n_lines * self.n_columns


class TileMemory:
    """Buffers of a tile, and their parts: to ask for a part is not free, and tiles are many.

    Args:
        memory: as many entries as the shape asks for.
        shape: of the tile.
    """

    def __init__(self, memory: Tensor, shape: TileShape) -> None:
        n_terms, n_samples, n_rows, n_columns, n_starts = shape
        waves, self.value, self.spare = memory.view(-1, shape.n_lines, n_columns).split(
            [2 * n_terms, 2, 2]
        )  # each with its real and its imaginary part: 2 R K
        waves = waves.unflatten(0, (2, n_terms))
        self.cosine, self.sine = waves.unbind()  # J R K
        self.cosines, self.waves = self.cosine.unbind(), waves.unbind(1)
        self.values, self.spares = self.value.unbind(), self.spare.unbind()
        self.first_wave_by_sample, self.value_by_sample, self.spare_by_sample = (
            item.unflatten(1, (n_samples, n_rows))
            for item in (self.waves[0], self.value, self.spare)
        )
        self.value_starts = [self.value[..., :n] for n in n_starts]
        self.spare_starts = [self.spare[..., :n] for n in n_starts]
        self.turned_spare_starts = [start.mT.unbind() for start in self.spare_starts]
        self.turned_value = self.value.flatten(0, 1).mT  # K 2R
        self.ones = torch.ones_like(self.turned_value[0])


class _Workspace(threading.local):
    """Memory of a thread, for one share and one tile at a time."""

    def __init__(self) -> None:
        self.share = self.tile = torch.empty(0)
        self.parts: dict[TileShape, TileMemory] = {}

    def of_share(self, n_rows: int, sizes: list[int], like: Tensor) -> tuple[Tensor, ...]:
        """Memory for several tensors of these sizes, each entry for so many rows, which come last."""
        needed = sum(sizes) * n_rows
        if not _fits(self.share, needed, like):
            self.share = _memory(needed, like)
        return self.share[:needed].view(-1, n_rows).split(sizes)

    def of_tile(self, shape: TileShape, like: Tensor) -> TileMemory:
        """Buffers for a tile of this shape."""
        needed = shape.n_values
        if not _fits(self.tile, needed, like):
            self.tile, self.parts = _memory(needed, like), {}
        if shape not in self.parts:
            if len(self.parts) == _MOST_SHAPES:
                self.parts = {}
            with torch.inference_mode(False):
                self.parts[shape] = TileMemory(self.tile[:needed], shape)
        return self.parts[shape]


def _fits(kept: Tensor, needed: int, like: Tensor) -> bool:
    return kept.numel() >= needed and kept.dtype == like.dtype and kept.device == like.device


def _memory(needed: int, like: Tensor) -> Tensor:
    """Memory for everybody, whoever asks first: what inference mode makes, no other mode may change."""
    with torch.inference_mode(False):
        return torch.empty(needed, dtype=like.dtype, device=like.device)


workspace = _Workspace()
