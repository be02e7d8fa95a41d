"""Recipes that know nothing of time: the paper's, and the default for tables."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.recipes.architecture import Architecture, deep_block, model_config, new_model
from deeplfm.starts.initial import set_noise, start_as_paper, start_deep, start_hidden
from deeplfm.training import Phase, Rows, Schedule
from deeplfm.training.race import Recipe


def paper_recipe(architecture: Architecture, n_steps: int, eq_lengthscale: float = 0.01) -> Recipe:
    """The paper's text, letter by letter: var-fixed, mean-field, ELBO, AdamW at 0.01, 100 samples.

    Args:
        architecture: system, widths, forces and features.
        n_steps: training steps; the paper does not say.
        eq_lengthscale: start of the lengthscales of a DGP (0.01, on UCI the width of the layer).
    """
    block = BlockConfig(
        architecture.system, n_forces=architecture.n_forces, n_features=architecture.n_features
    )

    def build(rows: Rows, seed: int) -> DeepLFM:
        hidden = tuple(LayerConfig(width, (block,)) for width in architecture.hidden)
        output = LayerConfig(rows.y.shape[1], (block,), own_features=True)
        config = model_config(architecture, rows, (*hidden, output), n_samples=100, n_paths=100)
        model = new_model(config, architecture, seed)
        start_as_paper(model, generator_for(seed, "start"), eq_lengthscale)
        return model

    return Recipe("paper", build, Schedule("elbo", (Phase(n_steps),), batch_size=1000))


def table_recipe(architecture: Architecture, n_steps: int = 2000) -> Recipe:
    """For tables: the deep path on all inputs beside a shallow one on the original inputs."""
    first = replace(deep_block(architecture), extras=("trend",))
    deep = replace(deep_block(architecture), n_forces=1)
    shallow = BlockConfig("eq", "original", n_features=100, extras=("constant", "trend"))

    def build(rows: Rows, seed: int) -> DeepLFM:
        hidden = tuple(LayerConfig(width, (first,)) for width in architecture.hidden)
        output = LayerConfig(rows.y.shape[1], (deep, shallow), "exact", own_features=True)
        model = new_model(
            model_config(architecture, rows, (*hidden, output), 4, 16), architecture, seed
        )
        generator = generator_for(seed, "start")
        for layer in model.layers[:-1]:
            start_hidden(layer, generator)
        deep_block, shallow_block = model.output_layer.blocks
        start_deep(deep_block)
        with torch.no_grad():
            width = math.sqrt(rows.x.shape[1])
            shallow_block.features.log_lengthscale.fill_(math.log(width))
            shallow_block.frequencies.reset(shallow_block.features)
        set_noise(model, torch.full((rows.y.shape[1],), 0.1))
        return model

    schedule = Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=1000,
        final_rate_fraction=0.05,
        weight_decay=0.0,
        natural_rate=0.1,
    )
    return Recipe("table", build, schedule)
