"""A deep latent force model for tables: several inputs, none of which is time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.layers import Block
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.terms.base import BuildContext, NamedModel, running, set_noise
from deeplfm.terms.deep import N_PATHS, N_SAMPLES, initialise_layer, initialise_output
from deeplfm.training import Phase, Rows, Schedule

_SHALLOW_FEATURES = 100
_NOISE = 0.1  # variance, before training


@dataclass(frozen=True, repr=False)
class Table(NamedModel):
    """Hidden layers, and beside them smooth features of the inputs, with exact output weights.

    Attributes:
        hidden: width of each hidden layer.
        n_forces: number of latent forces of a hidden layer.
        n_features: number of frequencies of each force.
        system: linear system of the deep path.
    """

    term_name: ClassVar[str] = "table"
    n_steps: ClassVar[int] = 100
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100
    system: str = "ode1"

    def schedule(self, n_steps: int) -> Schedule:
        """Mini-batches, with natural-gradient steps of the exact output weights."""
        return Schedule(
            "collapsed",
            (Phase(n_steps),),
            batch_size=1000,
            learning_rate=0.01,
            final_rate_fraction=0.05,
            weight_decay=0.0,
            natural_rate=0.1,
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model whose hidden layers start at random functions of the inputs."""
        deep = BlockConfig(
            self.system, n_features=self.n_features, options=running(self.system), name="deep"
        )
        first = BlockConfig(
            self.system,
            n_forces=self.n_forces,
            n_features=self.n_features,
            extras=("trend",),
            options=running(self.system),
            name="deep",
        )
        shallow = BlockConfig(
            "eq",
            "original",
            n_features=_SHALLOW_FEATURES,
            extras=("constant", "trend"),
            name="smooth",
        )
        hidden = tuple(LayerConfig(width, (first,), is_antithetic=True) for width in self.hidden)
        output = LayerConfig(rows.y.shape[1], (deep, shallow), "exact", own_features=True)
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*hidden, output),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=N_SAMPLES,
            n_paths=N_PATHS,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        generator = generator_for(context.seed, "start")
        for layer in model.layers[:-1]:
            initialise_layer(layer, generator)
        initialise_output(model.output_layer.block("deep"))
        initialise_fine(model.output_layer.block("smooth"))
        set_noise(model, torch.full((rows.y.shape[1],), _NOISE))
        return model


@torch.no_grad()
def initialise_fine(block: Block) -> None:
    """Frequencies for a standardised table: a quarter of the usual distance of two rows is resolved."""
    features, frequencies = block.features, block.frequencies
    features.log_lengthscale.fill_(math.log(0.25 * math.sqrt(features.n_inputs)))
    frequencies.mean.copy_(frequencies.noise[0] * features.frequency_prior()[1])
    frequencies.log_std.fill_(math.log(0.01))
