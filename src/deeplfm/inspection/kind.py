"""The name of a fitted model: ensemble, DLFM, LFM, or the name of its candidate."""

from __future__ import annotations

from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.select import Selection
from deeplfm.statespace import StateSpaceLFM


def kind_of(model: ModelAverage, selection: Selection) -> str:
    """Name of a fitted model, with its article.

    Several models weighed by held-out rows are an ensemble, and sums in state-space form with equal
    weights an average of LFMs; a single model with a hidden layer is a DLFM, and one without is an LFM.
    Other models (autoregressions, nearest-neighbour GPs) keep the name of their candidate.
    """
    names = selection.names
    if all(isinstance(member, StateSpaceLFM) for member in model.members):
        return "an LFM" if len(names) == 1 else f"an average of {len(names)} LFMs"
    if len(names) > 1:
        return f"an ensemble of {len(names)} models"
    member = model.members[0]
    if type(member) is not DeepLFM:
        return f"the single model {names[0]!r}"
    return "a DLFM" if len(member.layers) > 1 else "an LFM"
