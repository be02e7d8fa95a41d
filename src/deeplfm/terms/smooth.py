"""A Gaussian process of a table: straight lines and a smooth function, shrunk by the evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.terms.base import BuildContext, NamedModel, set_noise
from deeplfm.training import Phase, Rows, Schedule

_AT_ONCE = 5000  # rows of a step; the weights of fewer rows are solved in each step
_LINEAR, _SMOOTH = 0.3, 0.5  # prior standard deviation of each slope, and of the smooth function
_NOISE = 0.3  # variance, before training


@dataclass(frozen=True, repr=False)
class Smooth(NamedModel):
    """A straight line and a smooth function of all inputs, with exact weights.

    The scale of the line and of the smooth function along each input is trained by the evidence. So what
    the rows do not show is shrunk, which suits tables of few rows.

    Attributes:
        n_features: number of frequencies of the smooth function.
    """

    term_name: ClassVar[str] = "smooth"
    has_hidden_layer: ClassVar[bool] = False
    n_features: int = 100

    def schedule(self, n_steps: int) -> Schedule:
        """The evidence of all rows, or of many, natural-gradient steps of the exact weights."""
        return Schedule(
            "collapsed",
            (Phase(n_steps),),
            batch_size=_AT_ONCE,
            learning_rate=0.05,
            final_rate_fraction=0.05,
            weight_decay=0.0,
            natural_rate=0.3,
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model of nearly straight lines."""
        n_inputs, n_outputs = rows.x.shape[1], rows.y.shape[1]
        block = BlockConfig(
            "eq",
            "original",
            n_features=self.n_features,
            frequencies="prior-fixed",
            extras=("constant", "trend"),
            name=self.term_name,
        )
        config = ModelConfig(
            n_inputs=n_inputs,
            layers=(LayerConfig(n_outputs, (block,), "exact", own_features=True),),
            input_dependent_noise=context.input_dependent_noise,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        features = model.output_layer.block(self.term_name).features
        with torch.no_grad():
            features.log_lengthscale.fill_(math.log(2 * math.sqrt(n_inputs)))
            features.set_sensitivity(torch.full_like(features.sensitivity, _SMOOTH))
            features.log_extra_scale[:, 1:].fill_(math.log(_LINEAR))
        set_noise(model, torch.full((n_outputs,), _NOISE))
        return model
