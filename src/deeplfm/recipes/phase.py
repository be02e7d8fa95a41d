"""A cycle that does not keep time: a hidden phase that wanders, and a periodic function of it."""

from __future__ import annotations

import math

import numpy as np
import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.errors import ConfigError, UnsuitableError
from deeplfm.layers import Block, Layer
from deeplfm.model import DeepLFM
from deeplfm.recipes.architecture import (
    Architecture,
    block_for,
    collapsed_schedule,
    model_config,
    new_model,
)
from deeplfm.recipes.covariates import beside_covariates, of_time, start_covariates, unexplained
from deeplfm.recipes.series import broad_config
from deeplfm.selection.candidate import Candidate
from deeplfm.starts.initial import lines_of, observed_series, start_from_lines, start_rest
from deeplfm.starts.phase import Cycle, find_cycle
from deeplfm.starts.walk import set_multiples
from deeplfm.training import Rows
from deeplfm.variational import FullCovariance

_MOST_ROWS = 5000  # the search solves for shape and phase of all of them at once
_N_LINES, _BANDWIDTH = 6, 2.0  # of what the cycle leaves
_N_SAMPLES, _N_PATHS = 4, 256  # phases: the further ahead, the more they differ
_NO_DOUBT = 1e-6  # of waves that only another output has
_HANDICAP = 0.1  # it was found among many
_LEAST_SIZE = 0.02  # of a harmonic, where the largest has 1


def phase_recipe(architecture: Architecture, n_steps: int = 60) -> Candidate:
    r"""One hidden unit for each output, its phase; harmonics of it, and lines and a residual of time.

    The phase is found before training and stays: q(W) of the hidden layer is its Gaussian posterior.
    Its doubt grows beyond the rows as a Wiener process does, so that the forecast loses its high
    harmonics first.

    Args:
        architecture: dtype, noise and system of the linear path.
        n_steps: training steps.
    """

    def build(rows: Rows, seed: int) -> DeepLFM:
        residual = unexplained(rows)
        cycles = _cycles(residual)
        n_waves = max(len(cycle.size) for cycle in cycles if cycle)
        n_harmonics = max(len(cycle.amplitude) for cycle in cycles if cycle)
        waves = BlockConfig("eq", n_features=n_waves, frequencies="prior-fixed", extras=("trend",))
        harmonics = BlockConfig(
            "eq", "hidden", n_features=n_harmonics, frequencies="prior-fixed", extras=("constant",)
        )
        lines = block_for(
            architecture,
            architecture.linear_system,
            inputs="original",
            n_forces=_N_LINES + 1,
            n_features=6,
            frequencies="nodes",
        )
        blocks = beside_covariates(rows, lines, broad_config(architecture))
        n_outputs = rows.y.shape[1]
        layers = (
            LayerConfig(n_outputs, (of_time(rows, waves),), "full", own_features=True),
            LayerConfig(n_outputs, (harmonics, *blocks), "exact", own_features=True),
        )
        config = model_config(architecture, rows, layers, _N_SAMPLES, _N_PATHS)
        model = new_model(config, architecture, seed)
        deep_block, line_block, rest_block, *others = model.output_layer.blocks
        start_covariates(others)
        _start_phases(model.layers[0], cycles)
        _start_harmonics(deep_block, cycles)
        left = _left(residual, cycles)
        found = lines_of(left, _N_LINES)
        start_from_lines(line_block, left, found, _BANDWIDTH, jitter=0.0)
        start_rest(model, rest_block, left, found)
        return model

    return Candidate("phase", build, collapsed_schedule(n_steps), margin=_HANDICAP)


def _cycles(rows: Rows) -> list[Cycle | None]:
    """The cycle of each output that has one."""
    n_rows = len(rows.x)
    if n_rows > _MOST_ROWS:
        raise UnsuitableError(f"at most {_MOST_ROWS} rows; there are {n_rows}")
    found = [find_cycle(*observed_series(rows, d)) for d in range(rows.y.shape[1])]
    if not any(found):
        raise UnsuitableError("three rounds of a cycle, of six rows each, in one output at least")
    return found


@torch.no_grad()
def _start_phases(layer: Layer, cycles: list[Cycle | None]) -> None:
    """Write the posterior of each phase into the weights of its unit, and let none of it be trained."""
    (block,), weights = layer.blocks, layer.weights
    if not isinstance(weights, FullCovariance):
        raise ConfigError("start: a phase needs weights with a full covariance.")
    features, n_waves = block.features, block.features.n_features
    base = [cycle.base if cycle else 1.0 for cycle in cycles]
    total = set_multiples(block, base, 1 / torch.arange(1, n_waves + 1, dtype=torch.float64))
    sensitivity = torch.zeros_like(features.sensitivity)
    weights.raw_root.diagonal(dim1=-2, dim2=-1).fill_(math.log(_NO_DOUBT))
    for d, cycle in enumerate(cycles):
        if cycle is None:
            continue
        count = len(cycle.size)
        # Cosines, sines and slope, of fewer waves than the widest output has.
        own = np.r_[:count, n_waves : n_waves + count, 2 * n_waves]
        sensitivity[d] = float(cycle.size[0]) * total
        weights.mean[d, own, 0] = torch.as_tensor(cycle.weight).to(weights.mean)
        root = torch.linalg.cholesky(torch.as_tensor(cycle.covariance)).to(weights.raw_root)
        raw = root.tril(-1) + root.diagonal().log().diag()
        weights.raw_root[d, 0][np.ix_(own, own)] = raw
    features.set_sensitivity(sensitivity)
    layer.requires_grad_(False)


@torch.no_grad()
def _start_harmonics(block: Block, cycles: list[Cycle | None]) -> None:
    """Waves at whole multiples of each output's own phase, of the sizes that were found."""
    features = block.features
    power = torch.zeros(features.n_features, dtype=torch.float64)
    for cycle in cycles:
        if cycle is not None:
            power[: len(cycle.amplitude)] += torch.as_tensor(cycle.amplitude) ** 2 / 2
    least = _LEAST_SIZE * float(power.max().sqrt())
    total = set_multiples(block, [1.0], power.sqrt().clamp_min(least))
    own = torch.eye(len(cycles)).to(block.frequencies.noise)
    block.frequencies.noise.mul_(own[None, :, :, None, None])
    has_cycle = torch.tensor([cycle is not None for cycle in cycles])
    sensitivity = total * has_cycle[:, None, None].expand_as(features.sensitivity)
    features.set_sensitivity(sensitivity.to(features.sensitivity))
    features.log_extra_scale.fill_(math.log(0.3))


def _left(rows: Rows, cycles: list[Cycle | None]) -> Rows:
    """What the cycles leave of each output."""
    left = rows.y.clone()
    for d, cycle in enumerate(cycles):
        if cycle is not None:
            known = ~rows.y[:, d].isnan()
            left[known, d] = torch.as_tensor(cycle.residual).to(left)
    return Rows(rows.x, left, rows.weight)
