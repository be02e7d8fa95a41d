"""Rows shared among threads, and memory that each thread uses again.

PyTorch splits every operation among its threads and waits for all of them at its end. Tiles that fit
the cache are too small for that; but whole tiles may be taken by threads that never wait.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier, Event
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
Rectangle = tuple[slice, slice]  # samples, and rows of each

_MOST_SHAPES = 100  # of tiles whose parts are kept
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # threads do not come along
    os.register_at_fork(after_in_child=_pools.clear)


def on_threads(
    work: Callable[[Iterator[int]], Result], n_shares: int, n_threads: int
) -> list[Result]:
    """Results of all threads; each takes every n-th share, so that sums have the same bits each time.

    Gradients are not recorded. If one thread fails, the others stop before their next share. While
    shares are done, a new thread that calls PyTorch gets a single thread from it.
    """
    is_inference, has_failed = torch.is_inference_mode_enabled(), Event()

    def shares(first: int) -> Iterator[int]:
        for share in range(first, n_shares, n_threads):
            if has_failed.is_set():
                return
            yield share

    def run(first: int) -> Result:
        try:  # modes are each thread's own
            with torch.inference_mode(is_inference), torch.no_grad():
                return work(shares(first))
        except BaseException:
            has_failed.set()
            raise

    if n_threads == 1:
        return [run(0)]
    n_before = torch.get_num_threads()
    others = [_pool(n_threads - 1).submit(run, first) for first in range(1, n_threads)]
    try:  # the caller does not wait for another thread to wake up
        _work_alone()
        own = run(0)
    finally:
        torch.set_num_threads(n_before)
        wait(others)
    return [own, *(other.result() for other in others)]


def _pool(n_threads: int) -> ThreadPoolExecutor:
    """A pool of at least so many threads, on each of which PyTorch uses no others."""
    n_threads = min((size for size in _pools if size >= n_threads), default=n_threads)
    if n_threads not in _pools:
        n_before, all_there = torch.get_num_threads(), Barrier(n_threads)
        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="deeplfm", initializer=_work_alone)
        list(pool.map(lambda _: all_there.wait(), range(n_threads)))
        torch.set_num_threads(n_before)  # for threads to come: each call of it changes that, too
        _pools[n_threads] = pool
    return _pools[n_threads]


def _work_alone() -> None:
    torch.get_num_threads()  # the first call on a thread may set their number
    torch.set_num_threads(1)


def rectangles(whole: Rectangle, most: int, multiple: int = 1) -> list[Rectangle]:
    """Even parts of at most so many rows: all rows of some samples, or some rows of one."""
    (samples, rows), (_, n_rows) = whole, shape_of(whole)
    row_parts = _parts(rows, most, 1 if n_rows <= most else multiple)
    sample_parts = _parts(
        samples, max(1, most // max(1, n_rows)), multiple if n_rows <= most else 1
    )
    return [(some, part) for some in sample_parts for part in row_parts]


def shape_of(whole: Rectangle) -> tuple[int, int]:
    """Number of samples, and of rows of each."""
    samples, rows = whole
    return samples.stop - samples.start, rows.stop - rows.start


def _parts(whole: slice, most: int, multiple: int) -> list[slice]:
    """Parts that differ by one at most; their number is a multiple, if there is enough to share."""
    size = whole.stop - whole.start
    n_parts = max(1, min(size, multiple * math.ceil(math.ceil(size / most) / multiple)))
    edges = [whole.start + size * part // n_parts for part in range(n_parts + 1)]
    return [slice(*pair) for pair in itertools.pairwise(edges)]


class TileShape(NamedTuple):
    """Sizes of a tile."""

    n_terms: int
    n_samples: int
    n_rows: int
    n_columns: int
    n_starts: tuple[int, ...]  # columns, from the first on, that may have each kind of transients

    @property
    def n_all(self) -> int:
        """Rows R = SN of all samples."""
        return self.n_samples * self.n_rows

    @property
    def n_values(self) -> int:
        """Entries of all buffers."""
        return (2 * self.n_terms + 4) * self.n_all * self.n_columns


class TileMemory:
    """Buffers of a tile, and their parts: views cost time, and tiles are many."""

    def __init__(self, memory: Tensor, shape: TileShape) -> None:
        n_terms, n_samples, n_rows, n_columns, n_starts = shape
        waves, self.value, self.spare = memory.view(-1, shape.n_all, n_columns).split(
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
    """Memory of a thread, for one share and one tile at a time: fresh pages cost as much as the sines."""

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
    """Memory made outside inference mode, which would keep all other modes from changing it."""
    with torch.inference_mode(False):
        return torch.empty(needed, dtype=like.dtype, device=like.device)


workspace = _Workspace()
