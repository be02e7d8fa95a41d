"""Parameters of one output of a state-space model: a vector of logarithms, and its prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.damped_level import DampedLevel

Array = NDArray[np.float64]

CONSTANT = 5.0  # prior standard deviation of the constant: wide, in units of the targets


class Processes(NamedTuple):
    """Independent Markov processes: random walks, Ornstein–Uhlenbeck processes, and a damped level.

    Attributes:
        rate: of reversion per unit of time; 0 for a random walk.
        variance: of an Ornstein–Uhlenbeck process; of a random walk, per unit of time.
        frequency: angular frequency of the wave whose amplitude the process is; 0 for a level.
        is_sine: the wave is a sine.
        damped: a damped level, whose value and velocity come after the other processes.
    """

    rate: Array
    variance: Array
    frequency: Array
    is_sine: NDArray[np.bool_]
    damped: DampedLevel | None = None

    @property
    def size(self) -> int:
        """Number of values at each time."""
        return len(self.rate) + 2 * (self.damped is not None)

    def observation(self, time: Array) -> Array:
        """The effect of one unit of each process on an observation, for each time."""
        angle = np.outer(time, self.frequency)
        waves = np.where(self.is_sine, np.sin(angle), np.cos(angle))
        if self.damped is None:
            return waves
        return np.column_stack([waves, np.ones(len(time)), np.zeros(len(time))])

    def scaled(self, factor: float) -> Processes:
        """The same processes with their variances multiplied."""
        damped = self.damped and self.damped._replace(variance=factor * self.damped.variance)
        return self._replace(variance=factor * self.variance, damped=damped)


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
        names += ["velocity", "damping"] if config.has_damped_level else []
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
        median, spread = np.array(
            [getattr(self.config.prior, name.split(" ")[0]) for name in self.names]
        ).T
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
        damped = None
        if config.has_damped_level:
            damped = DampedLevel(
                value["damping"] / config.step, (value["velocity"] / config.step) ** 2
            )
        return Processes(table[:, 0], table[:, 1], table[:, 2], table[:, 3] > 0, damped)

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
    if config.has_level or config.has_damped_level or config.has_reversion:
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
    level = list(range(place))
    for season in config.seasons:
        if season.n_evolving:
            found[season.name] = list(range(place, place + 2 * season.n_evolving))
            place += 2 * season.n_evolving
    level += [place] if config.has_damped_level else []
    return ({"level": level} if level else {}) | found
