"""Noise that is a function of what it is for, so that a run can be repeated or resumed bit by bit."""

from __future__ import annotations

import numpy as np
import torch

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
}


def seed_for(seed: int, stream: str, index: int = 0) -> int:
    """A seed for one purpose: unrelated streams for unrelated purposes."""
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
