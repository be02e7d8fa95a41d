"""Mixture density of a table: targets of any distribution, whose weights are functions of the inputs."""

from __future__ import annotations

import math

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.selection.candidate import Candidate
from deeplfm.terms.base import BuildContext
from deeplfm.terms.initial import mean_field
from deeplfm.terms.table import initialise_fine, n_components_of
from deeplfm.training import Phase, Rows, Schedule

_STEPS = 800
_FEWEST_FEATURES, _MOST_FEATURES, _ROWS_PER_FEATURE = 50, 500, 20
_LOGIT_SCALE = 3.0  # prior standard deviation of the functions that weigh components
_WEIGHT_STD = 0.1  # initial, of q(W)


def mixture_density_candidate(context: BuildContext) -> Candidate:
    """For tables whose targets are not Gaussian given the inputs, such as near either of two values."""

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs, n_components = rows.y.shape[1], n_components_of(rows)
        n_features = min(_MOST_FEATURES, max(_FEWEST_FEATURES, len(rows) // _ROWS_PER_FEATURE))
        block = BlockConfig("eq", n_features=n_features, extras=("constant", "trend"))
        output = LayerConfig(n_outputs * n_components, (block,))
        config = ModelConfig(
            rows.x.shape[1],
            (output,),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=1,
            n_paths=1,
            n_components=n_components,
        )
        model = DeepLFM(config, seed).to(context.dtype)
        block_of_logits = model.output_layer.blocks[0]
        initialise_fine(block_of_logits)
        features = block_of_logits.features
        features.set_sensitivity(torch.full_like(features.sensitivity, _LOGIT_SCALE))
        mean_field(model.output_layer).log_std.data.fill_(math.log(_WEIGHT_STD))
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
    return Candidate("mixture density", build, schedule)
