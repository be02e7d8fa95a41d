"""One deep latent force model of a series: the hidden layer that its rows ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deeplfm.errors import UnsuitableError
from deeplfm.model import DeepLFM
from deeplfm.statespace import ClocksLFM, StateSpaceLFM
from deeplfm.terms.base import BuildContext, NamedModel, collapsed_schedule
from deeplfm.terms.broad_band import BroadBand
from deeplfm.terms.deep import Deep
from deeplfm.terms.local_level import LocalLevel
from deeplfm.terms.sums import Sum
from deeplfm.terms.warped_time import WarpedTime
from deeplfm.training import Rows, Schedule


@dataclass(frozen=True, repr=False)
class Dlfm(NamedModel):
    """Cycles on hidden clocks beside a level; without a cycle, the paper's hidden layers.

    Nothing beside the hidden layer can repeat a cycle, so that a forecast of one passes through it. Where
    the rows have no cycle, hidden layers start from the spectrum.

    Attributes:
        hidden: width of each hidden layer, where there is no cycle.
        n_forces: number of latent forces of a hidden layer.
        n_features: number of frequencies of each force.
    """

    term_name: ClassVar[str] = "dlfm"
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100

    @property
    def of_cycles(self) -> Sum:
        """The sum for rows with a cycle, which is solved without training."""
        return WarpedTime() + LocalLevel(damped=True)

    def schedule(self, n_steps: int) -> Schedule:
        """Full batches, the exact output weights solved in each step."""
        return collapsed_schedule(n_steps)

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM | StateSpaceLFM | ClocksLFM:
        """The sum for cycles; where the rows have none, hidden layers."""
        try:
            return self.of_cycles.build(rows, context)
        except UnsuitableError:
            deep = Deep(self.hidden, n_forces=self.n_forces, n_features=self.n_features)
            return (deep + BroadBand()).build_features(rows, context)
