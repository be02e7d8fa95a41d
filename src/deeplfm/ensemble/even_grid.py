"""Values on an even grid, and between its steps."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy.interpolate import PchipInterpolator
from torch import Tensor

from deeplfm.terms.spectrum import even_step as even_step
from deeplfm.terms.spectrum import steps_of as steps_of


def completed(step: Int64[Tensor, " N"], values: Float[Tensor, "N D"]) -> Float[Tensor, "R D"]:
    """Values of all steps up to the last: between known ones monotone, beyond them constant.

    Args:
        step: of each row, rising, from :func:`steps_of`.
        values: NaN where not known; each column is known somewhere.
    """
    filled = values.new_full((int(step[-1]) + 1, values.shape[1]), torch.nan)
    filled[step] = values
    for column in filled.T:
        is_known = ~column.isnan().cpu().numpy()
        known = np.flatnonzero(is_known)
        if len(known) == len(filled):
            continue
        missing = np.flatnonzero(~is_known).clip(known[0], known[-1])
        at_known = column[known].cpu().double().numpy()
        between = PchipInterpolator(known, at_known)(missing) if len(known) > 1 else at_known
        column[torch.as_tensor(~is_known)] = torch.as_tensor(between).to(column)
    return filled


def in_long_gaps(
    step: Int64[Tensor, " N"], values: Float[Tensor, "N D"], longest: int
) -> Bool[Tensor, "R D"]:
    """Whether the value of a step is missing together with more than so many in a row.

    >>> in_long_gaps(torch.tensor([0, 1, 3, 6]), torch.ones(4, 1), 1)[:, 0].nonzero()[:, 0]
    tensor([4, 5])

    Args:
        step: of each row, rising, from :func:`steps_of`.
        values: NaN where not known.
        longest: what is not yet long.
    """
    n_steps = int(step[-1]) + 1
    is_known = values.new_zeros((n_steps, values.shape[1]), dtype=torch.bool)
    is_known[step] = ~values.isnan()
    place = torch.arange(n_steps, device=values.device)[:, None]
    before = torch.where(is_known, place, -1).cummax(0).values
    after = torch.where(is_known, place, n_steps).flip(0).cummin(0).values.flip(0)
    return after - before - 1 > longest


def interpolate(
    place: Float[Tensor, " N"], first: Float[Tensor, "S R D"], then: Float[Tensor, "S H D"]
) -> Float[Tensor, "S N D"]:
    """Values by cubic interpolation, from those of a grid in two parts.

    Before the first step, and after the last but one, beyond which a cubic needs another, it is constant.

    Args:
        place: in steps since the first value.
        first: values of the first steps.
        then: values of the steps after them; the parts may be views, and are not joined.
    """
    n_first, n_all = first.shape[1], first.shape[1] + then.shape[1]
    place = place.clamp(0, max(n_all - 2, 0))
    floor = place.floor()
    total = first.new_zeros(())
    for offset, weight in enumerate(_cubic((place - floor)[:, None]), -1):
        index = (floor.long() + offset).clamp(0, n_all - 1)
        value = first[:, index.clamp(max=n_first - 1)]
        if n_all > n_first:
            later = then[:, (index - n_first).clamp(min=0)]
            value = later.where((index >= n_first)[:, None], value)
        total = total + weight * value
    return total


def _cubic(part: Float[Tensor, "N 1"]) -> tuple[Float[Tensor, "N 1"], ...]:
    """Weights of the steps −1, 0, 1 and 2 at a part of the way from 0 to 1 (Catmull and Rom)."""
    rest = 1 - part
    return (
        -0.5 * part * rest**2,
        rest * (1 + part - 1.5 * part**2),
        part * (1 + rest - 1.5 * rest**2),
        -0.5 * rest * part**2,
    )
