"""Shares of a kernel's work on threads of its own, one for each of PyTorch's.

PyTorch splits every operation among its threads and waits for all of them at its end. Tiles that fit
the cache are too small for that; but whole tiles may be taken by threads that never wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier, Event
from typing import TypeVar

import torch

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # threads do not come along
    os.register_at_fork(after_in_child=_pools.clear)


def on_threads(
    work: Callable[[Iterator[int]], Result], n_shares: int, n_threads: int
) -> list[Result]:
    """What each thread makes of its shares: every so-manyth, so that sums have the same bits each time.

    Gradients are not recorded. Where one fails, the others stop before their next share. While shares
    are done, PyTorch gives a single thread to whoever first asks it for any.

    Args:
        work: called once by each thread, with the numbers of its shares.
        n_shares: shares in all.
        n_threads: how many threads; one is the caller's own.
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
    """So many threads or more, on each of which PyTorch uses no others."""
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
