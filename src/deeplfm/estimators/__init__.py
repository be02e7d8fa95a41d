"""Estimators: what most users touch."""

from deeplfm.estimators.regressor import DeepLFMRegressor

__all__ = ["DeepLFMRegressor"]
