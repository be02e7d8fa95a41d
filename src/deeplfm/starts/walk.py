"""A level that wanders, and waves at whole multiples of one frequency, which it is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features import FirstOrder
from deeplfm.layers import Block
from deeplfm.starts.initial import observed_series
from deeplfm.starts.phase import WINDOW, wiener_sizes
from deeplfm.starts.spectrum import fit_lines
from deeplfm.training import Rows

_WANDER = 1.5  # of a level, from end to end of the record
_LASTING = 0.03  # of the record: the steps of a smooth walk, before training
_N_SLOW = 5  # half rounds in the record
_FEWEST_SLOW = 4 * _N_SLOW  # rows


def without_slow(rows: Rows) -> Rows:
    """What is left of each output without its level, slope and waves of fewer than three rounds."""
    left = rows.y.clone()
    for d in range(rows.y.shape[1]):
        time, value = observed_series(rows, d)
        span = float(np.ptp(time)) if len(time) else 0.0
        slow = np.pi / (span or 1.0) * np.arange(1.0, _N_SLOW + 1)
        if len(time) > _FEWEST_SLOW:
            _, value = fit_lines(time, value, slow)
        left[~rows.y[:, d].isnan(), d] = torch.as_tensor(value).to(left)
    return Rows(rows.x, left, rows.weight)


@torch.no_grad()
def start_walk(block: Block, rows: Rows) -> None:
    r"""Make a block a Wiener process w; from end to end it may wander further than the values do.

    A first-order block, f' + γf = γw, is a level whose steps last for 1/γ: a mass that white noise pushes
    along, f'' + γf' = γw', and that friction holds. It goes on for a while as it went last. Training
    finds γ by the evidence.
    """
    span = float(rows.x[:, 0].max() - rows.x[:, 0].min()) or 1.0
    features, period = block.features, WINDOW * span
    size = torch.as_tensor(wiener_sizes(features.n_features, period))
    total = set_multiples(block, [2 * math.pi / period], size) * _WANDER / math.sqrt(span)
    if isinstance(features, FirstOrder):
        decay = 1 / (_LASTING * span)
        features.log_decay.fill_(math.log(decay))
        total *= decay
    features.set_sensitivity(torch.full_like(features.sensitivity, total))


@torch.no_grad()
def set_multiples(block: Block, frequency: Sequence[float], size: Float[Tensor, " M"]) -> float:
    """Put waves at whole multiples of a frequency, and leave them there.

    A step that is small for other parameters would lose them.

    Args:
        block: one force.
        frequency: one for all groups, or one for each.
        size: of each wave; the block is given their ratios, and the sensitivity is to have the rest.

    Returns:
        The size of all waves together.
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
