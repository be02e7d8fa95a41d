"""Recipes that know nothing of time: the paper's, and those for tables."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.ensemble.nearest_neighbour_gp import NearestNeighbourGP
from deeplfm.ensemble.nearest_neighbour_start import find_roughness
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.recipes.architecture import (
    Architecture,
    block_for,
    collapsed_schedule,
    deep_model,
    model_config,
    new_model,
)
from deeplfm.selection.candidate import Candidate
from deeplfm.starts.initial import mean_field, set_noise, start_as_paper, start_fine
from deeplfm.training import Phase, Rows, Schedule
from deeplfm.training.conditioning import condition

_MOST_FEATURES = 500
_LINE = ("constant", "trend")
_MOST_BELLS, _ROWS_PER_BELL = 24, 50
_LOGIT_SCALE = 3.0  # prior standard deviation of the functions that weigh bells


def paper_recipe(architecture: Architecture, n_steps: int) -> Candidate:
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

    return Candidate("paper", build, Schedule("elbo", (Phase(n_steps),), batch_size=1000))


def table_recipe(architecture: Architecture, n_steps: int = 100) -> Candidate:
    """For tables: a deep path, and a shallow one on the inputs beside it."""
    first = block_for(architecture, extras=("trend",))
    deep = block_for(architecture, n_forces=1)
    shallow = BlockConfig("eq", "original", n_features=100, extras=_LINE)

    def build(rows: Rows, seed: int) -> DeepLFM:
        model = deep_model(architecture, rows, seed, first, (deep, shallow))
        start_fine(model.output_layer.blocks[-1])
        set_noise(model, torch.full((rows.y.shape[1],), 0.1))
        return model

    schedule = Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=1000,
        learning_rate=0.01,
        final_rate_fraction=0.05,
        weight_decay=0.0,
        natural_rate=0.1,
    )
    return Candidate("table", build, schedule)


def neighbours_recipe(architecture: Architecture, margin: float = 0.0) -> Candidate:
    """For tables and gaps: a straight line, and what the nearest rows have left over of it.

    What neighbouring rows have in common, smooth features miss. How rough it is, is learned from how
    well rows are predicted by their neighbours.

    Args:
        architecture: what the user chose.
        margin: in a race.
    """

    def build(rows: Rows, seed: int) -> NearestNeighbourGP:
        n_outputs = rows.y.shape[1]
        line = BlockConfig("eq", n_features=0, frequencies="prior-fixed", extras=_LINE)
        output = LayerConfig(n_outputs, (line,), "exact", own_features=True)
        config = model_config(architecture, rows, (output,), n_samples=1, n_paths=1)
        model = NearestNeighbourGP(config, seed).to(architecture.dtype).to(rows.x.device)
        condition(model, rows)
        generator = generator_for(seed, "start")
        with torch.no_grad():
            for d, rest in enumerate(model.rest().unbind(dim=-1)):
                is_known = ~rest.isnan() & (model.row_weight > 0)
                found = find_roughness(
                    model.x[is_known], rest[is_known], generator, model.row_weight[is_known]
                )
                model.log_lengthscale[d] = found.lengthscale.log()
                model.log_scale[d] = found.scale.log()
                model.is_smooth[d], model.n_heard[d] = found.is_smooth, found.n_heard
                model.gaussian.log_variance[d] = found.noise_variance.log()
                model.tail_share[:, d], model.tail_scale[:, d] = found.tail_share, found.tail_scale
        return model

    return Candidate("neighbours", build, collapsed_schedule(0), margin)


def density_recipe(architecture: Architecture, n_steps: int = 800) -> Candidate:
    """For tables: a density of any shape, whose bells the features of the inputs weigh.

    What a table does not tell is seldom Gaussian: a target may be near either of two values.
    """

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs, n_known = rows.y.shape[1], int((~rows.y.isnan()).sum(0).min())
        n_components = max(2, min(_MOST_BELLS, n_known // _ROWS_PER_BELL))
        n_features = min(_MOST_FEATURES, max(50, len(rows) // 20))
        block = BlockConfig("eq", n_features=n_features, extras=_LINE)
        output = LayerConfig(n_outputs * n_components, (block,))
        config = model_config(architecture, rows, (output,), n_samples=1, n_paths=1)
        model = new_model(replace(config, n_components=n_components), architecture, seed)
        start_fine(model.output_layer.blocks[0])
        features = model.output_layer.blocks[0].features
        features.set_sensitivity(torch.full_like(features.sensitivity, _LOGIT_SCALE))
        mean_field(model.output_layer).log_std.data.fill_(math.log(0.1))
        model.mixture_density.initialise(rows.y, rows.counts)
        return model

    schedule = Schedule(
        "elbo",
        (Phase(n_steps),),
        batch_size=1000,
        learning_rate=0.02,
        final_rate_fraction=0.02,
        weight_decay=0.0,
    )
    return Candidate("density", build, schedule)
