r"""Components of a forecast: one function of time with a band for each term of the model.

The output layer is a sum over named blocks, f = Σ_b Φ_b W_b. Under q(W) the component b of one path of
the hidden layers has mean Φ_b M_b and variance φ_bᵀ C_bb φ_b in closed form. Paths and members of an
average are mixed by the laws of total mean and variance; a component that a member does not have is 0
there. So the means of all components add up to the mean of the forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from scipy.stats import norm
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.features.columns import LayerColumns
from deeplfm.inspection.fitted import FittedModel
from deeplfm.layers import Layer
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Member
from deeplfm.statespace import ClocksLFM, StateSpaceLFM

OFFSET_CARRIERS = ("trend", "level")  # of which the first that there is includes the offset
OFFSET = "mean"  # a component of its own where there is none of them
_ROWS = 512  # at a time, all paths of the hidden layers with them

Moments = tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]


class Component(NamedTuple):
    """One term of a forecast in the user's units."""

    mean: Float[Tensor, "N D"]
    low: Float[Tensor, "N D"]
    high: Float[Tensor, "N D"]


@torch.no_grad()
def components(
    fitted: FittedModel, x: Float[Tensor, "N P"], coverage: float = 0.95
) -> dict[str, Component]:
    """Components by name, in the user's units; their means add up to the forecast.

    The mean of the training targets, which no term models, is included in the component "trend"; without
    a trend in "level", and without a level it is a component "mean" of its own. All others vary around 0.

    Components of an output that is modelled by its logarithm are factors around 1, and multiply to the
    forecast, which is a median. The median of a mixture of several models differs a little from the
    product of their factors: the component that includes the offset takes this difference too.
    """
    if not 0 < coverage < 1:
        raise InputError(
            f"components: coverage must lie strictly between 0 and 1, found {coverage}."
        )
    moments = average_moments(fitted.average, fitted.members, x)
    scale, offset = (torch.from_numpy(item) for item in (fitted.output_scale, fitted.output_shift))
    is_log = torch.from_numpy(fitted.is_log)
    if bool(is_log.any()):
        medians = [fitted.average.posterior(rows).quantile(0.5) for rows in x.split(_ROWS)]
        median = _plain(torch.cat(medians))
        total = sum(mean for mean, _ in moments.values())
        offset = offset + torch.where(is_log, (median - total) * scale, 0.0)
    carrier = next((name for name in OFFSET_CARRIERS if name in moments), OFFSET)
    names = [carrier, *(name for name in moments if name != carrier)]
    reach = float(norm.isf((1 - coverage) / 2))
    zeros = torch.zeros(len(x), len(scale), dtype=torch.float64)
    found = {}
    for name in names:
        mean, variance = moments.get(name, (zeros, zeros))
        mean = mean * scale + (offset if name == carrier else 0.0)
        width = reach * variance.sqrt() * scale
        ends = (mean, mean - width, mean + width)
        found[name] = Component(*(torch.where(is_log, end.exp(), end) for end in ends))
    return found


@torch.no_grad()
def average_moments(
    average: ModelAverage, members: Sequence[str], x: Float[Tensor, "N P"]
) -> dict[str, Moments]:
    """Mean and variance of each component of an average, heaviest members first, standardised."""
    weight = average.weight_at(x).cpu().double()  # B #N D
    totals: dict[str, list[Tensor]] = {}
    for b in weight.mean((1, 2)).argsort(descending=True).tolist():
        if not bool(weight[b].any()):
            continue
        for name, (mean, variance) in member_moments(average.members[b], members[b], x).items():
            first, second = weight[b] * mean, weight[b] * (variance + mean.square())
            if name in totals:
                first, second = first + totals[name][0], second + totals[name][1]
            totals[name] = [first, second]
    return {
        name: (first, (second - first.square()).clamp_min(0))
        for name, (first, second) in totals.items()
    }


@torch.no_grad()
def member_moments(model: Member, name: str, x: Float[Tensor, "N P"]) -> dict[str, Moments]:
    """Mean and variance of each component of one model, standardised.

    A model that is no sum of terms (an autoregression, a nearest-neighbour process, a mixture density) is
    one component, under its own name.
    """
    if isinstance(model, StateSpaceLFM | ClocksLFM):
        return {term: _plain_pair(model.component_moments(x, term)) for term in model.components}
    parts = [
        _sum_of_terms(model, rows)
        if isinstance(model, DeepLFM) and not model.config.n_components
        else {name: _function(model, rows)}
        for rows in x.split(_ROWS)
    ]
    return {
        term: (
            torch.cat([part[term][0] for part in parts]),
            torch.cat([part[term][1] for part in parts]),
        )
        for term in parts[0]
    }


def _function(model: Member, x: Float[Tensor, "N P"]) -> Moments:
    posterior = model.posterior(x)
    return _plain(posterior.mean), _plain(posterior.variance(latent=True))


def _sum_of_terms(model: DeepLFM, x: Float[Tensor, "N P"]) -> dict[str, Moments]:
    """Components of a model's output layer, over the paths that prediction uses."""
    generator = generator_for(model.seed, "prediction", device=x.device)
    features = model.features(x, model.config.n_paths, generator, paths=True)
    layer, blocks = model.output_layer, model.config.layers[-1].blocks
    names = [block.name or block.system for block in blocks]
    found = {}
    for name in dict.fromkeys(names):
        which = [i for i, other in enumerate(names) if other == name]
        mean, variance = map(_plain, _moments_of_blocks(layer, features, which))
        if mean.dim() == 3:  # S N D
            mean, variance = mean.mean(0), variance.mean(0) + mean.var(0, correction=0)
        found[name] = (mean, variance)
    return found


def _moments_of_blocks(
    layer: Layer, features: LayerColumns, which: Sequence[int]
) -> tuple[Float[Tensor, "*S N D"], Float[Tensor, "*S N D"]]:
    """Mean and variance of Φ_b W_b over some blocks of a layer."""
    slices = layer.column_slices()
    columns = torch.cat([torch.arange(slices[i].start, slices[i].stop) for i in which])
    part = LayerColumns([features.blocks[i] for i in which], features.n_samples, features.n_rows)
    return layer.moments(part, columns)


def _plain_pair(moments: Moments) -> Moments:
    return _plain(moments[0]), _plain(moments[1])


def _plain(values: Tensor) -> Tensor:
    return values.cpu().double()
