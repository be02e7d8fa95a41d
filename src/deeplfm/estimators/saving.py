"""Fitted estimators as plain data and tensors, and back."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.estimators.known_inputs import KnownInputs
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.settings import check_settings
from deeplfm.estimators.targets import Labels
from deeplfm.estimators.timeline import Timeline
from deeplfm.io.archive import Contents, reading, restore, tensors_under
from deeplfm.io.files import versions
from deeplfm.io.typed import checked
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.finished import (
    ROWS_PREDICTED,
    check_predictions,
    describe_member,
    new_member,
)
from deeplfm.selection.record import Selection
from deeplfm.statespace import Prior
from deeplfm.terms import from_json, to_json
from deeplfm.training.distributed import world
from deeplfm.variational import Exact

if TYPE_CHECKING:
    from deeplfm.estimators.arrays import Arrays
    from deeplfm.estimators.forecaster import DeepLFMForecaster
    from deeplfm.estimators.regressor import DeepLFMRegressor

Regressor = TypeVar("Regressor", bound="DeepLFMRegressor")
Forecaster = TypeVar("Forecaster", bound="DeepLFMForecaster")

_DERIVED = "._root"  # of exact weights: their precision gives it back


# Settings that a run may change when it is continued.
_FREE = ("backend", "checkpoint", "n_jobs", "progress", "time_limit")


def run_identity(regressor: DeepLFMRegressor, arrays: Arrays) -> dict[str, Any]:
    """Plain data that two fits share if one continues the other: settings, versions and data."""
    own = [_digest(chunk) for chunk in arrays.chunks(only_own=True)]
    digest = hashlib.sha256(b"".join(part for parts in world().gather(own) for part in parts))
    known = _settings(regressor) | {"versions": versions(), "shape": repr(arrays.shape)}
    return known | {"data": digest.hexdigest()}


def identity_in_brief(regressor: DeepLFMRegressor, arrays: Arrays) -> dict[str, Any]:
    """The same of the first rows only, for processes that fit together."""
    few = _digest(arrays.read(slice(100))).hex()[:8]
    return _settings(regressor) | {"number of rows and columns": arrays.shape, "first rows": few}


def _settings(regressor: DeepLFMRegressor) -> dict[str, Any]:
    settings = {key: repr(value) for key, value in sorted(_parameters(regressor).items())}
    return {key: value for key, value in settings.items() if key not in _FREE}


def _digest(chunk: Iterable[NDArray[np.float64] | None]) -> bytes:
    digest = hashlib.sha256()
    for values in chunk:
        digest.update(b"none" if values is None else np.ascontiguousarray(values).tobytes())
    return digest.digest()


def describe(regressor: DeepLFMRegressor) -> Contents:
    """Description and tensors of a fitted regressor."""
    model = regressor.model_
    description = {
        "estimator": type(regressor).__name__,
        "parameters": _parameters(regressor),
        "dtype": str(regressor.dtype_).removeprefix("torch."),
        "is_series": regressor.is_series_,
        "inputs": getattr(regressor, "feature_names_in_", None),
        "labels": asdict(regressor.labels_),
        "members": [describe_member(member) for member in model.members],
        "selection": asdict(regressor.fit_result_),
    }
    scaling = vars(regressor.scaling_)
    tensors = {
        f"scaling.{name}": torch.as_tensor(value)
        for name, value in scaling.items()
        if value is not None
    }
    state = model.state_dict().items()
    tensors |= {f"model.{name}": value for name, value in state if not name.endswith(_DERIVED)}
    return description, tensors


def rebuild(
    cls: type[Regressor], description: dict[str, Any], tensors: dict[str, Tensor], path: str | Path
) -> Regressor:
    """The regressor that :func:`describe` described; ``path`` is for the message of an error."""
    with reading(path, cls):
        regressor = cls(**restored_parameters(description["parameters"]))
        regressor.dtype_ = {"float32": torch.float32, "float64": torch.float64}[
            description["dtype"]
        ]
        regressor.is_series_ = description["is_series"]
        if not isinstance(regressor.is_series_, bool):
            raise ValueError(f"is_series is {regressor.is_series_!r}")
        regressor.labels_ = _labels(description["labels"])
        regressor.fit_result_ = Selection.from_dict(description["selection"])
        n_outputs = regressor.labels_.n_outputs
        regressor.scaling_ = _scaling(tensors_under("scaling.", tensors), n_outputs)
        regressor.n_features_in_ = len(regressor.scaling_.x_shift)
        if description["inputs"] is not None:
            regressor.feature_names_in_ = np.array(description["inputs"], dtype=object)
            if regressor.feature_names_in_.shape != (regressor.n_features_in_,):
                raise ValueError(f"inputs is {description['inputs']!r}")
        members = [new_member(part).to(regressor.dtype_) for part in description["members"]]
        weight = torch.ones(len(members), n_outputs, dtype=torch.float64)
        regressor.model_ = ModelAverage(members, weight)
        state = regressor.model_.state_dict().items()
        derived = {name: value for name, value in state if name.endswith(_DERIVED)}
        restore(regressor.model_, tensors_under("model.", tensors) | derived)
        for module in regressor.model_.modules():
            if isinstance(module, Exact):
                module.refresh()
        regressor.device = _available(str(regressor.device))
        regressor.model_.to(regressor.device)
        rows = torch.linspace(0, 1, ROWS_PREDICTED, dtype=regressor.dtype_, device=regressor.device)
        check_predictions(regressor.model_, rows[:, None].repeat(1, regressor.n_features_in_))
    return regressor


def _available(device: str) -> str:
    """The device that a model was fitted on, or the processor where it is not there."""
    kind = torch.device(device)  # refuses other texts
    try:
        torch.empty(0, device=kind)
    except (AssertionError, RuntimeError, NotImplementedError):
        warnings.warn(
            f"load: the model was fitted on device {device!r}, which is not available here. It predicts "
            "on 'cpu'.",
            stacklevel=2,
        )
        return "cpu"
    return device


def _check_next_row(forecaster: DeepLFMForecaster) -> None:
    """Names and times that do not fit together fail here, and not at the first forecast."""
    record = forecaster._record
    later = record.timeline.after(record.rows.index[-1:], 1)
    timeline = record.timeline.refined(record.rows.index)
    timeline.written(timeline.shown(later))
    last = record.rows[[*record.targets, *record.covariates]].iloc[-1:]
    x = record.inputs(last)
    if len(later) != 1 or x.shape[1] != forecaster.regressor_.n_features_in_:
        raise ValueError(f"{x.shape[1]} inputs of {forecaster.regressor_.n_features_in_}")


def describe_forecaster(forecaster: DeepLFMForecaster) -> Contents:
    """Description and tensors of a fitted forecaster, its training rows included."""
    regressor, parts = describe(forecaster.regressor_)
    description = {
        "estimator": type(forecaster).__name__,
        "parameters": _parameters(forecaster),
        "timeline": forecaster.timeline_.to_dict(),
        "targets": forecaster.targets_,
        "covariates": forecaster.covariates_,
        "inputs": forecaster.inputs_.to_dict(),
        "missing_values": list(forecaster.missing_values_),
        "measurement_error": [[*pair] for pair in forecaster.measurement_error_.items()],
        "regressor": regressor,
    }
    tensors = {f"regressor.{name}": tensor for name, tensor in parts.items()}
    values = forecaster.training_.to_numpy(dtype=np.float64, copy=True)
    tensors["training.values"] = torch.from_numpy(values)
    tensors["training.times"] = forecaster.timeline_.ticks(forecaster.training_.index)
    return description, tensors


def rebuild_forecaster(
    cls: type[Forecaster],
    kind: type[Regressor],
    description: dict[str, Any],
    tensors: dict[str, Tensor],
    path: str | Path,
) -> Forecaster:
    """The forecaster that was described, around a regressor of a kind."""
    with reading(path, cls):
        forecaster = cls(**restored_parameters(description["parameters"]))
        forecaster.timeline_ = Timeline.from_dict(description["timeline"])
        forecaster.targets_ = list(description["targets"])
        forecaster.covariates_ = list(description["covariates"])
        forecaster.inputs_ = KnownInputs.from_dict(description.get("inputs", {}))
        forecaster.missing_values_ = tuple(description.get("missing_values", ()))
        forecaster.measurement_error_ = dict(
            (name, column) for name, column in description.get("measurement_error", ())
        )
        forecaster.training_ = pd.DataFrame(
            tensors["training.values"].numpy(),
            index=forecaster.timeline_.from_ticks(tensors["training.times"]),
            columns=[*forecaster.targets_, *forecaster.covariates_],
        )
        regressor = description["regressor"]
        parts = tensors_under("regressor.", tensors)
        forecaster.regressor_ = rebuild(kind, regressor, parts, path)
        _check_next_row(forecaster)
    return forecaster


def _labels(content: dict[str, Any]) -> Labels:
    names = content["names"]
    if names is not None:  # JSON has lists only
        names = tuple(tuple(name) if isinstance(name, list) else name for name in names)
        if len(names) != content["n_outputs"]:
            raise ValueError(f"{len(names)} names of {content['n_outputs']} targets")
    return Labels(**content | {"names": names})


def _scaling(tensors: dict[str, Tensor], n_outputs: int) -> Scaling:
    """The scaling of some tensors, whose shapes, dtypes and signs are checked."""
    n_inputs = len(tensors["x_shift"])
    for field in fields(Scaling):
        if field.name == "bounds" and field.name not in tensors:
            continue
        tensor = tensors[field.name]
        size = n_inputs if field.name.startswith("x") else n_outputs
        shape = (2, size) if field.name == "bounds" else (size,)
        dtype = torch.bool if field.name == "is_log" else torch.float64
        if tensor.shape != shape or tensor.dtype != dtype:
            found = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
            raise ValueError(f"scaling.{field.name} is {found}, expected {dtype} of shape {shape}")
        if field.name != "bounds" and not bool(tensor.isfinite().all()):
            raise ValueError(f"scaling.{field.name} must be finite")
        if field.name.endswith("_scale") and not bool((tensor > 0).all()):
            raise ValueError(f"scaling.{field.name} must be positive")
    return Scaling(**{name: tensor.numpy() for name, tensor in tensors.items()})


def _parameters(estimator: Any) -> dict[str, Any]:
    """Parameters of an estimator as plain data."""
    parameters = estimator.get_params(deep=False)
    model, prior = plain_model(parameters["model"]), plain_prior(parameters["prior"])
    return parameters | {"model": model, "prior": prior, "checkpoint": None, "backend": None}


def restored_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator of their plain data."""
    try:
        check_settings(parameters | {"device": "cpu"})  # that of the file need not be here
    except ConfigError as error:
        raise ValueError(str(error)) from error
    prior = read_prior(parameters.get("prior"))
    return parameters | {"model": _model(parameters["model"]), "prior": prior}


def plain_prior(prior: Any) -> Any:
    """The argument ``prior`` as plain data, from which :func:`read_prior` makes the same."""
    if isinstance(prior, Mapping):
        return {"by_name": {name: asdict(item) for name, item in prior.items()}}
    return None if prior is None else asdict(prior)


def read_prior(data: Any) -> Any:
    """The argument ``prior`` of its plain data."""
    if data is None:
        return None
    if "by_name" in data:
        return {name: read_prior(item) for name, item in data["by_name"].items()}
    return checked(Prior.from_dict(data))


def plain_model(model: Any) -> Any:
    """A sum of terms as its text; a text of the user as a list of one, so that it comes back as text."""
    if isinstance(model, dict):
        return {name: plain_model(item) for name, item in model.items()}
    return [model] if isinstance(model, str) else to_json(model)


def _model(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _model(item) for name, item in data.items()}
    return str(data[0]) if isinstance(data, list) else from_json(data)
