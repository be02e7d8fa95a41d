"""A fitted model average with its names and units: what all inspection functions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.selection.average import ModelAverage


@dataclass(frozen=True)
class FittedModel:
    """Members of an average, their names, and the user's units.

    Attributes:
        average: the fitted models and their weights.
        members: name of each member.
        outputs: name of each output.
        time_scale: one unit of the model's time, in the user's.
        output_scale: one unit of each standardised output, in the user's.
        output_shift: zero of each standardised output, in the user's units.
        is_log: outputs that are modelled by their logarithm.
    """

    average: ModelAverage
    members: Sequence[str]
    outputs: Sequence[str]
    time_scale: float
    output_scale: Float64[ndarray, " D"]
    output_shift: Float64[ndarray, " D"]
    is_log: Bool[ndarray, " D"]

    @property
    def forecasting(self) -> list[int]:
        """Members for the time after the data; the others are copies of them, calibrated for gaps."""
        weight, in_gaps = self.average.weight, self.average.weight_in_gaps
        # A function of time is kept even without weight: it shows forces that an autoregression has not.
        return (weight.any(1) | ~in_gaps.any(1)).nonzero()[:, 0].tolist()

    def heaviest(self) -> dict[int, list[int]]:
        """Members that are functions of time, each with the outputs where its weight is largest."""
        members = self.average.members
        in_time = [m for m in self.forecasting if members[m].is_function_of_time]
        chosen: dict[int, list[int]] = {}
        if in_time:
            for d, place in enumerate(self.average.weight[in_time].argmax(0).tolist()):
                chosen.setdefault(in_time[place], []).append(d)
        return chosen


def as_array(values: Tensor) -> Float64[ndarray, " n"]:
    """A tensor as an array of float64."""
    return values.detach().double().cpu().numpy()
