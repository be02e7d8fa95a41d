"""A fitted forecaster as plain data and tensors, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deeplfm.errors import ModelFileError
from deeplfm.estimators.archive import Contents
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.timeline import Timeline

if TYPE_CHECKING:
    from deeplfm.estimators.forecaster import DeepLFMForecaster

Forecaster = TypeVar("Forecaster", bound="DeepLFMForecaster")

_PREFIX = "regressor."


def describe_forecaster(forecaster: DeepLFMForecaster) -> Contents:
    """All that a fitted forecaster is, its training rows included."""
    regressor, parts = forecaster.regressor_._described()
    description = {
        "estimator": type(forecaster).__name__,
        "parameters": forecaster.get_params(),
        "timeline": forecaster.timeline_.to_dict(),
        "targets": forecaster.targets_,
        "covariates": forecaster.covariates_,
        "regressor": regressor,
    }
    tensors = {f"{_PREFIX}{name}": tensor for name, tensor in parts.items()}
    values = forecaster.training_.to_numpy(dtype=np.float64, copy=True)
    tensors["training.values"] = torch.from_numpy(values)
    tensors["training.times"] = forecaster.timeline_.ticks(forecaster.training_.index)
    return description, tensors


def rebuild_forecaster(
    cls: type[Forecaster],
    description: dict[str, Any],
    tensors: dict[str, Tensor],
    path: str | Path,
) -> Forecaster:
    """The forecaster that was described; ``path`` is for the message of an error."""
    try:
        forecaster = cls(**description["parameters"])
        forecaster.hidden = tuple(forecaster.hidden)
        forecaster.timeline_ = Timeline.from_dict(description["timeline"])
        forecaster.targets_ = list(description["targets"])
        forecaster.covariates_ = list(description["covariates"])
        forecaster.training_ = pd.DataFrame(
            tensors["training.values"].numpy(),
            index=forecaster.timeline_.from_ticks(tensors["training.times"]),
            columns=[*forecaster.targets_, *forecaster.covariates_],
        )
        regressor = description["regressor"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"load: {path} does not describe a {cls.__name__} ({error!r}). Save the model again, or load "
            "another kind of model with deeplfm.load."
        ) from error
    parts = {
        name.removeprefix(_PREFIX): tensor
        for name, tensor in tensors.items()
        if name.startswith(_PREFIX)
    }
    forecaster.regressor_ = DeepLFMRegressor._restored(regressor, parts, path)
    return forecaster
