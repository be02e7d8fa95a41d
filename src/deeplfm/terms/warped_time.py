"""Hidden clocks: cycles that do not keep time."""

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
from deeplfm.model import DeepLFM
from deeplfm.terms.base import (
    BlockPlan,
    BuildContext,
    HiddenPlan,
    Plan,
    Term,
    of_time,
    refuse_shared,
    set_noise,
)
from deeplfm.terms.clock import Clock
from deeplfm.terms.clock_search import find_cycles
from deeplfm.terms.cycle import Shape
from deeplfm.terms.initial import all_series, with_values
from deeplfm.terms.local_level import INCREMENT, SCALE, LocalLevel
from deeplfm.terms.season import Season
from deeplfm.training import Rows
from deeplfm.variational import FullCovariance

_MOST_ROWS = 5000  # the search solves for shapes and phases of all of them at once
_N_SAMPLES, _N_PATHS = 4, 256  # of the phases: the further ahead, the more they differ
_LEAST_LEVEL = 0.01  # of the size that a level beside other terms starts with
_UNUSED = 1e-6  # standard deviation of weights that only another clock uses


@dataclass(frozen=True, repr=False)
class WarpedTime(Term):
    r"""Cycles on clocks that do not keep time: functions of hidden phases φ' = ω + r(t).

    The rate r is an Ornstein–Uhlenbeck process, so that a forecast keeps the recent pace. The hidden
    layer has one unit for each clock, its phase; outputs of one cycle share a clock. The output layer has
    the harmonics of the phases, and of their sums and differences where one cycle modulates another. The
    variance of a phase grows beyond the rows, so that a forecast loses its high harmonics first.

    Alone, or beside a level, the phases are a Markov process at knots, solved together with all
    shapes in a time that is linear in the rows; a clock may skip. Beside other terms, phases are sums of
    waves that are found before training and stay, in up to 5000 rows.

    Attributes:
        term: the season; only its default is possible now, the period is found with the phase.
        n_clocks: at most so many.
    """

    term_name: ClassVar[str] = "warped"
    order: ClassVar[int] = -1  # slow parts that are not of a clock are left to a level
    margin: ClassVar[float] = 0.1  # found among many
    has_hidden_layer: ClassVar[bool] = True
    term: Term = field(default_factory=Season)
    n_clocks: int = 3

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
        """Find the clocks, and the shapes of all outputs on them; take the cycles out of the rows."""
        refuse_shared(self, context)
        if len(rows) > _MOST_ROWS:
            raise UnsuitableError(
                f"at most {_MOST_ROWS} rows where it stands beside other terms than a level; "
                f"there are {len(rows)}"
            )
        found = find_cycles(all_series(rows), self.n_clocks)
        if found is None:
            raise UnsuitableError("a cycle that repeats, of six rows at least, in one output")
        clocks, shapes = found.clocks, found.shapes
        phases = BlockConfig(
            "eq",
            n_forces=max(clock.n_waves for clock in clocks),
            n_features=1,
            frequencies="prior-fixed",
            extras=("trend",),
            name="phase",
        )
        harmonics = BlockConfig(
            "eq",
            "hidden",
            n_forces=max(1, *(len(shape.orders) for shape in shapes)),
            n_features=1,
            frequencies="prior-fixed",
            extras=("constant",),
            name="warped season",
        )
        layer = LayerConfig(len(clocks), (of_time(rows, phases),), "full", own_features=True)
        return Plan(
            [BlockPlan(harmonics, lambda block: _initialise_harmonics(block, shapes))],
            with_values(rows, found.residual),
            HiddenPlan(
                (layer,), lambda layers: _initialise_phases(layers[0], clocks), _N_SAMPLES, _N_PATHS
            ),
            lambda model: _initialise_rest(model, shapes),
        )


@torch.no_grad()
def _initialise_phases(layer: Layer, clocks: tuple[Clock, ...]) -> None:
    """Write the posterior of each phase into the weights of its unit, and do not train it."""
    (block,), weights = layer.blocks, layer.weights
    if not isinstance(weights, FullCovariance):
        raise ConfigError("warped: a phase needs weights with a full covariance.")
    features, n_waves = block.features, block.features.n_forces
    order = torch.arange(1, n_waves + 1, dtype=torch.float64)
    noise = block.frequencies.noise
    noise.copy_(order.to(noise)[:, None].expand_as(noise))
    base = torch.tensor([clock.base for clock in clocks], dtype=torch.float64)
    scale = (math.sqrt(features.spectral_variance) / base).log()
    features.log_lengthscale.copy_(scale[:, None, None].expand_as(features.log_lengthscale))
    sensitivity = torch.zeros_like(features.sensitivity)
    weights.raw_root.diagonal(dim1=-2, dim2=-1).fill_(math.log(_UNUSED))
    for c, clock in enumerate(clocks):
        count = clock.n_waves
        # Cosines, sines and slope, of fewer waves than another clock may have.
        own = np.r_[:count, n_waves : n_waves + count, 2 * n_waves]
        sensitivity[c, :, :count] = torch.as_tensor(clock.size).to(sensitivity)
        weights.mean[c, own, 0] = torch.as_tensor(clock.weight).to(weights.mean)
        root = torch.linalg.cholesky(torch.as_tensor(clock.covariance)).to(weights.raw_root)
        raw = root.tril(-1) + root.diagonal().log().diag()
        weights.raw_root[c, 0][np.ix_(own, own)] = raw
    features.set_sensitivity(sensitivity)
    layer.requires_grad_(False)


@torch.no_grad()
def _initialise_rest(model: DeepLFM, shapes: tuple[Shape, ...]) -> None:
    """Noise, and a level beside the clocks, start as they were found with the phases.

    A random walk of standard deviation σ over the record has waves of variance 2σ²/(πj)², of j half
    cycles each.
    """
    set_noise(model, torch.tensor([shape.noise for shape in shapes], dtype=torch.float64))
    for block in model.output_layer.blocks:
        if block.name == LocalLevel.term_name:
            found = [math.pi * math.sqrt(shape.slow / 2) / INCREMENT for shape in shapes]
            sensitivity = block.features.sensitivity
            factor = torch.tensor(found).clamp(_LEAST_LEVEL, 1.0).to(sensitivity)
            block.features.set_sensitivity(sensitivity * factor[:, None, None])


@torch.no_grad()
def _initialise_harmonics(block: Block, shapes: tuple[Shape, ...]) -> None:
    """The harmonics and products of each output, each with the size that was found."""
    features, noise = block.features, block.frequencies.noise
    noise.zero_()
    features.log_lengthscale.fill_(math.log(math.sqrt(features.spectral_variance)))
    features.log_lengthscale.requires_grad_(False)
    sensitivity = torch.zeros_like(features.sensitivity)
    for d, shape in enumerate(shapes):
        count = len(shape.orders)
        noise[0, d, :, :count, 0] = torch.as_tensor(shape.orders.T).to(noise)
        sensitivity[d, :, :count] = torch.as_tensor(np.sqrt(shape.variance)).to(sensitivity)
    features.set_sensitivity(sensitivity)
    features.log_extra_scale.fill_(math.log(SCALE))
