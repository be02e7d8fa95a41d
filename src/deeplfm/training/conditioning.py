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
def set_train_data(model: DeepLFM, rows: RowSource, reach: float | None = None) -> None:
    """Give rows to a model that keeps them; that of a series knows by its reach where targets are.

    Of more than it keeps, evenly spaced ones are read, and no others: memory must not grow with rows.
    """
    if reach is None and not model.keeps_rows:
        return
    n_rows, n_kept = len(rows), min(len(rows), model.most_rows)
    some = torch.arange(n_kept) * n_rows // n_kept
    kept = rows.everything() if n_kept == n_rows else rows.take(some)
    if not model.weighs_rows:
        kept = kept.without_light_targets()
    model.set_train_data(kept.x, kept.y, kept.weight, reach)


def condition(model: DeepLFM, rows: RowSource) -> None:
    """Let a model hear all rows: keep them, and solve exact output weights, where it does either."""
    set_train_data(model, rows)
    if model.has_exact_output:
        model.solve(*statistics(model, rows))
