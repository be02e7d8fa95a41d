"""Rows as series, and starting values that several terms set in the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.layers import Block, Layer
from deeplfm.training import Rows
from deeplfm.variational import MeanField

Array = NDArray[np.float64]

_AT_ONCE = 0.1  # of the mean step: closer readings may be one, repeated
_OFF_GRID, _FINER = 0.1, 4  # of a step: half are further from whole ones; what such times resolve
_REPEATED = (0.25, 0.75)  # share of the other steps then; with a few long gaps it is smaller


def observed_series(rows: Rows, output: int) -> tuple[Array, Array]:
    """Times and values of one output where it is known."""
    known = ~rows.y[:, output].isnan()
    return (
        rows.x[known, 0].double().cpu().numpy(),
        rows.y[known, output].double().cpu().numpy(),
    )


def all_series(rows: Rows) -> list[tuple[Array, Array]]:
    """Times and known values of each output."""
    return [observed_series(rows, d) for d in range(rows.y.shape[1])]


def with_values(rows: Rows, values: Sequence[Array]) -> Rows:
    """The same rows with other values where each output is known."""
    y = rows.y.clone()
    for d, value in enumerate(values):
        y[~rows.y[:, d].isnan(), d] = torch.as_tensor(value).to(y)
    return Rows(rows.x, y, rows.weight)


def span_of(rows: Rows) -> float:
    """Length of the record; 1 where it has none."""
    return float(rows.x[:, 0].max() - rows.x[:, 0].min()) or 1.0


def typical_step(time: Array) -> float:
    """Median distance between neighbouring times; readings repeated at once count as one."""
    steps = np.diff(np.unique(time))
    if len(steps) == 0:
        return 1.0
    apart = steps[steps > _AT_ONCE * steps.mean()]
    low, high = _REPEATED
    is_repeated = low <= len(apart) / len(steps) <= high
    return float(np.median(apart if is_repeated else steps))


def resolved_step(time: Array) -> float:
    """The step of even times that would resolve what these times do.

    It is the typical step on an even grid, also with gaps. Times off any grid have no aliases, and
    resolve harmonics beyond half of their rate, such as those of a variable star that is seen at night.

    >>> resolved_step(np.delete(np.arange(40.0), [3, 4, 20]))
    1.0
    >>> time = np.random.default_rng(0).uniform(0, 40, 40)
    >>> round(typical_step(time) / resolved_step(time))
    4
    """
    step = typical_step(time)
    steps = np.diff(np.unique(time)) / step
    is_uneven = len(steps) > 1 and float(np.median(np.abs(steps - np.rint(steps)))) > _OFF_GRID
    return step / _FINER if is_uneven else step


@torch.no_grad()
def spread_evenly(block: Block, width: float) -> None:
    """Give the frequencies of a block a bandwidth, and put them at its quantiles, not at random."""
    features = block.features
    level = 0.5 + (torch.arange(features.n_features, dtype=torch.float64) + 0.5) / (
        2 * features.n_features
    )  # above the median only: cos and sin of −ω span the same functions
    block.frequencies.noise.copy_(torch.special.ndtri(level).expand_as(block.frequencies.noise))
    features.log_lengthscale.fill_(math.log(math.sqrt(features.spectral_variance) / width))


@torch.no_grad()
def set_multiples(block: Block, frequency: Sequence[float], size: Float[Tensor, " M"]) -> float:
    """Put the frequencies of a block at whole multiples of a frequency, and do not train them.

    A step that is small for other parameters would move them off.

    Args:
        block: one force.
        frequency: one for all groups, or one for each.
        size: standard deviation of each multiple; the block takes their ratios.

    Returns:
        The standard deviation of all multiples together, which the sensitivity is to have.
    """
    features, frequencies = block.features, block.frequencies
    frequencies.noise.copy_(torch.arange(1, len(size) + 1).expand_as(frequencies.noise))
    total = float(size.square().sum().sqrt())
    frequencies.feature_weight.copy_(size / total)
    base = torch.tensor(frequency, dtype=torch.float64).view(-1, 1, 1)
    lengthscale = math.sqrt(features.spectral_variance) / base
    features.log_lengthscale.copy_(lengthscale.log().expand_as(features.center))
    features.log_lengthscale.requires_grad_(False)
    return total


def mean_field(layer: Layer) -> MeanField:
    """The weights of a layer whose means and standard deviations can be set."""
    if not isinstance(layer.weights, MeanField):
        raise ConfigError("model: these starting values need mean-field weights.")
    return layer.weights
