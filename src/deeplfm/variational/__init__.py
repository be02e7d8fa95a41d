"""Distributions over what is unknown: frequencies and weights."""

from deeplfm.errors import ConfigError
from deeplfm.variational.exact import Exact
from deeplfm.variational.gaussian import (
    STRATEGIES,
    Frequencies,
    FullCovariance,
    GaussianWeights,
    MeanField,
)

FAMILIES: dict[str, type[GaussianWeights]] = {
    "mean-field": MeanField,
    "full": FullCovariance,
    "exact": Exact,
}


def gaussian_weights(family: str) -> type[GaussianWeights]:
    """The q(W) registered under a name."""
    try:
        return FAMILIES[family]
    except KeyError:
        raise ConfigError(
            f"weights: {family!r} is not known. Choose one of {', '.join(FAMILIES)}."
        ) from None


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
