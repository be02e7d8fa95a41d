r"""The kind of a fitted model, and the share of its forecast that passes through hidden layers.

The output layer is a sum over blocks. Some see the values of hidden layers, the others see the inputs
only: f = f_hidden + f_rest. Ablating the hidden part leaves f_rest. The share of an output is

    Var f_hidden / (Var f_hidden + Var f_rest),

variances over rows of the mean prediction. A hidden layer whose share is 0 carries nothing.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.inspection.components import member_moments
from deeplfm.inspection.fitted import FittedModel
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.record import Selection
from deeplfm.statespace import StateSpaceLFM
from deeplfm.statespace.clocks import SEASON, ClocksLFM


def kind_of(model: ModelAverage, selection: Selection) -> str:
    """Name of a fitted model, with its article.

    Several models with weights are an ensemble, and sums in state-space form alone an average of LFMs;
    a single model with a hidden layer is a DLFM, and one without is an LFM.
    Other models (autoregressions, nearest-neighbour GPs) keep the name of their candidate.
    """
    names = selection.names
    if all(isinstance(member, StateSpaceLFM) for member in model.members):
        return "an LFM" if len(names) == 1 else f"an average of {len(names)} LFMs"
    if len(names) > 1:
        return f"an ensemble of {len(names)} models"
    member = model.members[0]
    if isinstance(member, ClocksLFM):
        return "a DLFM"
    if type(member) is not DeepLFM:
        return f"the single model {names[0]!r}"
    return "a DLFM" if len(member.layers) > 1 else "an LFM"


@torch.no_grad()
def hidden_share(fitted: FittedModel, x: Float[Tensor, "N P"]) -> Float[Tensor, " D"]:
    """Share of the variance of the prediction that passes through hidden layers, for each output.

    Members of an average count with their weights; members of other families have no hidden layer.
    """
    average = fitted.average
    weight = average.weight_at(x).cpu().double()  # B #N D
    through = torch.zeros(len(x), weight.shape[-1], dtype=torch.float64)
    rest = through.clone()
    for share, member, name in zip(weight, average.members, fitted.members, strict=True):
        if not bool(share.any()):
            continue
        for term, (mean, _) in member_moments(member, name, x).items():
            if term in _hidden_terms(member, name):
                through = through + share * mean
            else:
                rest = rest + share * mean
    first, second = (part.var(0, correction=0) for part in (through, rest))
    return torch.where(first > 0, first / (first + second), 0.0)


def _hidden_terms(member: object, name: str) -> set[str]:
    """Names of the components that depend on hidden layers; a mixture density is one component."""
    if isinstance(member, ClocksLFM):
        return {SEASON}
    if not isinstance(member, DeepLFM):
        return set()
    if member.config.n_components:
        passes_by = any(block.sees_original for block in member.output_layer.blocks)
        return set() if len(member.layers) == 1 or passes_by else {name}
    blocks = member.config.layers[-1].blocks
    return {
        declared.name or declared.system
        for declared, block in zip(blocks, member.output_layer.blocks, strict=True)
        if block.sees_hidden
    }
