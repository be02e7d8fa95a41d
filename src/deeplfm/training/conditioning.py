"""Exact output weights of a model given rows, chunk by chunk."""

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
    """Sufficient statistics of the rows for exact output weights, summed over chunks."""
    parts = (model.statistics(chunk.x, chunk.y, chunk.weight) for chunk in rows.chunks())
    gram, moment = next(parts)
    for more_gram, more_moment in parts:
        gram, moment = gram + more_gram, moment + more_moment
    return gram, moment


@torch.no_grad()
def set_train_data(model: DeepLFM, rows: RowSource, reach: float | None = None) -> None:
    """Store rows in a model that keeps them, and the observed times of a series with a ``reach``.

    A model that keeps fewer rows than there are gets evenly spaced ones. Only these are read, so that
    memory does not grow with the number of rows.
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
    """Condition a model on rows: store them where it keeps rows, solve exact output weights."""
    set_train_data(model, rows)
    if model.has_exact_output:
        model.solve(*statistics(model, rows))
