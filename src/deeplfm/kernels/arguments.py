"""What the kernels are given, in one place for both kinds."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Moments(NamedTuple):
    """Arguments of the moments Φm and Φ²v of F = base + transients·gains + waves, or their gradients.

    Attributes:
        x: inputs of the waves, one batch for all or one each.
        frequency: ω of every term, dimension and column.
        amplitude: a of every term and column.
        phase: α of every term and column.
        transients: functions of a row that no frequency enters.
        gains: of the transients, real and imaginary.
        base: what is added for all samples, real and imaginary; no rows where that is nothing.
        mean: m of the columns, real ones first.
        variance: v of the columns, real ones first.
    """

    x: Float[Tensor, "#B J S N I"]
    frequency: Float[Tensor, "B J I K"]
    amplitude: Float[Tensor, "B J K"]
    phase: Float[Tensor, "B J K"]
    transients: Float[Tensor, "B S N L"]
    gains: Float[Tensor, "B 2 L K"]
    base: Float[Tensor, "2 B #N K"]
    mean: Float[Tensor, "B 2K U"]
    variance: Float[Tensor, "B 2K U"]

    @property
    def has_base(self) -> bool:
        """Whether there is anything to add for all samples."""
        return self.base.shape[2] > 0

    def empty(self) -> tuple[Float[Tensor, "B S N U"], Float[Tensor, "B S N U"]]:
        """Tensors for the two moments, not yet filled."""
        shape = (len(self.mean), *self.x.shape[2:4], self.mean.shape[-1])
        return self.x.new_empty(shape), self.x.new_empty(shape)
