"""Scores of the validation rows of a table during training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from deeplfm.estimators import DeepLFMRegressor
from deeplfm.experiments.declaration import Split
from deeplfm.kernels import compiled_kernels
from deeplfm.model import DeepLFM
from deeplfm.training import Rows, train

VALIDATION = "validation"
_N_POINTS = 20
_START_ROWS = 10_000


def validation_curve(model: Any, split: Split, seed: int) -> list[dict[str, float]]:
    """Step, NMSE and MNLL during the training of a model's first candidate; empty for other models.

    The candidate is trained again on all training rows, without held-out rows of its own.

    Args:
        model: a fitted estimator.
        split: a table whose part ``validation`` is scored.
        seed: of the training.
    """
    model = getattr(model, "regressor_", model)  # of a comparator made of our parts
    if not isinstance(model, DeepLFMRegressor) or VALIDATION not in split.x_test:
        return []
    models = model._models(is_series=False)
    candidate, *_ = model._candidates(models, time_scale=1.0)

    def rows_of(x: Any, y: Any) -> Rows:
        dtype = model._dtype(models)
        return Rows(torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype))

    rows = rows_of(split.x_train, split.y_train)
    start = rows.take(torch.arange(min(_START_ROWS, len(rows))))
    validation = rows_of(split.x_test[VALIDATION], split.y_test[VALIDATION])
    built = candidate.build(start, seed)
    if candidate.schedule is None or not isinstance(built, DeepLFM):
        return []
    every = max(1, candidate.schedule.n_steps // _N_POINTS)
    schedule = replace(candidate.schedule, validate_every=every)
    with compiled_kernels(model.compile):
        return train(built, rows, schedule, seed, validation).validation
