"""A fitted regressor as plain data and tensors, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deeplfm import config as configuration
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.nearest_neighbour_gp import NearestNeighbourGP
from deeplfm.errors import ModelFileError
from deeplfm.estimators.labels import Labels
from deeplfm.estimators.saving import Contents
from deeplfm.estimators.scaling import Scaling
from deeplfm.io.storage import restore
from deeplfm.model import DeepLFM
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.result import Selection

_KINDS = {kind.kind: kind for kind in (DeepLFM, Autoregression, NearestNeighbourGP)}

if TYPE_CHECKING:
    from deeplfm.estimators.regressor import DeepLFMRegressor


def describe(regressor: DeepLFMRegressor) -> Contents:
    """All that a fitted regressor is."""
    description = {
        "estimator": type(regressor).__name__,
        "parameters": regressor.get_params(),
        "is_series": regressor.is_series_,
        "inputs": getattr(regressor, "feature_names_in_", None),
        "labels": asdict(regressor.labels_),
        "members": [_describe_member(member) for member in regressor.model_.members],
        "selection": asdict(regressor.fit_result_),
    }
    scaling = vars(regressor.scaling_)
    tensors = {f"scaling.{name}": torch.as_tensor(value) for name, value in scaling.items()}
    tensors |= {f"stack.{name}": value for name, value in regressor.model_.state_dict().items()}
    return description, tensors


def rebuild(
    cls: type[DeepLFMRegressor],
    description: dict[str, Any],
    tensors: dict[str, Tensor],
    path: str | Path,
) -> DeepLFMRegressor:
    """The regressor that :func:`describe` described; ``path`` is for the message of an error."""
    try:
        regressor = cls(**description["parameters"])
        regressor.hidden = tuple(regressor.hidden)
        scaling = {
            name: tensors.pop(f"scaling.{name}").numpy()
            for name in ("x_shift", "x_scale", "y_shift", "y_scale")
        }
        no_log = torch.zeros(len(scaling["y_shift"]), dtype=torch.bool)  # of an earlier file
        scaling["is_log"] = tensors.pop("scaling.is_log", no_log).numpy()
        members = [_member(part).to(regressor._dtype()) for part in description["members"]]
        regressor.is_series_ = description["is_series"]
        if description["inputs"] is not None:
            regressor.feature_names_in_ = np.array(description["inputs"], dtype=object)
        labels = description["labels"]
        if labels["names"] is not None:  # JSON knows lists only
            names = (tuple(n) if isinstance(n, list) else n for n in labels["names"])
            labels = labels | {"names": tuple(names)}
        regressor.labels_ = Labels(**labels)
        regressor.fit_result_ = Selection.from_dict(description["selection"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"load: {path} does not describe a {cls.__name__} ({error!r}). Save the model again."
        ) from error
    regressor.scaling_ = Scaling(**scaling)
    regressor.n_features_in_ = len(scaling["x_shift"])
    n_outputs = len(scaling["y_shift"])
    regressor.model_ = ModelAverage(
        members, torch.ones(len(members), n_outputs, dtype=torch.float64)
    )
    span = tensors.get("stack.span")
    if span is not None and span.ndim == 1:  # an earlier file: one for all outputs
        tensors["stack.span"] = span[:, None].repeat(1, n_outputs)
    for i, member in enumerate(members):
        if isinstance(
            member, NearestNeighbourGP
        ):  # in an earlier file all were rough, and heard as many
            tensors.setdefault(f"stack.members.{i}.is_smooth", member.is_smooth)
            tensors.setdefault(f"stack.members.{i}.n_heard", member.n_heard)
    restore(
        regressor.model_, {name.removeprefix("stack."): value for name, value in tensors.items()}
    )
    regressor.model_.to(regressor.device)
    return regressor


def _describe_member(member: DeepLFM) -> dict[str, Any]:
    config = configuration.to_dict(member.config)
    return {"kind": member.kind, "seed": member.seed, "config": config, "sizes": member.sizes}


def _member(description: dict[str, Any]) -> DeepLFM:
    config, seed = configuration.from_dict(description["config"]), description["seed"]
    return _KINDS[description["kind"]](config, seed, **description["sizes"])
