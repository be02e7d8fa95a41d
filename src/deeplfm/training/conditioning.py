"""Exact output weights of a model given rows, chunk by chunk."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.training.distributed import world
from deeplfm.training.rows import RowSource


class Conditioned(Protocol):
    """A model whose weights may be solved in closed form from sums over rows."""

    @property
    def has_exact_output(self) -> bool:
        """Whether they are."""

    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Sums over some rows."""

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights from sums over all rows."""


@torch.no_grad()
def statistics(
    model: Conditioned, rows: RowSource
) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
    """Sufficient statistics of all rows for the exact output weights: sums over their chunks."""
    own = rows.chunks(world().share(len(rows), "rows"))
    parts = (model.statistics(chunk.x, chunk.y, chunk.weight) for chunk in own)
    gram, moment = next(parts)
    for more_gram, more_moment in parts:
        gram, moment = gram + more_gram, moment + more_moment
    gram, moment = world().sum_(gram, moment)
    return gram, moment


def condition(model: Conditioned, rows: RowSource) -> None:
    """Solve exact output weights on all rows, where a model has them."""
    if model.has_exact_output:
        model.solve(*statistics(model, rows))
