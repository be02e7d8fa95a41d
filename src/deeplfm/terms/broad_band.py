"""A stationary force of many frequencies: what is left between rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.terms.base import (
    LEAST_NOISE,
    BlockPlan,
    BuildContext,
    Plan,
    Term,
    of_time,
    running,
    variance_of,
)
from deeplfm.terms.initial import spread_evenly, typical_step
from deeplfm.training import Rows

_BANDWIDTH = 0.15  # of the Nyquist frequency of the typical step
_DECAY = 0.1  # of the bandwidth


@dataclass(frozen=True, repr=False)
class BroadBand(Term):
    """A stationary force: it interpolates what the other terms leave, and forgets beyond the rows.

    Attributes:
        n_features: number of frequencies.
        system: the linear system that the force drives.
    """

    term_name: ClassVar[str] = "broadband"
    is_own: ClassVar[bool] = True
    order: ClassVar[int] = 9
    is_residual: ClassVar[bool] = True
    n_features: int = 60
    system: str = "ode1"

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Of the size of what the terms before have left; noise starts at the same size."""
        is_shared, n_outputs = context.shares_weights, rows.y.shape[1]
        system = "eq" if is_shared else self.system  # an output's own force needs no system
        config = BlockConfig(
            system,
            inputs="original",
            n_forces=n_outputs if is_shared else 1,
            n_features=self.n_features,
            frequencies="prior-fixed",
            options=running(system),
            name="broadband",
        )
        scale = variance_of(rows).clamp_min(LEAST_NOISE).sqrt()
        width = _BANDWIDTH * math.pi / typical_step(rows.x[:, 0].double().cpu().numpy())
        # where a first-order system has the gain 1/width
        reference = math.sqrt(1 - _DECAY**2) * width

        @torch.no_grad()
        def initialise(block: Block) -> None:
            features = block.features
            spread_evenly(block, width)
            features.set_bandwidth(_DECAY * width)
            gain = features.gain(torch.tensor([reference], dtype=torch.float64))  # G P 1
            sensitivity = (scale[:, None, None] / gain).expand_as(features.sensitivity)
            if is_shared:
                sensitivity = sensitivity * torch.eye(n_outputs)[:, None].to(sensitivity)
            features.set_sensitivity(sensitivity.to(features.sensitivity))

        return Plan([BlockPlan(of_time(rows, config), initialise)], rows)
