"""Distributions over what is unknown: frequencies and weights."""

from deeplfm.variational.frequencies import STRATEGIES, Frequencies
from deeplfm.variational.weights import (
    FAMILIES,
    Exact,
    FullCovariance,
    GaussianWeights,
    MeanField,
    gaussian_weights,
)

__all__ = [
    "FAMILIES",
    "STRATEGIES",
    "Exact",
    "Frequencies",
    "FullCovariance",
    "GaussianWeights",
    "MeanField",
    "gaussian_weights",
]
