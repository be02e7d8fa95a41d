"""Values between the steps of an even grid."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


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
