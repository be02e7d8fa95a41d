"""Results of candidates as plain data and tensors, which a run that was killed need not find again."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm import config as configuration
from deeplfm.errors import TrainingDivergedError, UnsuitableError
from deeplfm.io.archive import restore, tensors_under
from deeplfm.io.storage import Contents
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Candidate, FittedCandidate, Member, Score
from deeplfm.statespace import (
    ClocksConfig,
    ClocksLFM,
    OtherOutputsLFM,
    SharedForcesLFM,
    StateSpaceConfig,
    StateSpaceLFM,
)
from deeplfm.statespace.model import KeptRows
from deeplfm.training.schedule import History

_KINDS = (DeepLFM, StateSpaceLFM, SharedForcesLFM, OtherOutputsLFM, ClocksLFM)
KINDS: dict[str, type] = {kind.__name__: kind for kind in _KINDS}
Kind = TypeVar("Kind", bound=type)
ROWS_PREDICTED = 64  # when a model is loaded
# what may hold NaN where nothing was observed, or the infinite ends of intervals
_MAY_BE_UNKNOWN = ("y", "row_error", "forecast_density", "reach", "support", "span")
_ERRORS = {kind.__name__: kind for kind in (TrainingDivergedError, UnsuitableError)}


def is_kept(kind: Kind) -> Kind:
    """Declare a kind of model that files can hold, by its name; a decorator."""
    KINDS[kind.__name__] = kind
    return kind


def describe_member(member: Member) -> dict[str, Any]:
    """Kind and constructor arguments of a model, as plain data."""
    arguments = member.constructor_arguments
    config: Any = arguments["config"]
    if isinstance(member, StateSpaceLFM):
        config = [item.to_dict() for item in config]
    elif isinstance(member, ClocksLFM):
        config = config.to_dict()
    else:
        config = configuration.to_dict(config)
    return {"kind": type(member).__name__, "arguments": arguments | {"config": config}}


def new_member(description: dict[str, Any]) -> Any:
    """The model of a description, before its tensors are loaded."""
    arguments = description["arguments"]
    config: Any = arguments["config"]
    if issubclass(KINDS[description["kind"]], StateSpaceLFM):
        config = [StateSpaceConfig.from_dict(item) for item in config]
    elif issubclass(KINDS[description["kind"]], ClocksLFM):
        config = ClocksConfig.from_dict(config)
    else:
        config = configuration.from_dict(config)
    return KINDS[description["kind"]](**arguments | {"config": config})


def check_predictions(model: ModelAverage, x: Float[Tensor, "N P"]) -> None:
    """Predict some rows: parts that do not fit together fail here, and not when they are used."""
    for name, tensor in model.state_dict().items():
        if name.rpartition(".")[2] not in _MAY_BE_UNKNOWN and not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} is not finite")
    with torch.no_grad():
        posterior = model.posterior(x)
        mean, std = posterior.mean, posterior.std()
    shape = (len(x), model.weight.shape[1])
    if mean.shape != shape or not bool((mean + std).isfinite().all()):
        raise ValueError("its prediction has another shape, or is not finite")
    scales = [m.temperature for m in model.members if m.temperature is not None]
    if not all(bool((scale > 0).all()) for scale in scales):
        raise ValueError("a temperature is not positive")


def unit_name(label: str, item: Any) -> str | None:
    """Name of the unit of a run in which an item is fitted; ``None`` for one that is not kept."""
    if isinstance(item, Candidate):
        return f"{label} {item.name}"
    if isinstance(item, FittedCandidate):  # a refit depends on how it was calibrated
        values = [value for score, _ in item.members for value in (*score[:2], score.counts.sum(0))]
        digest = hashlib.sha256(repr([v if v is None else v.tolist() for v in values]).encode())
        return f"{label} {item.candidate.name} {digest.hexdigest()[:8]}"
    return None


def describe_result(result: Any) -> Contents | None:
    """A result as plain data and tensors; ``None`` if it was cut short, or cannot be described."""
    if type(result) in _ERRORS.values():
        return {"error": type(result).__name__, "message": str(result)}, {}
    if isinstance(result, FittedCandidate):
        models, history = [result.model], result.history
        scores = {"score": result.score, "gap_score": result.gap_score}
    elif isinstance(result, tuple):
        (models, history), scores = result, {}
    else:
        return None
    if history.was_cut or any(type(model).__name__ not in KINDS for model in models):
        return None
    tensors: dict[str, Tensor] = {}
    for index, model in enumerate(models):
        state: dict[str, Tensor] = model.state_dict()  # type: ignore[attr-defined]
        tensors |= {f"{index}.{name}": value for name, value in state.items()}
    for name, score in scores.items():
        values = {} if score is None else score._asdict()
        tensors |= {f"{name}.{key}": v.clone() for key, v in values.items() if v is not None}
    description = {
        "members": [describe_member(model) for model in models],
        "dtype": str(models[0].likelihood.inflation.dtype).removeprefix("torch."),
        "device": str(models[0].likelihood.inflation.device),
        "history": asdict(history),
    }
    return description, tensors


def restore_result(contents: Contents, item: Any) -> Any:
    """The result that was described, of the item that it was found for."""
    description, stored = contents
    if "error" in description:
        return _ERRORS[description["error"]](description["message"])
    tensors = {name: value.to(description["device"]) for name, value in stored.items()}
    history = History.from_dict(description["history"])
    models = []
    for index, part in enumerate(description["members"]):
        model = new_member(part).to(getattr(torch, description["dtype"]))
        restore(model, tensors_under(f"{index}.", tensors))
        models.append(model.to(description["device"]))
        keeps_rows = isinstance(model, KeptRows)
        if keeps_rows:
            check_predictions(ModelAverage.of(model), model.x[-ROWS_PREDICTED:])
    n_models = len(item.members) if isinstance(item, FittedCandidate) else 1
    if len(models) != n_models:
        raise ValueError(f"{len(models)} models in place of {n_models}")
    score, gap_score = (
        _score(tensors_under(f"{name}.", tensors)) for name in ("score", "gap_score")
    )
    if isinstance(item, FittedCandidate) or score is None:
        return models, history
    return FittedCandidate(item, models[0], history, score, gap_score)


def _score(tensors: dict[str, Tensor]) -> Score | None:
    return Score(**{"temperature": None} | tensors) if tensors else None  # type: ignore[arg-type]
