"""Memory that is used again: to ask the system for fresh pages costs as much as the sines."""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

_MOST_SIZES = 100  # of tiles whose parts are remembered


class TileMemory(NamedTuple):
    """Buffers of a tile, and their parts: to ask for a part is not free, and tiles are many."""

    cosine: Float[Tensor, "J R K"]
    sine: Float[Tensor, "J R K"]
    cosines: tuple[Float[Tensor, "R K"], ...]
    sines: tuple[Float[Tensor, "R K"], ...]
    value: Float[Tensor, "2 R K"]
    spare: Float[Tensor, "2 R K"]
    values: tuple[Float[Tensor, "R K"], ...]
    spares: tuple[Float[Tensor, "R K"], ...]


class _Workspace(threading.local):
    """Memory of a thread, for one share and one tile at a time."""

    def __init__(self) -> None:
        self.share = self.tile = torch.empty(0)
        self.cut: dict[tuple[int, int, int], TileMemory] = {}

    def of_share(
        self, x: Float[Tensor, "P R"], n_transients: int, n_rows: int
    ) -> tuple[Tensor, ...]:
        """Memory like x, twice, for transients, twice, and for so many rows more."""
        sizes = len(x), len(x), n_transients, n_transients, n_rows
        needed = sum(sizes) * x.shape[1]
        if not _fits(self.share, needed, x):
            self.share = _memory(needed, x)
        return self.share[:needed].view(-1, x.shape[1]).split(sizes)

    def of_tile(self, n_terms: int, n_rows: int, n_columns: int, like: Tensor) -> TileMemory:
        """Buffers for a tile of this size."""
        needed = (2 * n_terms + 4) * n_rows * n_columns
        if not _fits(self.tile, needed, like):
            self.tile, self.cut = _memory(needed, like), {}
        key = n_terms, n_rows, n_columns
        if key not in self.cut:
            if len(self.cut) == _MOST_SIZES:
                self.cut = {}
            parts = self.tile[:needed].view(-1, n_rows, n_columns)
            cosine, sine, value, spare = parts.split([n_terms, n_terms, 2, 2])
            unbound = cosine.unbind(), sine.unbind(), value, spare, value.unbind(), spare.unbind()
            self.cut[key] = TileMemory(cosine, sine, *unbound)
        return self.cut[key]


def _fits(kept: Tensor, needed: int, like: Tensor) -> bool:
    return kept.numel() >= needed and kept.dtype == like.dtype and kept.device == like.device


def _memory(needed: int, like: Tensor) -> Tensor:
    """Memory for everybody, whoever asks first: what inference mode makes, no other mode may change."""
    with torch.inference_mode(False):
        return torch.empty(needed, dtype=like.dtype, device=like.device)


workspace = _Workspace()
