"""How sure a model may be of what it says beyond its rows: decided by rows held out."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplfm.model import DeepLFM
from deeplfm.training.conditioning import statistics
from deeplfm.training.rows import Rows, RowSource

TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
INFLATIONS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
_PRIOR_POWERS = (-1.0, -0.5)  # of a temperature, and of an inflation: a variance
_ROWS_PER_FACT = 30  # neighbouring residuals of a series repeat each other


@torch.no_grad()
def calibrate(model: DeepLFM, inner: RowSource, held_out: Rows) -> None:
    """Set temperature and noise inflation of each output by the density of the held-out rows.

    The mean of their logarithms over the grid, weighted by that density: with few independent
    residuals the best point of the grid is mostly luck. Beforehand twice the temperature is half as
    likely, and so is twice the standard deviation of the noise: rows that say little leave both near
    one, since a temperature also pulls the function towards zero where its values are known.
    """
    is_tempered = model.has_exact_output and model.is_tempered
    temperatures = TEMPERATURES if is_tempered else (1.0,)
    model.likelihood.inflation.fill_(1.0)
    remoteness = model.likelihood.remoteness(held_out.x)
    known_of_inner = statistics(model, inner) if model.has_exact_output else ()
    counts = held_out.counts
    worst = -1e9  # of a prediction that is not a number
    grid, scores = [], []
    for temperature in temperatures:
        model.temperature.fill_(temperature)
        if known_of_inner:
            model.solve(*known_of_inner)
        posterior = model.posterior(held_out.x)
        plain_noise = posterior.component_noise
        for inflation in INFLATIONS:
            posterior.component_noise = plain_noise * inflation**remoteness
            grid.append([temperature, inflation])
            scores.append((posterior.log_prob(held_out.y).nan_to_num(worst) * counts).sum(0))
    density = torch.stack(scores)  # grid D
    logs = torch.tensor(grid, dtype=density.dtype, device=density.device).log()
    prior = logs @ logs.new_tensor(_PRIOR_POWERS)
    share = torch.softmax(density / _ROWS_PER_FACT + prior[:, None], dim=0)
    temperature, inflation = (logs.T @ share).exp()
    set_calibration(model, temperature, inflation)
    if known_of_inner:
        model.solve(*known_of_inner)


def set_calibration(model: DeepLFM, temperature: Tensor, inflation: Tensor) -> None:
    """Write both into a model."""
    model.temperature.copy_(temperature)
    model.likelihood.inflation.copy_(inflation)
