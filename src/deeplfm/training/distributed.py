"""Several processes that fit one model together, under ``torchrun`` or another launcher of PyTorch.

Each process reads its part of the rows of a batch, and sums over rows are added up over all processes.
Everything else, such as initial values, noise, decisions and the step of the optimiser, is a function of
seeds and of these sums, so that all processes do the same, and the same as one process with all rows.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import parent_process
from typing import Any, TypeVar

import torch
import torch.distributed as group
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.training.progress import no_bars

Value = TypeVar("Value")


@dataclass(frozen=True)
class World:
    """The processes of a fit; the default is this one alone.

    Attributes:
        rank: number of this process.
        size: number of processes.
        host: number of the first process on this machine.

    >>> World(rank=1, size=4).part(10)
    slice(2, 5, None)
    >>> World().sum_(torch.ones(2))
    [tensor([1., 1.])]
    """

    rank: int = 0
    size: int = 1
    host: int = 0

    @property
    def writes(self) -> bool:
        """Whether this process writes files that all would write alike."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """The share of this process in n rows: consecutive ones, in the order of the processes."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def share(self, n: int, what: str) -> slice:
        """The same, of rows of which each process must have some."""
        if n < self.size:
            raise ConfigError(
                f"fit: {self.size} processes cannot share {n} {what}. Start fewer processes, or "
                "give more rows."
            )
        return self.part(n)

    def sum_(self, *tensors: Tensor) -> list[Tensor]:
        """Sums over all processes: the same bits in each."""
        if self.size == 1:
            return [*tensors]
        total = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
        group.all_reduce(total)
        parts = total.split([tensor.numel() for tensor in tensors])
        return [p.view_as(t).to(t.dtype) for p, t in zip(parts, tensors, strict=True)]

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes, in their order."""
        found: list[Any] = [value]
        if self.size > 1:
            found = [None] * self.size
            group.all_gather_object(found, value)
        return found

    def same(self, make: Callable[[], Value]) -> Value:
        """A value that the first process makes, in all of them."""
        if self.size == 1:
            return make()
        found = [make() if self.rank == 0 else None]
        group.broadcast_object_list(found, src=0)
        return found[0]  # type: ignore[return-value]


_world: ContextVar[World | None] = ContextVar("world", default=None)


def world() -> World:
    """The processes of the current fit."""
    return _world.get() or World()


@contextmanager
def together(device: str = "cpu") -> Iterator[World]:
    """Join the other processes of this launch for the work inside; without any, this one is alone.

    Args:
        device: of the model. On ``"cuda"``, each process of a machine takes a GPU of its own.
    """
    if (current := _world.get()) is not None:
        yield current
        return
    found = _joined(device)
    with _set(found), nullcontext() if found.rank == 0 else no_bars():
        yield found


@contextmanager
def alone() -> Iterator[None]:
    """Let each process of a launch fit models of its own inside.

    >>> with alone():
    ...     world().size
    1
    """
    with _set(World()):
        yield


def is_launched() -> bool:
    """Whether this process was started by ``torchrun``, or has joined others by itself.

    Workers that such a process starts for other purposes are not meant.
    """
    if not group.is_available() or parent_process() is not None:
        return False
    return group.is_initialized() or group.is_torchelastic_launched()


def _joined(device: str) -> World:
    if not is_launched():
        return World()
    is_cuda = torch.device(device).type == "cuda"
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if is_cuda:
        torch.cuda.set_device(local_rank)
    if not group.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if is_cuda else "gloo"
        store, rank, size = next(group.rendezvous("env://"))
        if os.environ.get("GROUP_WORLD_SIZE") == "1":
            # On one machine torchrun keeps its store when it restarts processes, and what the dead ones
            # have written there. Several machines count restarts differently.
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = group.PrefixStore(f"attempt {attempt}", store)
        group.init_process_group(backend, store=store, rank=rank, world_size=size)
        atexit.register(_leave)
    rank = group.get_rank()
    return World(rank, group.get_world_size(), rank - local_rank)


def _leave() -> None:
    if group.is_initialized():
        group.destroy_process_group()


def check_same(what: dict[str, Any]) -> None:
    """Refuse processes that would fit different things: they would wait for each other for ever."""
    first, *others = world().gather(what)
    for rank, other in enumerate(others, start=1):
        differences = [key for key in first if first[key] != other[key]]
        if differences:
            key = differences[0]
            raise ConfigError(
                f"fit: processes 0 and {rank} of torchrun differ in {key} ({first[key]} and "
                f"{other[key]}), but all fit one model together. Give all the same, or fit a model in "
                "each one inside `with deeplfm.training.distributed.alone():`."
            )


@contextmanager
def _set(found: World) -> Iterator[None]:
    before = _world.set(found)
    try:
        yield
    finally:
        _world.reset(before)
