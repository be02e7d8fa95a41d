"""Estimators: what most users touch."""

from __future__ import annotations

from pathlib import Path

from deeplfm.errors import ModelFileError
from deeplfm.estimators.forecaster import DeepLFMForecaster
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.io.storage import read_folder

_KINDS = {kind.__name__: kind for kind in (DeepLFMRegressor, DeepLFMForecaster)}


def load(path: str | Path) -> DeepLFMRegressor | DeepLFMForecaster:
    """The estimator saved in a folder, of the kind that was saved."""
    description, tensors = read_folder(path)
    kind = _KINDS.get(str(description.get("estimator")))
    if kind is None:
        raise ModelFileError(
            f"load: {path} does not describe an estimator of deeplfm, but "
            f"{description.get('estimator')!r}. Save the model again."
        )
    return kind._restored(description, tensors, path)


__all__ = ["DeepLFMForecaster", "DeepLFMRegressor", "load"]
