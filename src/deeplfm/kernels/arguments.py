"""What the kernels are given, in one place for both kinds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Moments(NamedTuple):
    """Arguments of the moments Φm and Φ²v of F = base + transients·gains + waves, or their gradients.

    Attributes:
        x: inputs, the dimensions of each term in turn; one batch for all or one each.
        frequency: ω of every term, dimension and column.
        amplitude: a of every term and column.
        phase: α of every term and column.
        decay: of the transients of each input; see :func:`transient_rows`.
        extent: unit of the powers of each input.
        gains: of the transients, real and imaginary.
        base: what is added for all samples, real and imaginary: N rows, or none where that is nothing.
        mean: m of the columns, real ones first.
        variance: v of the columns, real ones first.
    """

    x: Float[Tensor, "#B S N P"]
    frequency: Float[Tensor, "B J I K"]
    amplitude: Float[Tensor, "B J K"]
    phase: Float[Tensor, "B J K"]
    decay: Float[Tensor, "B P"]
    extent: Float[Tensor, "B P"]
    gains: Float[Tensor, "B 2 L K"]
    base: Float[Tensor, "2 B M K"]
    mean: Float[Tensor, "B 2K U"]
    variance: Float[Tensor, "B 2K U"]

    @property
    def has_base(self) -> bool:
        """Whether there is anything to add for all samples."""
        return self.base.shape[2] > 0

    @property
    def n_waves(self) -> int:
        """Waves in all: of every batch, sample, row, term and column."""
        n_batches, n_terms, _, n_columns = self.frequency.shape
        return n_batches * n_terms * n_columns * math.prod(self.x.shape[1:3])

    @property
    def n_powers(self) -> int:
        """Powers of each input among the transients; −1 where there are no transients at all."""
        n_transients, n_inputs = self.gains.shape[2], self.decay.shape[-1]
        return n_transients // n_inputs - 1 if n_transients else -1

    def with_columns(self, order: Int[Tensor, "B K"]) -> Moments:
        """The same, the columns of each batch in another order."""

        def ordered(item: Tensor) -> Tensor:  # B … K
            return torch.take_along_dim(
                item, order.view(len(order), *[1] * (item.dim() - 2), -1), -1
            )

        def ordered_weights(item: Tensor) -> Tensor:  # B 2K U
            return ordered(item.mT.unflatten(-1, (2, -1))).flatten(-2).mT

        return self._replace(
            frequency=ordered(self.frequency),
            amplitude=ordered(self.amplitude),
            phase=ordered(self.phase),
            gains=ordered(self.gains),
            base=ordered(self.base.movedim(1, 0)).movedim(0, 1),
            mean=ordered_weights(self.mean),
            variance=ordered_weights(self.variance),
        )

    def empty(self) -> tuple[Float[Tensor, "B S N U"], Float[Tensor, "B S N U"]]:
        """Tensors for the two moments, not yet filled."""
        shape = (*self.x.shape[1:3], len(self.mean), self.mean.shape[-1])  # as outputs want them
        return self.x.new_empty(shape).movedim(2, 0), self.x.new_empty(shape).movedim(2, 0)


def transient_rows(
    x: Float[Tensor, "*S P N"],
    decay: Float[Tensor, "*#S P"],
    extent: Float[Tensor, "*#S P"],
    n_powers: int,
) -> Iterator[Float[Tensor, "*S P N"]]:
    """Functions of x that no frequency enters: e^{−γx}, x/e, (x/e)², …, of all inputs each.

    Inputs are few and rows are many, so that rows come last: what is short must not be innermost.
    """
    exponential = torch.exp(-decay.unsqueeze(-1) * x)
    yield exponential
    if n_powers:
        power = first = (x / extent.unsqueeze(-1)).expand_as(exponential)
        yield power
        for _ in range(1, n_powers):
            power = power * first
            yield power


def pull_transients(
    x: Float[Tensor, "P N"],
    decay: Float[Tensor, " P"],
    extent: Float[Tensor, " P"],
    lines: Float[Tensor, "L N"],
    gradient: Float[Tensor, "L N"],
) -> tuple[Float[Tensor, "P N"], Float[Tensor, " P"]]:
    """Gradients of inputs and decays, from those of :func:`transient_rows` and its result."""
    values, gradients = (item.unflatten(0, (-1, len(x))) for item in (lines, gradient))
    by_exponent = (values[0] * gradients[0]).neg_()
    by_x = by_exponent * decay[:, None]
    if len(values) > 1:
        by_x.addcmul_(gradients[1], 1 / extent[:, None])
    if len(values) > 2:  # (x/e)^p: p/e times the power below
        slopes = torch.arange(2.0, len(values)).to(extent)[:, None] / extent
        by_x += (values[1:-1] * gradients[2:]).mul_(slopes[..., None]).sum(0)
    return by_x, (by_exponent * x).sum(-1)
