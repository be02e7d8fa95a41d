"""Trend and level: a straight line, a random walk, one whose increments last, and one that reverts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from deeplfm.config import BlockConfig
from deeplfm.errors import ConfigError
from deeplfm.layers import Block
from deeplfm.terms.base import BlockPlan, BuildContext, Plan, Term, of_time, refuse_shared, running
from deeplfm.terms.initial import all_series, set_multiples, span_of, with_values
from deeplfm.terms.spectrum import Array, fit_sinusoids
from deeplfm.training import Rows

SCALE = 0.3  # prior standard deviation of a level or a slope over the record


@dataclass(frozen=True, repr=False)
class Trend(Term):
    """A constant and a slope: the initial state of an undamped system.

    A series that drifts needs it. In one that does not, it extrapolates noise.
    """

    term_name: ClassVar[str] = "trend"
    state_space_arguments: ClassVar[tuple[str, ...]] = ()

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Two columns; the other terms remove a line from the rows by themselves when they read."""
        refuse_shared(self, context)
        config = BlockConfig(
            "eq",
            "original",
            n_features=0,
            frequencies="prior-fixed",
            extras=("constant", "trend"),
            name="trend",
        )
        return Plan([BlockPlan(of_time(rows, config), _initialise)], rows)


@torch.no_grad()
def _initialise(block: Block) -> None:
    block.features.log_extra_scale.fill_(math.log(SCALE))


WINDOW = 4.0  # a random walk made of harmonics repeats itself after so many records
INCREMENT = 1.5  # standard deviation of a level, from end to end of the record
_LASTING = 0.03  # of the record: how long increments of a damped level last, before training
_N_SLOW = 5  # half cycles in the record
_FEWEST_SLOW = 4 * _N_SLOW  # rows


@dataclass(frozen=True, repr=False)
class LocalLevel(Term):
    r"""A random walk w; with ``damped``, f' + γf = γw, an integrated Ornstein–Uhlenbeck process.

    A random walk goes on at its last level. The increments of a damped one last for 1/γ, as those of a
    mass that white noise drives against friction; training finds γ by the evidence.

    Attributes:
        damped: filter the random walk by one more first-order system.
        n_features: number of harmonics that the random walk is made of.
        system: of a damped level.
    """

    term_name: ClassVar[str] = "level"
    order: ClassVar[int] = 0
    state_space_arguments: ClassVar[tuple[str, ...]] = ("damped",)
    damped: bool = False
    n_features: int = 100
    system: str = "ode1"

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Take level, slope and waves of fewer than three cycles out of the rows."""
        refuse_shared(self, context)
        system = self.system if self.damped else "eq"
        config = BlockConfig(
            system,
            inputs="original",
            n_features=self.n_features,
            frequencies="prior-fixed",
            options=running(system),
            name="level",
        )
        span = span_of(rows)

        @torch.no_grad()
        def initialise(block: Block) -> None:
            features, period = block.features, WINDOW * span
            size = torch.as_tensor(wiener_sizes(features.n_features, period))
            total = set_multiples(block, [2 * math.pi / period], size)
            features.set_bandwidth(1 / (_LASTING * span))
            gain = features.gain(torch.zeros(1, dtype=torch.float64))  # of a constant
            sensitivity = total * INCREMENT / math.sqrt(span) / gain
            features.set_sensitivity(sensitivity.expand_as(features.sensitivity).to(gain))

        left = [_without_slow(*series) for series in all_series(rows)]
        return Plan([BlockPlan(of_time(rows, config), initialise)], with_values(rows, left))


@dataclass(frozen=True, repr=False)
class MeanReversion(Term):
    """f' + γf = white noise, an Ornstein–Uhlenbeck process; on even steps, an autoregression of order 1.

    It stands beside trend, season, level and covariates, with which it is solved in state-space form.
    """

    term_name: ClassVar[str] = "reversion"
    state_space_arguments: ClassVar[tuple[str, ...]] = ()

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Refuse terms that have no state-space form."""
        others = " and ".join(str(term) for term in context.beside if not term.is_markov)
        raise ConfigError(
            f"model: {self} is solved in state-space form, beside trend, season, level and covariates"
            f"{f'; found {others}' if others else ''}. Use broadband in its place."
        )


def wiener_sizes(count: int, period: float) -> Array:
    """Sizes of harmonics of 2π/period whose sum has increments of variance τ − τ²/period."""
    return math.sqrt(period / 2) / np.pi / np.arange(1, count + 1, dtype=np.float64)


def _without_slow(time: Array, value: Array) -> Array:
    if len(time) <= _FEWEST_SLOW:
        return value
    slow = np.pi / (float(np.ptp(time)) or 1.0) * np.arange(1.0, _N_SLOW + 1)
    return fit_sinusoids(time, value, slow)[1]
