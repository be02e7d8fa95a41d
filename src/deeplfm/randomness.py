"""Random streams by purpose and index, so that a run can be repeated or resumed bit by bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

_STREAMS = {
    "model": 0,
    "step": 1,
    "epoch": 2,
    "split": 3,
    "start": 4,
    "prediction": 5,
    "draw": 6,
    "observation": 7,
    "member": 8,
    "restart": 9,
}


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

    Args:
        n_samples: number S of samples.
        shape: shape of one sample.
        like: tensor of the dtype and device to use.
        generator: source of noise.
        is_antithetic: whether to pair samples; the last of an odd number is alone.
    """
    n_drawn = (n_samples + 1) // 2 if is_antithetic else n_samples
    noise = torch.randn(n_drawn, *shape, generator=generator, dtype=like.dtype, device=like.device)
    return torch.cat([noise, -noise[: n_samples - n_drawn]]) if is_antithetic else noise
