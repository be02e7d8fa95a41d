"""What all recipes share: the choices of a user, and how they become a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.starts.initial import start_deep, start_hidden
from deeplfm.training import Phase, Rows, Schedule

# A record cut out of a system that was running before.
RUNNING: dict[str, Any] = {"lower_limit": -math.inf}


@dataclass(frozen=True)
class Architecture:
    """What a user may choose about the model.

    Attributes:
        system: feature map of the deep path.
        hidden: widths of the hidden layers.
        n_forces: number Q of latent forces of each deep block.
        n_features: number M of frequencies per force.
        input_dependent_noise: learn the noise as a function of the input.
        dtype: of the parameters.
    """

    system: str = "ode1"
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100
    input_dependent_noise: bool = False
    dtype: torch.dtype = torch.float64

    @property
    def linear_system(self) -> str:
        """System of the linear path: the user's, where a wave passes through it as a wave."""
        return "eq" if self.system == "eq" else "ode1"


def block_for(architecture: Architecture, system: str | None = None, **changes: Any) -> BlockConfig:
    """A block as the user chose it, of another system or with other parts where asked."""
    system = system or architecture.system
    block = BlockConfig(
        system,
        n_forces=architecture.n_forces,
        n_features=architecture.n_features,
        options=RUNNING if system == "ode1" else {},
    )
    return replace(block, **changes)


def model_config(
    architecture: Architecture,
    rows: Rows,
    layers: tuple[LayerConfig, ...],
    n_samples: int,
    n_paths: int,
) -> ModelConfig:
    """The declaration of a model for some rows."""
    return ModelConfig(
        n_inputs=rows.x.shape[1],
        layers=layers,
        input_dependent_noise=architecture.input_dependent_noise,
        n_samples=n_samples,
        n_paths=n_paths,
    )


def new_model(config: ModelConfig, architecture: Architecture, seed: int) -> DeepLFM:
    """A model in the user's dtype, before its start."""
    return DeepLFM(config, seed).to(architecture.dtype)


def deep_model(
    architecture: Architecture,
    rows: Rows,
    seed: int,
    first: BlockConfig,
    output: tuple[BlockConfig, ...],
) -> DeepLFM:
    """Hidden layers at random warps, and an exact output layer whose first block is the deep path."""
    hidden = tuple(
        LayerConfig(width, (first,), is_antithetic=True) for width in architecture.hidden
    )
    last = LayerConfig(rows.y.shape[1], output, "exact", own_features=True)
    config = model_config(architecture, rows, (*hidden, last), n_samples=4, n_paths=16)
    model = new_model(config, architecture, seed)
    generator = generator_for(seed, "start")
    for layer in model.layers[:-1]:
        start_hidden(layer, generator)
    if hidden:
        start_deep(model.output_layer.blocks[0])
    return model


def collapsed_schedule(n_steps: int) -> Schedule:
    """All rows in every step, the exact last layer solved in each."""
    return Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=None,
        learning_rate=0.05,
        final_rate_fraction=0.1,
        weight_decay=0.0,
    )
