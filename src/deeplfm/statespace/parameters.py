"""Parameters of a state-space model: a vector of logarithms and loadings, and its prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deeplfm.statespace.chain import Array, DampedLevel, Processes
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.forces import N_STATES, Forces

OTHERS = "other outputs"  # name of the component
CONSTANT = 5.0  # prior standard deviation of the constant: wide, in units of the targets
LOADING = 0.5  # prior standard deviation of a loading, in units of the targets
_RATE = (0.15, 1.2)  # of a low-pass force, per step: median, standard deviation of the logarithm
_NARROW = (0.1, 1.2)  # of a narrow-band force, per cycle


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
        names += inputs_of(config)
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
        pairs: tuple[DampedLevel, ...] = ()
        if config.has_damped_level:
            velocity = value["velocity"] / config.step
            pairs = (DampedLevel(value["damping"] / config.step, velocity**2),)
        return Processes(table[:, 0], table[:, 1], table[:, 2], table[:, 3] > 0, pairs)

    def column_variance(self, parameters: Array) -> Array:
        """Prior variance of the weight of each column of :func:`design_of`."""
        value, config = self.values(parameters), self.config
        parts = [np.array([CONSTANT**2])]
        if config.has_slope:
            parts.append(np.array([value["slope"] ** 2]))
        for number, season in enumerate(config.seasons):
            size = value[f"season {season.name}"] ** 2
            parts.extend([size * self.shares(number, value["power"])] * 2)
        parts.extend(np.full(n, value[name] ** 2) for name, n in inputs_of(config).items())
        return np.concatenate(parts)


class JointLayout(NamedTuple):
    """Places of the parameters of all outputs and of the forces that they share in one vector.

    Logarithms of the parameters of each output, then of the rates of the forces, then the loadings.

    Attributes:
        config: what the model of each output is made of.
        frequency: of each force; 0 for a low-pass force.
    """

    config: tuple[StateSpaceConfig, ...]
    frequency: tuple[float, ...] = ()

    @property
    def counts(self) -> list[int]:
        """Number of parameters of each output."""
        return [len(Layout(item).names) for item in self.config]

    def own(self, parameters: Array) -> list[Array]:
        """Parameters of each output."""
        ends = np.cumsum([0, *self.counts])
        return [parameters[a:b] for a, b in pairwise(ends)]

    def forces(self, parameters: Array) -> Forces:
        """Forces, and loadings of the outputs."""
        first, n_forces = sum(self.counts), len(self.frequency)
        loadings = parameters[first + n_forces :].reshape(len(self.config), n_forces, N_STATES)
        rate = np.exp(parameters[first : first + n_forces])
        return Forces(rate, np.array(self.frequency), loadings)

    def prior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each parameter a priori."""
        own = [Layout(item).prior for item in self.config]
        step = self.config[0].step
        rates = [
            (_NARROW[0] * item / (2 * np.pi), _NARROW[1]) if item else (_RATE[0] / step, _RATE[1])
            for item in self.frequency
        ]
        n_loadings = len(self.config) * len(self.frequency) * N_STATES
        mean = [*(item[0] for item in own), np.log([item[0] for item in rates])]
        spread = [*(item[1] for item in own), np.array([item[1] for item in rates])]
        return (
            np.concatenate([*mean, np.zeros(n_loadings)]),
            np.concatenate([*spread, np.full(n_loadings, LOADING)]),
        )


def inputs_of(config: StateSpaceConfig) -> dict[str, int]:
    """Number of the inputs of each kind beside time, in their order, by the name of their parameter."""
    n_covariates = config.n_inputs - 1 - config.n_others - config.n_memory
    kinds = {"covariate": n_covariates, "others": config.n_others, "memory": config.n_memory}
    return {name: count for name, count in kinds.items() if count}


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
    inputs = inputs_of(config)
    last = place + inputs.pop("covariate", 0)
    if last > place:
        found["covariates"] = list(range(place, last))
    if inputs:
        found[OTHERS] = list(range(last, last + sum(inputs.values())))
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
