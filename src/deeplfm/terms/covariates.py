"""Known inputs beside time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.terms.base import BlockPlan, BuildContext, Plan, Term
from deeplfm.training import Rows

_RIDGE = 1e-3  # per row, on standardised columns: against columns that repeat each other
_SCALE = 0.3  # prior standard deviation of an effect that is not linear


@dataclass(frozen=True, repr=False)
class Covariates(Term):
    """Effects of known covariates that do not change with time: a straight line and a smooth function.

    A sum has this term wherever the data have covariates. Their linear effect is taken out of the rows
    before any other term reads them.

    Attributes:
        n_features: number of frequencies of the smooth function.
    """

    term_name: ClassVar[str] = "covariates"
    is_own: ClassVar[bool] = True
    order: ClassVar[int] = 0
    state_space_arguments: ClassVar[tuple[str, ...]] = ()  # straight lines, no smooth function
    n_features: int = 40

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """A Gaussian process of the covariates; where outputs share weights, one for each output."""
        n_inputs, is_shared = rows.x.shape[1], context.shares_weights
        if n_inputs == 1:
            return Plan([], rows)
        config = BlockConfig(
            "eq",
            "original",
            n_forces=rows.y.shape[1] if is_shared else 1,
            n_features=self.n_features,
            frequencies="prior-fixed",
            extras=() if is_shared else ("trend",),
            columns=tuple(range(1, n_inputs)),
            name="covariates",
        )
        return Plan([BlockPlan(config, own_force if is_shared else _initialise)], rows)

    @torch.no_grad()
    def unexplained(self, rows: Rows) -> Rows:
        """The rows without what a straight line of the covariates explains of each output."""
        if rows.x.shape[1] == 1:
            return rows
        residual = torch.full_like(rows.y, torch.nan)
        design = torch.cat([torch.ones_like(rows.x[:, :1]), rows.x[:, 1:]], dim=1).double()
        for d in range(rows.y.shape[1]):
            known = ~rows.y[:, d].isnan()
            seen, target = design[known], rows.y[known, d].double()
            ridge = _RIDGE * max(1, len(seen)) * torch.eye(seen.shape[1]).to(seen)
            slope = torch.linalg.solve(seen.mT @ seen + ridge, seen.mT @ target)
            residual[known, d] = (target - seen @ slope).to(rows.y.dtype)
        return Rows(rows.x, residual, rows.weight)


@torch.no_grad()
def _initialise(block: Block) -> None:
    """Mostly straight lines."""
    features = block.features
    features.log_lengthscale.fill_(math.log(2 * math.sqrt(features.n_inputs)))
    features.set_sensitivity(torch.full_like(features.sensitivity, _SCALE))


@torch.no_grad()
def own_force(block: Block) -> None:
    """Let each output respond to one force only, its own; a sensitivity of 0 stays in training."""
    _initialise(block)
    own = torch.eye(block.features.n_groups).to(block.features.sensitivity)
    block.features.set_sensitivity(own[:, None].expand_as(block.features.sensitivity))
