"""A constant and a slope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.terms.base import BlockPlan, BuildContext, Plan, Term, of_time, refuse_shared
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
