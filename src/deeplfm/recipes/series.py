"""Recipes for series: the first input is time.

The output layer has a *linear path* beside the deep one, or in its place: features of time itself, so
that the deep model starts no worse than the best shallow one. Known covariates have a path of their
own there, and what they explain by a straight line is taken away before a start reads the spectrum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for, numpy_for
from deeplfm.recipes.architecture import (
    RUNNING,
    Architecture,
    block_for,
    collapsed_schedule,
    deep_model,
    model_config,
    new_model,
)
from deeplfm.recipes.covariates import beside_covariates, of_time, start_covariates, unexplained
from deeplfm.selection.candidate import Candidate
from deeplfm.starts.initial import (
    lines_of,
    set_noise,
    start_broad,
    start_from_composition,
    start_from_lines,
    start_from_spectrum,
    start_rest,
)
from deeplfm.starts.spectrum import Pursuit
from deeplfm.starts.walk import start_walk
from deeplfm.training import Rows

Walk = Literal["rough", "smooth"]
_ROUGH = BlockConfig("eq", "original", n_features=100, frequencies="prior-fixed")
_WALKS = {"rough": _ROUGH, "smooth": replace(_ROUGH, system="ode1", options=RUNNING)}


def pursuit_recipe(
    architecture: Architecture,
    name: str = "pursuit",
    n_lines: int = 20,
    bandwidth: float = 0.5,
    jitter: float = 0.0,
    learn_bandwidth: bool = False,
    has_trend: bool = False,
    walk: Walk | None = None,
    found: list[Pursuit] | None = None,
    n_steps: int = 60,
) -> Candidate:
    """The linear path alone: lines found in the spectrum, and a broad-band residual.

    Args:
        architecture: dtype and noise.
        name: of the candidate.
        n_lines: at most this many lines for each output.
        bandwidth: of each line, in units of one over the record length.
        jitter: relative bandwidth of each line.
        learn_bandwidth: let the evidence move the bandwidths.
        has_trend: add a constant and a trend. A series that drifts needs them; in one that does not,
            they take up what is noise and carry it on.
        walk: a level that wanders, whose last one goes on, in place of the broad-band residual.
        found: lines of each output that are known already; otherwise they are looked for one by one.
        n_steps: training steps.
    """
    lines = block_for(
        architecture,
        architecture.linear_system,
        n_forces=n_lines + 1,
        n_features=6,
        frequencies="nodes",
        extras=("constant", "trend") if has_trend else (),
    )

    def build(rows: Rows, seed: int) -> DeepLFM:
        rest = broad_config(architecture) if walk is None else _WALKS[walk]
        blocks = beside_covariates(rows, lines, rest)
        output = LayerConfig(rows.y.shape[1], blocks, "exact", own_features=True)
        model = new_model(model_config(architecture, rows, (output,), 1, 1), architecture, seed)
        line_block, rest_block, *others = model.output_layer.blocks
        start_covariates(others)
        rows = unexplained(rows)
        started = found or lines_of(rows, n_lines)
        start_from_lines(line_block, rows, started, bandwidth, jitter)
        line_block.features.log_lengthscale.requires_grad_(learn_bandwidth)
        start_rest(model, rest_block, rows, started)
        if walk is not None:
            start_walk(rest_block, rows)
        return model

    return Candidate(name, build, collapsed_schedule(n_steps))


def deep_recipe(architecture: Architecture, n_lines: int = 8, n_steps: int = 60) -> Candidate:
    """Linear and deep path side by side: begins as the shallow model, deepens as the data ask."""
    first = block_for(architecture)
    deep = replace(first, inputs="hidden", n_forces=1, n_features=30)
    shallow = pursuit_recipe(architecture, n_lines=n_lines, bandwidth=2.0, learn_bandwidth=True)

    def build(rows: Rows, seed: int) -> DeepLFM:
        linear = shallow.build(rows, seed)
        paths = (replace(b, inputs="original") for b in linear.config.layers[0].blocks)
        model = deep_model(architecture, rows, seed, of_time(rows, first), (deep, *paths))
        residual = unexplained(rows)
        start_from_spectrum(model.layers[0].blocks[0], residual, numpy_for(seed, "start"))
        deep_path, *linear_paths = model.output_layer.blocks
        deep_path.features.set_sensitivity(torch.full_like(deep_path.features.sensitivity, 0.03))
        for block, start in zip(linear_paths, linear.output_layer.blocks, strict=True):
            block.load_state_dict(start.state_dict())
        model.likelihood.load_state_dict(linear.likelihood.state_dict())
        return model

    return Candidate("deep", build, collapsed_schedule(n_steps))


def spectrum_recipe(architecture: Architecture, n_steps: int = 60) -> Candidate:
    """The deep path, its first layer drawn from the periodogram, beside a broad-band residual."""
    first = block_for(architecture)
    output = (replace(first, n_forces=1), broad_config(architecture))

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs = rows.y.shape[1]
        blocks = beside_covariates(rows, *output)
        model = deep_model(architecture, rows, seed, of_time(rows, first), blocks)
        start_covariates(model.output_layer.blocks[2:])
        rows = unexplained(rows)
        start_from_spectrum(model.layers[0].blocks[0], rows, numpy_for(seed, "start"))
        set_noise(model, torch.full((n_outputs,), 0.05))
        scale = torch.full((n_outputs,), 0.1, dtype=architecture.dtype)
        start_broad(model.output_layer.blocks[1], rows, scale)
        return model

    schedule = replace(collapsed_schedule(n_steps), learning_rate=0.02)
    return Candidate("spectrum", build, schedule)


def composition_recipe(
    architecture: Architecture, n_lines: int = 2, n_steps: int = 60
) -> Candidate:
    """One hidden unit for each output, found by searching for compositions by their evidence."""

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs = rows.y.shape[1]
        inner = BlockConfig(
            n_forces=n_lines,
            n_features=1,
            frequencies="nodes",
            extras=("trend",),
            options=RUNNING,
        )
        outer = BlockConfig(
            inputs="hidden",
            n_features=architecture.n_features,
            frequencies="prior-fixed",
            extras=("constant",),
            options=RUNNING,
        )
        layers = (
            LayerConfig(n_outputs, (of_time(rows, inner),), own_features=True, is_antithetic=True),
            LayerConfig(n_outputs, beside_covariates(rows, outer), "exact", own_features=True),
        )
        model = new_model(model_config(architecture, rows, layers, 4, 16), architecture, seed)
        start_covariates(model.output_layer.blocks[1:])
        rows = unexplained(rows)
        for d in range(n_outputs):
            generator = generator_for(seed, "start", d)
            start_from_composition(model, rows, d, generator, n_search_steps=(5 * n_steps) // 2)
        return model

    return Candidate("composition", build, collapsed_schedule(n_steps), margin=0.2)


def broad_config(architecture: Architecture) -> BlockConfig:
    """What lines leave: a force of many frequencies."""
    return block_for(
        architecture,
        architecture.linear_system,
        inputs="original",
        n_forces=1,
        n_features=60,
        frequencies="prior-fixed",
    )
