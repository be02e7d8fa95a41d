"""Random streams by purpose and index, so that a run can be repeated or resumed bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

_NAMES = "model step epoch split start prediction draw observation member restart others"
_STREAMS = {name: number for number, name in enumerate(_NAMES.split())}


def seed_for(seed: int, stream: str, index: int = 0) -> int:
    """A seed for one purpose; streams of different purposes are independent."""
    state = np.random.SeedSequence([seed, _STREAMS[stream], index]).generate_state(1, np.uint64)
    return int(state[0] >> 1)  # torch takes signed 64 bits


def generator_for(
    seed: int, stream: str, index: int = 0, device: torch.device | str = "cpu"
) -> torch.Generator:
    """A torch generator for one purpose."""
    return torch.Generator(device).manual_seed(seed_for(seed, stream, index))


def numpy_for(seed: int, stream: str, index: int = 0) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.default_rng(seed_for(seed, stream, index))


def standard_normal(
    n_samples: int,
    shape: Sequence[int],
    like: Tensor,
    generator: torch.Generator | None = None,
    is_antithetic: bool = False,
) -> Float[Tensor, "S ..."]:
    """Standard normal noise for samples; antithetic noise comes in pairs ε, −ε.

    Odd functions of the noise cancel within a pair; they are most of the variance of a gradient.
    """
    n_drawn = (n_samples + 1) // 2 if is_antithetic else n_samples
    noise = torch.randn(n_drawn, *shape, generator=generator, dtype=like.dtype, device=like.device)
    return torch.cat([noise, -noise[: n_samples - n_drawn]]) if is_antithetic else noise


_part: ContextVar[tuple[int, slice] | None] = ContextVar("part", default=None)


@contextmanager
def part_of_batch(n_rows: int, rows: slice) -> Iterator[None]:
    """Rows inside are some of a batch: :func:`noise_of_rows` is what they have in the whole one."""
    before = _part.set((n_rows, rows))
    try:
        yield
    finally:
        _part.reset(before)


def noise_of_rows(
    n_samples: int,
    shape: tuple[int, int],
    like: Tensor,
    generator: torch.Generator | None = None,
    is_antithetic: bool = False,
) -> Float[Tensor, "S N D"]:
    """:func:`standard_normal` noise for each row, which does not depend on how a batch is shared."""
    n_given, width = shape
    n_rows, rows = _part.get() or (n_given, slice(None))
    whole = standard_normal(n_samples, (n_rows, width), like, generator, is_antithetic)
    return whole[:, rows]
