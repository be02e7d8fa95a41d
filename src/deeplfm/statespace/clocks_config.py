"""Declaration of a model of clocks: plain data that can be written to JSON and read back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from deeplfm.io.typed import checked
from deeplfm.statespace.phase_solve import Priors, Sample
from deeplfm.statespace.phases import Clock, Shape


@dataclass(frozen=True)
class ClocksConfig:
    """Clocks, shapes of all outputs, and the grid of knots.

    Attributes:
        clocks: priors of the phases.
        shapes: one for each output.
        begin, width: of the grid of knots.
        samples: priors of clocks and amplitudes, drawn from their posterior; predictions average them.
    """

    clocks: tuple[Clock, ...]
    shapes: tuple[Shape, ...]
    begin: float
    width: float
    samples: tuple[Sample, ...] = ()

    @property
    def priors(self) -> Priors:
        """Clocks and shapes."""
        return Priors(self.clocks, self.shapes)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        shapes = [
            asdict(shape) | {"orders": shape.orders.tolist(), "variance": shape.variance.tolist()}
            for shape in self.shapes
        ]
        return {
            "clocks": [asdict(clock) for clock in self.clocks],
            "shapes": shapes,
            "begin": self.begin,
            "width": self.width,
            "samples": [asdict(sample) for sample in self.samples],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The declaration that :meth:`to_dict` wrote."""
        clocks = tuple(Clock(**item) for item in data["clocks"])
        shapes = tuple(
            Shape(
                **item
                | {
                    "orders": np.array(item["orders"], dtype=np.int64).reshape(-1, len(clocks)),
                    "variance": np.array(item["variance"]),
                }
            )
            for item in data["shapes"]
        )
        samples = tuple(
            Sample(
                tuple(Clock(**item) for item in sample["clocks"]),
                tuple(
                    (float(variance), float(lasting)) for variance, lasting in sample["amplitudes"]
                ),
            )
            for sample in data["samples"]
        )
        found = checked(cls(clocks, shapes, data["begin"], data["width"], samples))
        if not clocks or any(len(sample.clocks) != len(clocks) for sample in samples):
            raise ValueError(f"clocks of ClocksConfig is {clocks!r:.80}, and others in its samples")
        if not found.width > 0:
            raise ValueError(f"width of ClocksConfig is {found.width!r}")
        return found
