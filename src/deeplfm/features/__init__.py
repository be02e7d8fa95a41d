"""Feature maps: a class for each linear system, one line each in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deeplfm.errors import ConfigError
from deeplfm.features.base import FeatureMap
from deeplfm.features.harmonic import HarmonicMap
from deeplfm.features.ode2 import SecondOrder
from deeplfm.features.projections import ArcCosine, ArcCosine0, ArcCosine2, ExponentiatedQuadratic
from deeplfm.features.response import FirstOrder, Response

if TYPE_CHECKING:
    from deeplfm.features.response_kernel import ResponseKernel

SYSTEMS: dict[str, type[FeatureMap]] = {
    "ode1": FirstOrder,
    "ode2": SecondOrder,
    "eq": ExponentiatedQuadratic,
    "arc0": ArcCosine0,
    "arc1": ArcCosine,
    "arc2": ArcCosine2,
}


def feature_map(system: str) -> type[FeatureMap]:
    """The feature map registered under a name."""
    try:
        return SYSTEMS[system]
    except KeyError:
        raise ConfigError(
            f"system: {system!r} is not known. Choose one of {', '.join(SYSTEMS)}."
        ) from None


def register(system: str, features: type[FeatureMap]) -> None:
    """Make a feature map known by a name, to be used wherever a system is named.

    Args:
        system: the name, not taken yet.
        features: a subclass of :class:`FeatureMap`.
    """
    if system in SYSTEMS:
        raise ConfigError(
            f"system: {system!r} is already registered, for {SYSTEMS[system].__name__}. "
            "Choose another name."
        )
    if not (isinstance(features, type) and issubclass(features, FeatureMap)):
        raise ConfigError(f"system: {features!r} is no feature map. Derive it from FeatureMap.")
    SYSTEMS[system] = features


def __getattr__(name: str) -> Any:
    """The kernel imports GPyTorch, which takes a second, when it is first used."""
    if name == "ResponseKernel":
        from deeplfm.features.response_kernel import ResponseKernel

        return ResponseKernel
    raise AttributeError(f"module 'deeplfm.features' has no attribute {name!r}")


__all__ = [
    "SYSTEMS",
    "ArcCosine",
    "ArcCosine0",
    "ArcCosine2",
    "ExponentiatedQuadratic",
    "FeatureMap",
    "FirstOrder",
    "HarmonicMap",
    "Response",
    "ResponseKernel",
    "SecondOrder",
    "feature_map",
    "register",
]
