"""Declaration of a state-space model: plain data that can be written to JSON and read back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class SeasonConfig:
    """Harmonics of one season.

    Attributes:
        name: of the component.
        frequencies: angular, in the model's units of time.
        orders: number of each harmonic; prior amplitudes fall with a power of it.
        n_evolving: the first harmonics, whose amplitudes change over time.
    """

    name: str
    frequencies: tuple[float, ...]
    orders: tuple[int, ...]
    n_evolving: int = 0


@dataclass(frozen=True)
class StateSpaceConfig:
    """Parts of a state-space model of one output.

    Attributes:
        n_inputs: time, and the number of known covariates.
        begin: time of the first row, at which the random walk starts.
        step: typical time between rows, the unit of the parameters.
        span: time from the first to the last row.
        has_slope: a straight line.
        has_level: a random walk.
        has_reversion: an Ornstein–Uhlenbeck process, which reverts to zero.
        seasons: harmonics of each season.
        n_draws: draws of the parameters from their posterior, over which predictions are averaged.
    """

    n_inputs: int
    begin: float
    step: float
    span: float
    has_slope: bool = True
    has_level: bool = True
    has_reversion: bool = True
    seasons: tuple[SeasonConfig, ...] = ()
    n_draws: int = 8

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The declaration that :meth:`to_dict` wrote."""
        seasons = tuple(
            SeasonConfig(
                item["name"], tuple(item["frequencies"]), tuple(item["orders"]), item["n_evolving"]
            )
            for item in data["seasons"]
        )
        return cls(**data | {"seasons": seasons})
