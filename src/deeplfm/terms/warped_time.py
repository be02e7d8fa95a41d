"""A hidden clock: a season that does not keep time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.errors import ConfigError, UnsuitableError
from deeplfm.layers import Block, Layer
from deeplfm.terms.base import (
    BlockPlan,
    BuildContext,
    HiddenPlan,
    Plan,
    Term,
    of_time,
    refuse_shared,
)
from deeplfm.terms.cycle import Cycle, find_cycle
from deeplfm.terms.initial import all_series, set_multiples, with_values
from deeplfm.terms.season import Season
from deeplfm.terms.trend import SCALE
from deeplfm.training import Rows
from deeplfm.variational import FullCovariance

_MOST_ROWS = 5000  # the search solves for shape and phase of all of them at once
_N_SAMPLES, _N_PATHS = 4, 256  # of the phases: the further ahead, the more they differ
_UNUSED = 1e-6  # standard deviation of weights that only another output uses
_LEAST_SIZE = 0.02  # of a harmonic, relative to the largest


@dataclass(frozen=True, repr=False)
class WarpedTime(Term):
    r"""A season on a clock that does not keep time: φ(t) = ωt + w(t), w a random walk.

    The hidden layer has one unit for each output, its phase; the output layer has harmonics of it. The
    phase is found before training and stays: q(W) of the hidden layer is its Gaussian posterior. Its
    variance grows beyond the rows, so that a forecast loses its high harmonics first.

    Attributes:
        term: the season; only its default is possible now, the period is found with the phase.
    """

    term_name: ClassVar[str] = "warped"
    margin: ClassVar[float] = 0.1  # found among many
    has_hidden_layer: ClassVar[bool] = True
    term: Term = field(default_factory=Season)

    def __post_init__(self) -> None:
        """Refuse another term than a season."""
        super().__post_init__()
        if self.term != Season():
            raise ConfigError(
                f"warped: {self.term} found. A warped clock carries a season whose period and shape are "
                "found with the phase: write warped(season)."
            )

    def in_time_units(self, convert: Callable[[Any], float]) -> Self:
        """The same term; its season has no time of its own."""
        return replace(self, term=self.term.in_time_units(convert))

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Find phase and shape of each output that has a cycle, and take it out of the rows."""
        refuse_shared(self, context)
        if len(rows) > _MOST_ROWS:
            raise UnsuitableError(f"at most {_MOST_ROWS} rows; there are {len(rows)}")
        cycles = [find_cycle(*series) for series in all_series(rows)]
        found = [cycle for cycle in cycles if cycle]
        if not found:
            raise UnsuitableError("three cycles, of six rows each, in one output at least")
        phases = BlockConfig(
            "eq",
            n_features=max(len(cycle.size) for cycle in found),
            frequencies="prior-fixed",
            extras=("trend",),
            name="phase",
        )
        harmonics = BlockConfig(
            "eq",
            "hidden",
            n_features=max(len(cycle.amplitude) for cycle in found),
            frequencies="prior-fixed",
            extras=("constant",),
            name="warped season",
        )
        layer = LayerConfig(len(cycles), (of_time(rows, phases),), "full", own_features=True)
        left = [
            value if cycle is None else cycle.residual
            for cycle, (_, value) in zip(cycles, all_series(rows), strict=True)
        ]
        return Plan(
            [BlockPlan(harmonics, lambda block: _initialise_harmonics(block, cycles))],
            with_values(rows, left),
            HiddenPlan(
                (layer,), lambda layers: _initialise_phases(layers[0], cycles), _N_SAMPLES, _N_PATHS
            ),
        )


@torch.no_grad()
def _initialise_phases(layer: Layer, cycles: list[Cycle | None]) -> None:
    """Write the posterior of each phase into the weights of its unit, and do not train it."""
    (block,), weights = layer.blocks, layer.weights
    if not isinstance(weights, FullCovariance):
        raise ConfigError("warped: a phase needs weights with a full covariance.")
    features, n_waves = block.features, block.features.n_features
    base = [cycle.base if cycle else 1.0 for cycle in cycles]
    total = set_multiples(block, base, 1 / torch.arange(1, n_waves + 1, dtype=torch.float64))
    sensitivity = torch.zeros_like(features.sensitivity)
    weights.raw_root.diagonal(dim1=-2, dim2=-1).fill_(math.log(_UNUSED))
    for d, cycle in enumerate(cycles):
        if cycle is None:
            continue
        count = len(cycle.size)
        # Cosines, sines and slope, of fewer harmonics than the widest output has.
        own = np.r_[:count, n_waves : n_waves + count, 2 * n_waves]
        sensitivity[d] = float(cycle.size[0]) * total
        weights.mean[d, own, 0] = torch.as_tensor(cycle.weight).to(weights.mean)
        root = torch.linalg.cholesky(torch.as_tensor(cycle.covariance)).to(weights.raw_root)
        raw = root.tril(-1) + root.diagonal().log().diag()
        weights.raw_root[d, 0][np.ix_(own, own)] = raw
    features.set_sensitivity(sensitivity)
    layer.requires_grad_(False)


@torch.no_grad()
def _initialise_harmonics(block: Block, cycles: list[Cycle | None]) -> None:
    """Whole multiples of each output's own phase, of the sizes that were found."""
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
    features.log_extra_scale.fill_(math.log(SCALE))
