r"""Benchmark data: solutions of nonlinear differential equations.

Solutions are those of an eighth-order Runge–Kutta method with relative tolerance 1e-10. The Lorenz
attractor multiplies rounding errors by e about every unit of time: past 35 or so, another processor may
compute another path of the same attractor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import ConfigError

State = Float64[ndarray, " D"]

LORENZ_STATES = (
    (1.0, 1.0, 1.0),
    (-8.0, 8.0, 27.0),
    (5.0, -5.0, 20.0),
    (0.0, 1.0, 1.05),
    (-10.0, -7.0, 35.0),
)
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class SimulatedData:
    """A solution, and noisy observations of it."""

    time: Float64[ndarray, " N"]
    clean: Float64[ndarray, "N D"]
    value: Float64[ndarray, "N D"]
    outputs: tuple[str, ...]


def fitzhugh_nagumo(
    seed: int = 0,
    n_rows: int = 400,
    noise_variance: float = 0.25,
    parameters: tuple[float, float, float] = (3.0, 0.2, 0.2),
) -> SimulatedData:
    r"""Spikes of a nerve: v' = a(v − v³/3 + r), r' = −(v − b + c r)/a from (−1, 1).

    Example:
        >>> fitzhugh_nagumo(seed=1).value.shape
        (400, 2)
    """
    a, b, c = parameters

    def derivative(_: float, state: State) -> list[float]:
        v, r = state
        return [a * (v - v**3 / 3 + r), -(v - b + c * r) / a]

    time = 0.05 * np.arange(n_rows)
    return _observed(time, _solution(derivative, (-1.0, 1.0), time), noise_variance, seed, "vr")


def lotka_volterra(
    seed: int = 0,
    n_rows: int = 21,
    noise_variance: float = 0.25,
    parameters: tuple[float, float, float, float] = (2.0, 1.0, 4.0, 1.0),
) -> SimulatedData:
    r"""Prey and predators: s' = s(α − β w), w' = −w(γ − δ s) from (5, 3).

    Example:
        >>> lotka_volterra().time[-1].item()
        2.0
    """
    alpha, beta, gamma, delta = parameters

    def derivative(_: float, state: State) -> list[float]:
        prey, predators = state
        return [prey * (alpha - beta * predators), -predators * (gamma - delta * prey)]

    time = np.linspace(0.0, 2.0, n_rows)
    clean = _solution(derivative, (5.0, 3.0), time)
    return _observed(time, clean, noise_variance, seed, ("prey", "predators"))


def lorenz(
    state: tuple[float, float, float] = LORENZ_STATES[0],
    n_rows: int = 1000,
    end: float = 50.0,
    noise_variance: float = 0.0,
    seed: int = 0,
) -> SimulatedData:
    r"""The chaotic attractor: x' = 10(y − x), y' = x(28 − z) − y, z' = xy − 8z/3.

    Example:
        >>> lorenz(n_rows=100, end=5.0).outputs
        ('x', 'y', 'z')
    """

    def derivative(_: float, now: State) -> list[float]:
        x, y, z = now
        return [10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z]

    time = np.linspace(0.0, end, n_rows)
    return _observed(time, _solution(derivative, state, time), noise_variance, seed, "xyz")


def _solution(
    derivative: Callable[[float, State], list[float]],
    state: tuple[float, ...],
    time: Float64[ndarray, " N"],
) -> Float64[ndarray, "N D"]:
    from scipy.integrate import solve_ivp

    if len(time) < 2:
        raise ConfigError(f"n_rows: {len(time)} found. Give a whole number of at least 2.")
    solved = solve_ivp(
        derivative,
        (time[0], time[-1]),
        state,
        method="DOP853",
        t_eval=time,
        rtol=_TOLERANCE,
        atol=_TOLERANCE,
    )
    return solved.y.T


def _observed(
    time: Float64[ndarray, " N"],
    clean: Float64[ndarray, "N D"],
    noise_variance: float,
    seed: int,
    outputs: str | tuple[str, ...],
) -> SimulatedData:
    if not noise_variance >= 0:
        raise ConfigError(f"noise_variance: {noise_variance} found. Give 0 or more.")
    noise = np.random.default_rng(seed).normal(size=clean.shape)
    return SimulatedData(time, clean, clean + np.sqrt(noise_variance) * noise, tuple(outputs))
