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


@torch.no_grad()
def remember(model: DeepLFM, rows: RowSource, reach: float | None = None) -> None:
    """Give rows to a model that keeps them; that of a series knows by its reach where targets are."""
    if reach is None and not model.keeps_rows:
        return
    chunks = list(rows.chunks())
    x, y = (torch.cat([getattr(chunk, name) for chunk in chunks]) for name in ("x", "y"))
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    model.remember(x, y, torch.cat(weights) if weights else None, reach)


def condition(model: DeepLFM, rows: RowSource) -> None:
    """Let a model hear all rows: keep them, and solve exact output weights, where it does either."""
    remember(model, rows)
    if model.has_exact_output:
        model.solve(*statistics(model, rows))
