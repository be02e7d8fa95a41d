"""The paper's toy in one call: a GP, a deep GP, a deep latent force model and the ensemble."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from deeplfm.data.simulated import ToyData, toy_system
from deeplfm.experiments.models import comparator, dlfm, ensemble
from deeplfm.experiments.scores import plain, score
from deeplfm.predictive.mixture import Predictive

PAPER = {"DGP-EQ": (1.4, 3.7), "DLFM": (1.5, 2.4)}  # extrapolation NMSE and MNLL
_PARTS = ("interpolation", "extrapolation")
# The deep GP is trained as our own deep model: as the paper trains it, it learns nothing in this time.
_MODELS = (
    comparator("GP"),
    comparator("DGP-EQ", follows_paper=False),
    dlfm("series"),
    ensemble("series"),
)


@dataclass(eq=False)
class DemoResult:
    """Predictions, scores by model and part, seconds to fit and settings of each model."""

    data: ToyData
    posteriors: dict[str, Predictive] = field(default_factory=dict)
    scores: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The scores as rows of a JSON document."""
        return [
            {"model": model, "seed": self.data.seed, **scores, "seconds": self.seconds[model]}
            for (model, _), scores in self.scores.items()
        ]


def run_demo(variant: str = "published", seed: int = 0, quick: bool = False) -> DemoResult:
    """Fit four models to the toy and score them on the gap and beyond the data."""
    result = DemoResult(toy_system(variant, seed))
    data, inputs, outputs = result.data, result.data.inputs, result.data.outputs
    for entry in _MODELS:
        model, name = entry.build(seed=seed, is_quick=quick, budget=None), entry.label
        shown = {"progress": None, "n_jobs": None if quick else -1}
        model.set_params(**{key: shown[key] for key in shown if key in model.get_params()})
        started = time.monotonic()
        model.fit(inputs[data.train], outputs[data.train])
        result.seconds[name] = time.monotonic() - started
        result.posteriors[name] = model.posterior(inputs)
        for part in _PARTS:
            target = torch.full(outputs.shape, torch.nan, dtype=torch.float64)
            rows = getattr(data, part)
            target[rows] = torch.as_tensor(outputs[rows])
            (result.scores[name, part],) = score(result.posteriors[name], target, part)
        result.settings[name] = plain(model.get_params(deep=False))
    return result
