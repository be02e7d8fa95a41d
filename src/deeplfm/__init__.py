"""Deep latent force models: Bayesian deep models of time series built from differential equations.

The public names; each is imported when it is first used, so that ``import deeplfm`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deeplfm.errors import (
        ConfigError,
        DeepLFMError,
        InputError,
        ModelFileError,
        TrainingDivergedError,
    )
    from deeplfm.estimators import DeepLFMRegressor
    from deeplfm.model import DeepLFM
    from deeplfm.predictive import Predictive

_HOMES = {
    "ConfigError": "deeplfm.errors",
    "DeepLFM": "deeplfm.model",
    "DeepLFMError": "deeplfm.errors",
    "DeepLFMRegressor": "deeplfm.estimators",
    "InputError": "deeplfm.errors",
    "ModelFileError": "deeplfm.errors",
    "Predictive": "deeplfm.predictive",
    "TrainingDivergedError": "deeplfm.errors",
}

__all__ = [
    "ConfigError",
    "DeepLFM",
    "DeepLFMError",
    "DeepLFMRegressor",
    "InputError",
    "ModelFileError",
    "Predictive",
    "TrainingDivergedError",
    "__version__",
    "load",
]


def load(path: str) -> DeepLFMRegressor:
    """The estimator saved in a folder."""
    from deeplfm.estimators import DeepLFMRegressor

    return DeepLFMRegressor.load(path)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'deeplfm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
