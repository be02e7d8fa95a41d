"""Deep latent force models: Bayesian deep models of time series built from differential equations.

The public names; each is imported when it is first used, so that ``import deeplfm`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
    from deeplfm.errors import (
        ConfigError,
        DeepLFMError,
        InputError,
        ModelFileError,
        TrainingDivergedError,
    )
    from deeplfm.estimators import DeepLFMForecaster, DeepLFMRegressor, load
    from deeplfm.estimators.comparison import compare
    from deeplfm.estimators.tuning import tune
    from deeplfm.model import DeepLFM
    from deeplfm.predictive.mixture import Predictive
    from deeplfm.training import Phase, Rows, RowSource, Schedule, StoredRows, train

_HOMES = {
    "BlockConfig": "deeplfm.config",
    "ConfigError": "deeplfm.errors",
    "DeepLFM": "deeplfm.model",
    "DeepLFMError": "deeplfm.errors",
    "DeepLFMForecaster": "deeplfm.estimators",
    "DeepLFMRegressor": "deeplfm.estimators",
    "InputError": "deeplfm.errors",
    "LayerConfig": "deeplfm.config",
    "ModelConfig": "deeplfm.config",
    "Phase": "deeplfm.training",
    "Rows": "deeplfm.training",
    "Schedule": "deeplfm.training",
    "ModelFileError": "deeplfm.errors",
    "Predictive": "deeplfm.predictive.mixture",
    "RowSource": "deeplfm.training",
    "StoredRows": "deeplfm.training",
    "TrainingDivergedError": "deeplfm.errors",
    "compare": "deeplfm.estimators.comparison",
    "load": "deeplfm.estimators",
    "train": "deeplfm.training",
    "tune": "deeplfm.estimators.tuning",
}

__all__ = [
    "BlockConfig",
    "ConfigError",
    "DeepLFM",
    "DeepLFMError",
    "DeepLFMForecaster",
    "DeepLFMRegressor",
    "InputError",
    "LayerConfig",
    "ModelConfig",
    "ModelFileError",
    "Phase",
    "Predictive",
    "RowSource",
    "Rows",
    "Schedule",
    "StoredRows",
    "TrainingDivergedError",
    "__version__",
    "compare",
    "load",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'deeplfm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
