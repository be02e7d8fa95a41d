"""The systems to compare with, by the names that tables give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deeplfm.baselines.base import Baseline

_PLACES = {
    "GP": "exact_gp.ExactGP",
    "VAR-GP": "svgp.SparseGP",
    "LFM": "latent_force.LatentForceModel",
    "LFM-RFF": "random_features.LatentForceFeatures",
    "DGP-EQ": "random_features.DeepEQ",
    "DGP-ARC": "random_features.DeepArcCosine",
    "hybrid kernel": "random_features.HybridKernel",
    "C-DGP": "constrained_gp.ConstrainedGP",
    "DNN": "neural.NeuralNetwork",
    "Conv-CNP": "neural_processes.ConvCNP",
    "GNP": "neural_processes.GaussianNP",
    "boosted trees": "boosting.BoostedTrees",
    "ridge on lags": "lags.RidgeOnLags",
    "last period": "lags.LastPeriod",
}


class _Registry(Mapping[str, "type[Baseline]"]):
    """Name of a comparator → its class, whose module is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Baseline]:
        module, _, kind = _PLACES[name].partition(".")
        return getattr(import_module(f"{__name__}.{module}"), kind)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


BASELINES: Mapping[str, type[Baseline]] = _Registry()

__all__ = ["BASELINES"]
