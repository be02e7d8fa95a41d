"""A way to a trained model, and how it is treated in a race."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from deeplfm.model import DeepLFM
from deeplfm.training.rows import Rows
from deeplfm.training.schedule import Schedule


@dataclass(frozen=True)
class Candidate:
    """A way to a trained model.

    Attributes:
        name: what to call it.
        build: makes a model and its starting values from training rows, or some of very many, and
            a seed.
        schedule: how it is trained.
        margin: nats per row that it must be ahead of where others stand: a start found by searching
            through many has more chances to be lucky on the held-out rows, and most of all on few.
            Infinite: it is there to fill the gaps of a series, and races where there are any.
        fills_gaps: it says something of gaps, not only of what comes after the rows.
    """

    name: str
    build: Callable[[Rows, int], DeepLFM]
    schedule: Schedule
    margin: float = 0.0
    fills_gaps: bool = True

    @property
    def forecasts(self) -> bool:
        """Whether it may have a say in what comes after the rows."""
        return not math.isinf(self.margin)
