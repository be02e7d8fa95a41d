"""Declaration of a state-space model: plain data that can be written to JSON and read back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from deeplfm.io.typed import checked


@dataclass(frozen=True)
class Prior:
    """Median, and standard deviation of the logarithm, of each parameter.

    Targets are standardised and time counts in steps. The values describe ordinary series of sales,
    loads and counts, and are wide. They were tried on 100 monthly and quarterly series of competitions.

    Attributes:
        noise: standard deviation of the noise.
        slope: what the straight line adds from the first to the last row.
        level: standard deviation of one step of the random walk.
        velocity: standard deviation of what a damped level moves in one step.
        damping: rate at which its velocity reverts to zero, per step.
        reversion: standard deviation of the Ornstein–Uhlenbeck process.
        rate: its rate of reversion, per step.
        season: standard deviation of a season.
        power: amplitudes of harmonics fall with this power of their order.
        evolution: standard deviation of changes of a season, over that of the season.
        forgetting: rate at which these changes are forgotten, per cycle of the season.
        covariate: standard deviation of the effect of a standardised covariate.
        others: standard deviation of the effect of another output at the same time.
        memory: standard deviation of the effect of its values before and after.
        widening: factor of the standard deviation of forecasts, beyond what those of a series from its
            earlier origins show. It has no spread.
    """

    noise: tuple[float, float] = (0.22, 1.5)
    slope: tuple[float, float] = (0.4, 0.8)
    level: tuple[float, float] = (0.067, 1.2)
    velocity: tuple[float, float] = (0.02, 1.2)
    damping: tuple[float, float] = (0.15, 0.8)
    reversion: tuple[float, float] = (0.15, 1.2)
    rate: tuple[float, float] = (0.4, 0.8)
    season: tuple[float, float] = (0.3, 1.5)
    power: tuple[float, float] = (1.0, 0.5)
    evolution: tuple[float, float] = (0.3, 0.8)
    forgetting: tuple[float, float] = (0.1, 1.0)
    covariate: tuple[float, float] = (0.2, 1.5)
    others: tuple[float, float] = (0.2, 1.5)
    memory: tuple[float, float] = (0.1, 1.5)
    widening: float = 1.0

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The prior that ``asdict`` wrote."""
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        return cls(**values)


PRIOR = Prior()


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
        n_inputs: time, known covariates, and columns of other outputs.
        n_others: columns of other outputs at the same time.
        n_memory: columns of other outputs before and after, which are the last.
        begin: time of the first row, at which the random walk starts.
        step: typical time between rows, the unit of the parameters.
        span: time from the first to the last row.
        has_slope: a straight line.
        has_level: a random walk.
        has_damped_level: an integrated Ornstein–Uhlenbeck process.
        has_reversion: an Ornstein–Uhlenbeck process, which reverts to zero.
        seasons: harmonics of each season.
        n_draws: draws of the parameters from their posterior, over which predictions are averaged.
        prior: of the parameters.
        is_recent: of a longer record it knows the rows from ``begin`` on, and predicts no others.
    """

    n_inputs: int
    begin: float
    step: float
    span: float
    has_slope: bool = True
    has_level: bool = True
    has_damped_level: bool = False
    has_reversion: bool = True
    seasons: tuple[SeasonConfig, ...] = ()
    n_draws: int = 8
    prior: Prior = PRIOR
    n_others: int = 0
    n_memory: int = 0
    is_recent: bool = False

    @property
    def n_states(self) -> int:
        """Number of values of the Markov processes at each time, at least 1."""
        n_evolving = sum(season.n_evolving for season in self.seasons)
        own = self.has_level + self.has_reversion + 2 * self.has_damped_level
        return max(own + 2 * n_evolving, 1)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The declaration that :meth:`to_dict` wrote."""
        seasons = tuple(
            SeasonConfig(
                **item
                | {"frequencies": tuple(item["frequencies"]), "orders": tuple(item["orders"])}
            )
            for item in data["seasons"]
        )
        prior = Prior.from_dict(data.get("prior", {}))
        found = checked(cls(**data | {"seasons": seasons, "prior": prior}))
        if not found.step > 0:
            raise ValueError(f"step is {found.step!r}")
        return found
