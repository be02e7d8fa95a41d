"""Parameters of one output of a state-space model: a vector of logarithms, and its prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deeplfm.statespace.config import StateSpaceConfig

Array = NDArray[np.float64]

CONSTANT = 5.0  # prior standard deviation of the constant: wide, in units of the targets


@dataclass(frozen=True)
class Prior:
    """Median, and standard deviation of the logarithm, of each parameter.

    Targets are standardised and time counts in steps. The values describe ordinary series of sales,
    loads and counts, and are wide. They were tried on 100 monthly and quarterly series of competitions.

    Attributes:
        noise: standard deviation of the noise.
        slope: what the straight line adds from the first to the last row.
        level: standard deviation of one step of the random walk.
        reversion: standard deviation of the Ornstein–Uhlenbeck process.
        rate: its rate of reversion, per step.
        season: standard deviation of a season.
        power: amplitudes of harmonics fall with this power of their order.
        evolution: standard deviation of changes of a season, over that of the season.
        forgetting: rate at which these changes are forgotten, per cycle of the season.
        covariate: standard deviation of the effect of a standardised covariate.
    """

    noise: tuple[float, float] = (0.22, 1.5)
    slope: tuple[float, float] = (0.4, 0.8)
    level: tuple[float, float] = (0.067, 1.2)
    reversion: tuple[float, float] = (0.15, 1.2)
    rate: tuple[float, float] = (0.4, 0.8)
    season: tuple[float, float] = (0.3, 1.5)
    power: tuple[float, float] = (1.0, 0.5)
    evolution: tuple[float, float] = (0.3, 0.8)
    forgetting: tuple[float, float] = (0.1, 1.0)
    covariate: tuple[float, float] = (0.2, 1.5)


PRIOR = Prior()


class Processes(NamedTuple):
    """Independent Markov processes: random walks, and Ornstein–Uhlenbeck processes.

    Attributes:
        rate: of reversion per unit of time; 0 for a random walk.
        variance: of an Ornstein–Uhlenbeck process; of a random walk, per unit of time.
        frequency: angular frequency of the wave whose amplitude the process is; 0 for a level.
        is_sine: the wave is a sine.
    """

    rate: Array
    variance: Array
    frequency: Array
    is_sine: NDArray[np.bool_]

    def observation(self, time: Array) -> Array:
        """The effect of one unit of each process on an observation, for each time."""
        angle = np.outer(time, self.frequency)
        return np.where(self.is_sine, np.sin(angle), np.cos(angle))


@dataclass(frozen=True)
class Layout:
    """Places of the parameters of one output in a vector of logarithms."""

    config: StateSpaceConfig

    @cached_property
    def names(self) -> list[str]:
        """Name of each parameter; that of its prior stands before a blank."""
        config = self.config
        names = ["noise"]
        names += ["slope"] if config.has_slope else []
        names += ["level"] if config.has_level else []
        names += ["reversion", "rate"] if config.has_reversion else []
        names += [f"season {season.name}" for season in config.seasons]
        names += ["power"] if config.seasons else []
        evolves = any(season.n_evolving for season in config.seasons)
        names += ["evolution", "forgetting"] if evolves else []
        names += ["covariate"] if config.n_inputs > 1 else []
        return names

    @cached_property
    def prior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each parameter a priori."""
        median, spread = np.array([getattr(PRIOR, name.split(" ")[0]) for name in self.names]).T
        return np.log(median), spread

    def values(self, parameters: Array) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(self.names, np.exp(parameters).tolist(), strict=True))

    def shares(self, season_number: int, power: float) -> Array:
        """Part of the variance of a season that each of its harmonics has."""
        orders = np.array(self.config.seasons[season_number].orders, dtype=np.float64)
        size = orders ** (-2 * power)
        return size / size.sum()

    def processes(self, parameters: Array) -> Processes:
        """The Markov processes in the model's units of time."""
        value, config = self.values(parameters), self.config
        rows: list[tuple[float, float, float, bool]] = []
        if config.has_level:
            rows.append((0.0, value["level"] ** 2 / config.step, 0.0, False))
        if config.has_reversion:
            rows.append((value["rate"] / config.step, value["reversion"] ** 2, 0.0, False))
        for number, season in enumerate(config.seasons):
            if not season.n_evolving:
                continue
            size = (value[f"season {season.name}"] * value["evolution"]) ** 2
            share = self.shares(number, value["power"])
            rate = value["forgetting"] * season.frequencies[0] / season.orders[0] / (2 * np.pi)
            for k in range(season.n_evolving):
                for is_sine in (False, True):
                    rows.append((rate, size * share[k], season.frequencies[k], is_sine))
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        return Processes(table[:, 0], table[:, 1], table[:, 2], table[:, 3] > 0)

    def column_variance(self, parameters: Array) -> Array:
        """Prior variance of the weight of each column of :func:`design_of`."""
        value, config = self.values(parameters), self.config
        parts = [np.array([CONSTANT**2])]
        if config.has_slope:
            parts.append(np.array([value["slope"] ** 2]))
        for number, season in enumerate(config.seasons):
            size = value[f"season {season.name}"] ** 2
            parts.extend([size * self.shares(number, value["power"])] * 2)
        parts.extend(np.array([value["covariate"] ** 2]) for _ in range(config.n_inputs - 1))
        return np.concatenate(parts)


def design_of(config: StateSpaceConfig, x: Array) -> Array:
    """Columns whose weights do not change: constant, slope, harmonics, covariates."""
    time = x[:, 0] - config.begin
    columns = [np.ones_like(time)]
    if config.has_slope:
        columns.append(time / (config.span or 1.0) - 0.5)
    for season in config.seasons:
        angle = np.outer(time, season.frequencies)
        columns.extend([*np.cos(angle).T, *np.sin(angle).T])
    columns.extend(x[:, 1:].T)
    return np.stack(columns, axis=1)


def columns_of(config: StateSpaceConfig) -> dict[str, list[int]]:
    """Columns of each component; the first one has the constant."""
    found: dict[str, list[int]] = {}
    place = 1
    if config.has_slope:
        found["trend"], place = [place], place + 1
    if config.has_level or config.has_reversion:
        found["level"] = []
    for season in config.seasons:
        n_columns = 2 * len(season.orders)
        found[season.name] = list(range(place, place + n_columns))
        place += n_columns
    if config.n_inputs > 1:
        found["covariates"] = list(range(place, place + config.n_inputs - 1))
    first = next(iter(found), "mean")
    found[first] = [0, *found.get(first, [])]
    return found


def processes_of(config: StateSpaceConfig) -> dict[str, list[int]]:
    """Markov processes of each component that has some."""
    found: dict[str, list[int]] = {}
    place = config.has_level + config.has_reversion
    if place:
        found["level"] = list(range(place))
    for season in config.seasons:
        if season.n_evolving:
            found[season.name] = list(range(place, place + 2 * season.n_evolving))
            place += 2 * season.n_evolving
    return found
