"""Stochastic gradient descent on batches of rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from deeplfm.errors import TrainingDivergedError
from deeplfm.randomness import generator_for

_FINAL_RATE = 0.05  # of the first


def descend(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[Tensor], Tensor],
    n_rows: int,
    *,
    n_steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    owner: str,
    time_limit: float | None = None,
    every: Callable[[int], None] = lambda _: None,
) -> float:
    """AdamW whose rate falls in a straight line; returns the mean loss of the last tenth."""
    started = time.monotonic()

    def done(step: int) -> float:
        """Share of the steps or of the time, whichever is more."""
        used = 0.0 if time_limit is None else (time.monotonic() - started) / max(time_limit, 1e-9)
        return min(1.0, max(step / n_steps, used))

    optimiser = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: 1 - (1 - _FINAL_RATE) * done(step)
    )
    losses: list[float] = []
    for step, batch in enumerate(_batches(n_rows, batch_size, seed), 1):
        optimiser.zero_grad()
        value = loss(batch)
        if not value.isfinite():
            raise TrainingDivergedError(
                f"{owner}.fit: the loss became {value.item()} at step {step}. Check the data for "
                "extreme values."
            )
        value.backward()
        optimiser.step()
        rate.step()
        losses.append(value.item())
        every(step)
        if done(step) >= 1:
            break
    last = losses[-(-len(losses) * 9 // 10) :] or losses[-1:]
    return sum(last) / len(last)


def _batches(n_rows: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    epoch = 0
    while True:
        order = torch.randperm(n_rows, generator=generator_for(seed, "epoch", epoch))
        yield from order.split(batch_size)
        epoch += 1
