"""Exact output weights given rows, through which one goes in chunks."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.model import DeepLFM
from deeplfm.training.rows import RowSource


@torch.no_grad()
def statistics(
    model: DeepLFM, rows: RowSource
) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
    """All that the exact output weights need to know of the rows: sums over their chunks."""
    parts = (model.statistics(chunk.x, chunk.y, chunk.weight) for chunk in rows.chunks())
    gram, moment = next(parts)
    for more_gram, more_moment in parts:
        gram, moment = gram + more_gram, moment + more_moment
    return gram, moment


def condition(model: DeepLFM, rows: RowSource) -> None:
    """Solve the exact output weights, where a model has them."""
    if model.has_exact_output:
        model.solve(*statistics(model, rows))
