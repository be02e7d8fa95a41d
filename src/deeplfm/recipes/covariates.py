"""Known covariates of a series: the columns beside its time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.training import Rows

_N_FEATURES = 40
_RIDGE = 1e-3  # per row, on standardised columns: only against columns that repeat each other


def of_time(rows: Rows, block: BlockConfig) -> BlockConfig:
    """A block that sees time, and no covariates."""
    return block if rows.x.shape[1] == 1 else replace(block, columns=(0,))


def beside_covariates(rows: Rows, *blocks: BlockConfig) -> tuple[BlockConfig, ...]:
    """Blocks of time for an output layer, with one of the covariates beside them where there are any.

    Its features are those of a Gaussian process and a straight line: an effect that time does not
    change, of any shape.
    """
    return (*(of_time(rows, block) for block in blocks), *_effects(rows, extras=("trend",)))


def beside_own_covariates(rows: Rows, *blocks: BlockConfig) -> tuple[BlockConfig, ...]:
    """The same for outputs that share their weights: as many forces as outputs, see :func:`start_own`."""
    return (*(of_time(rows, block) for block in blocks), *_effects(rows, n_forces=rows.y.shape[1]))


@torch.no_grad()
def start_covariates(blocks: Sequence[Block]) -> None:
    """Begin with mostly straight lines."""
    for block in blocks:
        features = block.features
        features.log_lengthscale.fill_(math.log(2 * math.sqrt(features.n_inputs)))
        features.set_sensitivity(torch.full_like(features.sensitivity, 0.3))


@torch.no_grad()
def start_own(blocks: Sequence[Block]) -> None:
    """Let each output hear the one force that is its own; a sensitivity of 0 stays through training."""
    start_covariates(blocks)
    for block in blocks:
        own = torch.eye(block.features.n_groups).to(block.features.sensitivity)
        block.features.set_sensitivity(own[:, None].expand_as(block.features.sensitivity))


@torch.no_grad()
def unexplained(rows: Rows) -> Rows:
    """Time, and what a straight line of the covariates leaves of each output: what starts may read."""
    if rows.x.shape[1] == 1:
        return rows
    residual = torch.full_like(rows.y, torch.nan)
    design = torch.cat([torch.ones_like(rows.x[:, :1]), rows.x[:, 1:]], dim=1).double()
    for d in range(rows.y.shape[1]):
        known = ~rows.y[:, d].isnan()
        seen, target = design[known], rows.y[known, d].double()
        ridge = _RIDGE * max(1, len(seen)) * torch.eye(seen.shape[1]).to(seen)
        gram = seen.mT @ seen + ridge
        slope = torch.linalg.solve(gram, seen.mT @ target)
        residual[known, d] = (target - seen @ slope).to(rows.y.dtype)
    return Rows(rows.x[:, :1], residual, rows.weight)


def _effects(rows: Rows, **changes: Any) -> tuple[BlockConfig, ...]:
    """Features of a Gaussian process of the covariates, where there are any."""
    n_inputs = rows.x.shape[1]
    if n_inputs == 1:
        return ()
    block = BlockConfig(
        "eq",
        "original",
        n_features=_N_FEATURES,
        frequencies="prior-fixed",
        columns=tuple(range(1, n_inputs)),
    )
    return (replace(block, **changes),)
