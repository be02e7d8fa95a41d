"""A fitted model average with its names and units: what all inspection functions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage


@dataclass(frozen=True)
class FittedModel:
    """Members of an average, their names, and the user's units."""

    average: ModelAverage
    members: Sequence[str]
    outputs: Sequence[str]
    time_scale: float
    output_scale: Float64[ndarray, " D"]
    output_shift: Float64[ndarray, " D"]
    is_log: Bool[ndarray, " D"]

    @property
    def layered(self) -> dict[int, DeepLFM]:
        """Members that are latent force models, without copies that are calibrated for gaps."""
        weight, in_gaps = self.average.weight, self.average.weight_in_gaps
        # A function of time is kept even without weight: it shows forces that an autoregression has not.
        forecasting = (weight.any(1) | ~in_gaps.any(1)).tolist()
        return {
            index: member
            for index, member in enumerate(self.average.members)
            if forecasting[index] and isinstance(member, DeepLFM)
        }

    def heaviest(self) -> dict[int, list[int]]:
        """Members that are latent force models, each with the outputs where its weight is largest."""
        layered = list(self.layered)
        chosen: dict[int, list[int]] = {}
        if layered:
            for d, place in enumerate(self.average.weight[layered].argmax(0).tolist()):
                chosen.setdefault(layered[place], []).append(d)
        return chosen


def as_array(values: Tensor) -> Float64[ndarray, " n"]:
    """A tensor as an array of float64."""
    return values.detach().double().cpu().numpy()
