"""Scores of fitted models, and their JSON format."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.estimators import DeepLFMRegressor
from deeplfm.experiments.declaration import Split
from deeplfm.io.files import write_whole, writing
from deeplfm.kernels import compiled_kernels
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive, coverage, mnll, nmse
from deeplfm.training import Rows, train


def score(
    posterior: Predictive,
    target: Float[Tensor, "N D"],
    part: str,
    outputs: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Scores of a prediction, one row for each output: nmse, mnll and coverage95."""
    if posterior.mean.shape != target.shape:
        raise InputError(
            f"score: prediction and target must have one shape, found "
            f"{tuple(posterior.mean.shape)} and {tuple(target.shape)}. Predict the scored rows."
        )
    names = list(outputs) if outputs is not None else [str(d) for d in range(target.shape[1])]
    if len(names) != target.shape[1]:
        raise InputError(
            f"score: {len(names)} names for {target.shape[1]} outputs. Give one name per output."
        )
    with torch.no_grad():
        scores = {
            "nmse": nmse(posterior.mean, target).tolist(),
            "mnll": mnll(posterior, target).tolist(),
            "coverage95": coverage(posterior, target, 0.95).tolist(),
        }
    return [
        {"split": part, "output": name} | {key: values[d] for key, values in scores.items()}
        for d, name in enumerate(names)
    ]


def write_document(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write a JSON file in one atomic step; for values that JSON lacks see :func:`plain`."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with writing(Path(path)):
        write_whole(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def plain(value: Any) -> Any:
    """A value that JSON has: null for a number that is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | None):
        return value
    return [plain(item) for item in value] if isinstance(value, Iterable) else str(value)


VALIDATION = "validation"
_N_POINTS = 20
_START_ROWS = 10_000


def validation_curve(model: Any, split: Split, seed: int) -> list[dict[str, float]]:
    """Step, NMSE and MNLL during the training of a model's first candidate; empty for other models.

    The candidate is trained again on all training rows, without held-out rows of its own.
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
