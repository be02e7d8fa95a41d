"""A deep latent force model of a table, whose targets may have any distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.layers import Layer
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.terms.base import BuildContext, NamedModel
from deeplfm.terms.initial import mean_field
from deeplfm.training import Phase, Rows, Schedule

_N_SAMPLES, _N_PATHS = 1, 8  # of the hidden layers
_HIDDEN_LENGTHSCALE, _HIDDEN_SCALE = 0.5, 0.5
_OUTPUT_LENGTHSCALE, _LOGIT_SCALE = 0.3, 3.0
_WEIGHT_STD, _HIDDEN_WEIGHT_STD, _FREQUENCY_STD = 0.1, 0.03, 0.01  # initial, of q(W) and q(Ω)
_MOST_COMPONENTS, _ROWS_PER_COMPONENT = 24, 50


@dataclass(frozen=True, repr=False)
class DeepTable(NamedModel):
    """Hidden layers, and a mixture density whose weights are functions of the hidden values alone.

    Each layer is the response of a Gaussian smoothing filter to Gaussian-process forces on its inputs
    (``"eq"``): a response along single inputs (``"ode1"``) is additive, and tables have interactions.
    Nothing passes by the hidden layers. They are wide, and a constant and linear functions of the
    inputs are among their columns, so that no input is lost on the way.

    Attributes:
        hidden: width of each hidden layer.
        n_features: number of frequencies of the last layer.
        n_hidden_features: number of frequencies of a hidden layer.

    >>> str(DeepTable((16, 16), n_features=100))
    'deeptable((16, 16), n_features=100)'
    """

    term_name: ClassVar[str] = "deeptable"
    n_steps: ClassVar[int] = 800
    is_calibrated: ClassVar[bool] = False
    default_dtype: ClassVar[torch.dtype] = torch.float32
    hidden: tuple[int, ...] = (16,)
    n_features: int = 200
    n_hidden_features: int = 50

    def schedule(self, n_steps: int) -> Schedule:
        """The evidence lower bound, in batches of 1000 rows, with a rate that falls to zero."""
        return Schedule(
            "elbo",
            (Phase(n_steps),),
            batch_size=1000,
            learning_rate=0.03,
            final_rate_fraction=0.02,
            weight_decay=0.0,
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """Random functions of the inputs in the hidden layers; components at quantiles of the targets."""
        n_outputs, n_known = rows.y.shape[1], int((~rows.y.isnan()).sum(0).min())
        n_components = max(2, min(_MOST_COMPONENTS, n_known // _ROWS_PER_COMPONENT))
        block = BlockConfig(
            "eq", n_features=self.n_hidden_features, extras=("constant", "trend"), name="deep"
        )
        last = replace(block, inputs="hidden", n_features=self.n_features)
        hidden = tuple(LayerConfig(width, (block,)) for width in self.hidden)
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*hidden, LayerConfig(n_outputs * n_components, (last,))),
            n_samples=_N_SAMPLES,
            n_paths=_N_PATHS,
            n_components=n_components,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        generator = generator_for(context.seed, "start")
        for layer in model.layers[:-1]:
            _initialise(layer, _HIDDEN_LENGTHSCALE, _HIDDEN_SCALE, _HIDDEN_WEIGHT_STD)
            mean_field(layer).mean.data.normal_(generator=generator)
        _initialise(model.output_layer, _OUTPUT_LENGTHSCALE, _LOGIT_SCALE, _WEIGHT_STD)
        model.mixture_density.initialise(rows.y, rows.counts)
        return model


@torch.no_grad()
def _initialise(layer: Layer, lengthscale: float, scale: float, std: float) -> None:
    """Functions of a lengthscale, for each of P inputs in units of √P, and of a size."""
    (block,) = layer.blocks
    features, frequencies = block.features, block.frequencies
    features.log_lengthscale.fill_(math.log(lengthscale * math.sqrt(features.n_inputs)))
    features.set_sensitivity(torch.full_like(features.sensitivity, scale))
    frequencies.mean.copy_(frequencies.noise[0] * features.frequency_prior()[1])
    frequencies.log_std.fill_(math.log(_FREQUENCY_STD))
    mean_field(layer).log_std.fill_(math.log(std))
