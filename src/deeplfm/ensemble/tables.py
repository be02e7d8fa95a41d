"""Recipes that know nothing of time: the paper's, and those for tables."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.nearest_neighbour_gp import NearestNeighbourGP
from deeplfm.ensemble.nearest_neighbour_start import find_roughness
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.selection.candidate import Candidate
from deeplfm.terms.base import BuildContext, collapsed_schedule
from deeplfm.terms.initial import mean_field
from deeplfm.terms.table import initialise_fine
from deeplfm.training import Phase, Rows, Schedule
from deeplfm.training.loop import condition

_STEPS = 800
_MOST_FEATURES = 500
_LINE = ("constant", "trend")
_MOST_BELLS, _ROWS_PER_BELL = 24, 50
_LOGIT_SCALE = 3.0  # prior standard deviation of the functions that weigh bells


def neighbours_recipe(context: BuildContext, margin: float = 0.0) -> Candidate:
    """For tables and gaps: a straight line, and what the nearest rows have left over of it.

    What neighbouring rows have in common, smooth features miss. How rough it is, is learned from how
    well rows are predicted by their neighbours.

    Args:
        context: what the user chose.
        margin: in a race.
    """

    def build(rows: Rows, seed: int) -> NearestNeighbourGP:
        n_outputs = rows.y.shape[1]
        line = BlockConfig("eq", n_features=0, frequencies="prior-fixed", extras=_LINE)
        output = LayerConfig(n_outputs, (line,), "exact", own_features=True)
        config = ModelConfig(
            rows.x.shape[1],
            (output,),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=1,
            n_paths=1,
        )
        model = NearestNeighbourGP(config, seed).to(context.dtype).to(rows.x.device)
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


def density_recipe(context: BuildContext) -> Candidate:
    """For tables: a density of any shape, whose bells the features of the inputs weigh.

    What a table does not tell is seldom Gaussian: a target may be near either of two values.
    """

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs, n_known = rows.y.shape[1], int((~rows.y.isnan()).sum(0).min())
        n_components = max(2, min(_MOST_BELLS, n_known // _ROWS_PER_BELL))
        n_features = min(_MOST_FEATURES, max(50, len(rows) // 20))
        block = BlockConfig("eq", n_features=n_features, extras=_LINE)
        output = LayerConfig(n_outputs * n_components, (block,))
        config = ModelConfig(
            rows.x.shape[1],
            (output,),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=1,
            n_paths=1,
        )
        model = DeepLFM(replace(config, n_components=n_components), seed).to(context.dtype)
        initialise_fine(model.output_layer.blocks[0])
        features = model.output_layer.blocks[0].features
        features.set_sensitivity(torch.full_like(features.sensitivity, _LOGIT_SCALE))
        mean_field(model.output_layer).log_std.data.fill_(math.log(0.1))
        model.mixture_density.initialise(rows.y, rows.counts)
        return model

    schedule = Schedule(
        "elbo",
        (Phase(_STEPS if context.n_steps is None else context.n_steps),),
        batch_size=1000,
        learning_rate=0.02,
        final_rate_fraction=0.02,
        weight_decay=0.0,
    )
    return Candidate("density", build, schedule)
