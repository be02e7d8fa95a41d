r"""Simulated data: the paper's toy in closed form, and solutions of nonlinear differential equations.

The toy is a wave passed through one linear system, the result through a second one. Its force is a sum of
complex exponentials, u(t) = cos(t/2) + 6 sin(3t) = Σ_k c_k e^{jω_k t}.

Other solutions are those of an eighth-order Runge–Kutta method with relative tolerance 1e-10. The Lorenz
attractor multiplies rounding errors by e about every unit of time: past 35 or so, another processor may
compute another path of the same attractor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex128, Float64, Int64
from numpy import ndarray

from deeplfm.errors import ConfigError

VARIANTS = ("published", "text")

_DECAYS = (0.01, 0.02)  # γ of the first and of the second system
_FREQUENCY = 1.0  # λ of the wave that the published code passes through both
_END, _N_ROWS = 15.0, 750
_NOISE_STD = {"published": 0.15, "text": 0.2}
_FORCE = ((0.5, 0.5), (-0.5, 0.5), (3.0, -3j), (-3.0, 3j))  # (ω_k, c_k)


@dataclass(frozen=True, eq=False)
class ToyData:
    """One series with a gap inside the training rows and a tail after them."""

    variant: str
    seed: int
    time: Float64[ndarray, " N"]
    value: Float64[ndarray, " N"]
    clean: Float64[ndarray, " N"]
    train: Int64[ndarray, " n"]
    interpolation: Int64[ndarray, " i"]
    extrapolation: Int64[ndarray, " e"]

    @property
    def inputs(self) -> Float64[ndarray, "N 1"]:
        """Times, scaled so that the training rows span 0 to 1."""
        first, last = self.time[self.train].min(), self.time[self.train].max()
        return ((self.time - first) / (last - first))[:, None]

    @property
    def outputs(self) -> Float64[ndarray, "N 1"]:
        """Observations, scaled to mean 0 and variance 1 on the training rows."""
        return self.standardised(self.value)[:, None]

    def standardised(self, values: Float64[ndarray, " N"]) -> Float64[ndarray, " N"]:
        """Values on the scale of ``outputs``."""
        known = self.value[self.train]
        return (values - known.mean()) / known.std()


def toy_system(variant: str = "published", seed: int = 0) -> ToyData:
    r"""Simulate the toy of the paper's extrapolation figure.

    "published" is the figure of the authors' code: every response runs over the whole record, and the
    second one takes the complex first one for its time,
    f₁(t) = ∫_0^15 (e^{jλ(t−τ)} − e^{−γ₁(t−τ)})/(γ₁+jλ) u(τ) dτ, y = Re f₂(f₁(t)) + 0.15 ε.
    "text" is the description in the paper: f₁(t) = ∫_0^t e^{−γ₁(t−τ)} u(τ) dτ, then the response of the
    second system at "time" f₁(t), and noise of variance 0.04.

    Returns:
        750 rows: 500 to train on, a gap of 100 and 150 at the end.

    Example:
        >>> toy = toy_system(seed=1)
        >>> toy.inputs[toy.train].min().item(), toy.inputs[toy.train].max().item()
        (0.0, 1.0)
    """
    if variant not in VARIANTS:
        raise ConfigError(
            f"toy_system: variant {variant!r} is not known. Choose one of {', '.join(VARIANTS)}."
        )
    time = np.linspace(0.0, _END, _N_ROWS)
    clean = _published(time) if variant == "published" else _text(time)
    noise = np.random.default_rng(seed).normal(size=_N_ROWS)
    row = np.arange(_N_ROWS)
    return ToyData(
        variant=variant,
        seed=seed,
        time=time,
        value=clean + _NOISE_STD[variant] * noise,
        clean=clean,
        train=np.concatenate([row[:125], row[225:600]]),
        interpolation=row[125:225],
        extrapolation=row[600:],
    )


def _published(time: Float64[ndarray, " N"]) -> Float64[ndarray, " N"]:
    first = _whole_record(time, _DECAYS[0], _END)
    return _whole_record(first, _DECAYS[1], float(first.real.max())).real


def _text(time: Float64[ndarray, " N"]) -> Float64[ndarray, " N"]:
    return _response(_response(time, _DECAYS[0]), _DECAYS[1])


def _whole_record(
    time: Float64[ndarray, " N"] | Complex128[ndarray, " N"], decay: float, end: float
) -> Complex128[ndarray, " N"]:
    """∫_0^end (e^{jλ(t−τ)} − e^{−γ(t−τ)})/(γ+jλ) u(τ) dτ; the time may be complex."""
    forced, own = (
        np.exp(rate * time) * _transform(rate, end) for rate in (1j * _FREQUENCY, -decay)
    )
    return (forced - own) / (decay + 1j * _FREQUENCY)


def _transform(rate: complex, end: float) -> complex:
    """∫_0^end e^{−rate·τ} u(τ) dτ."""
    return sum(
        complex(amplitude * np.expm1((1j * frequency - rate) * end) / (1j * frequency - rate))
        for frequency, amplitude in _FORCE
    )


def _response(time: Float64[ndarray, " N"], decay: float) -> Float64[ndarray, " N"]:
    """∫_0^t e^{−γ(t−τ)} u(τ) dτ, also for negative t."""
    waves = [
        amplitude
        * (np.exp(1j * frequency * time) - np.exp(-decay * time))
        / (decay + 1j * frequency)
        for frequency, amplitude in _FORCE
    ]
    return np.sum(waves, axis=0).real


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
