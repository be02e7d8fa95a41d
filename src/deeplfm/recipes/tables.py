"""Recipes that know nothing of time: the paper's, and the default for tables."""

from __future__ import annotations

from dataclasses import replace

import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.recipes.architecture import (
    Architecture,
    block_for,
    deep_model,
    model_config,
    new_model,
)
from deeplfm.starts.initial import set_noise, start_as_paper, start_fine
from deeplfm.training import Phase, Rows, Schedule
from deeplfm.training.race import Recipe

_MOST_FEATURES = 500


def paper_recipe(architecture: Architecture, n_steps: int) -> Recipe:
    """The paper's text: var-fixed, mean-field, ELBO, AdamW at 0.01, 100 samples, batches of 1000.

    Args:
        architecture: system, widths, forces and features.
        n_steps: training steps; the paper does not say.
    """
    block = BlockConfig(
        architecture.system, n_forces=architecture.n_forces, n_features=architecture.n_features
    )

    def build(rows: Rows, seed: int) -> DeepLFM:
        hidden = tuple(LayerConfig(width, (block,)) for width in architecture.hidden)
        output = LayerConfig(rows.y.shape[1], (block,), own_features=True)
        config = model_config(architecture, rows, (*hidden, output), n_samples=100, n_paths=100)
        model = new_model(config, architecture, seed)
        start_as_paper(model, generator_for(seed, "start"))
        return model

    return Recipe("paper", build, Schedule("elbo", (Phase(n_steps),), batch_size=1000))


def table_recipe(architecture: Architecture, n_steps: int = 1000, is_deep: bool = True) -> Recipe:
    """For tables: a shallow path on the inputs, and beside it a deep one unless told otherwise.

    Alone, the shallow path has as many features as the rows can carry: what a table hides between its
    rows is mostly finer than a deep path of few units can draw.
    """
    first = block_for(architecture, extras=("trend",))
    deep = block_for(architecture, n_forces=1)
    if not is_deep:
        architecture = replace(architecture, hidden=())

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_features = 100 if is_deep else min(_MOST_FEATURES, max(50, len(rows) // 20))
        shallow = BlockConfig("eq", "original", n_features=n_features, extras=("constant", "trend"))
        output = (deep, shallow) if is_deep else (shallow,)
        model = deep_model(architecture, rows, seed, first, output)
        start_fine(model.output_layer.blocks[-1])
        set_noise(model, torch.full((rows.y.shape[1],), 0.1))
        return model

    schedule = Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=1000,
        learning_rate=0.01 if is_deep else 0.03,
        final_rate_fraction=0.05,
        weight_decay=0.0,
        natural_rate=0.1,
    )
    return Recipe("table" if is_deep else "table: shallow", build, schedule)
