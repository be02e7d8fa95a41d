"""Differential equations that a model has learned, in the user's units of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.features import Response
from deeplfm.inspection.fitted import FittedModel, as_array
from deeplfm.inspection.forces import block_label, is_driven
from deeplfm.layers import Block


@dataclass(frozen=True)
class Equation:
    """f⁽ⁿ⁾ + p₁ f⁽ⁿ⁻¹⁾ + … + p_n f = Σ_q S_q u_q, whose input is time.

    Attributes:
        label: layer, and output and term where there are several.
        member: name of the model that it belongs to.
        coefficients: p₁ … p_n, where p_i is in units of time to the power −i: the decay γ of a
            first-order system, c/m and k/m of a second-order one.
    """

    label: str
    member: str
    coefficients: Float64[ndarray, " n"]

    @property
    def time_constant(self) -> float:
        """Time in which the slowest free response falls to 1/e."""
        return float(-1 / np.roots([1.0, *self.coefficients]).real.max())


@torch.no_grad()
def equations(fitted: FittedModel) -> list[Equation]:
    """Linear differential equations in time, of all layers of all members."""
    found = []
    for label, member, block, group in systems_in_time(fitted):
        if isinstance(block.features, Response):
            polynomial = as_array(block.features.polynomial[group, 0])
            powers = np.arange(1, len(polynomial) + 1)
            found.append(Equation(label, member, polynomial / fitted.time_scale**powers))
    return found


def systems_in_time(fitted: FittedModel) -> Iterator[tuple[str, str, Block, int]]:
    """Label, member, block and group of every system that time and forces drive."""
    for index, model in fitted.layered.items():
        member = fitted.members[index]
        for depth, layer in enumerate(model.layers, 1):
            for block in filter(is_driven, layer.blocks):
                is_active = block.features.sensitivity.flatten(1).any(1)
                has_owners = len(is_active) == len(fitted.outputs) > 1
                for group in is_active.nonzero()[:, 0].tolist():
                    owner = f", {fitted.outputs[group]}" if has_owners else ""
                    yield block_label(f"layer {depth}{owner}", block, layer), member, block, group
