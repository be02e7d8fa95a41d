r"""The spectrum of a series with gaps: periodogram, matching pursuit, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from deeplfm.terms.initial import Array, typical_step

_UNEVEN = 0.1  # of a step: how far times may be off a grid
_OVERSAMPLING = 6  # frequencies per resolution cell 2π/T
_STEPS_PER_ROW, _FEWEST_STEPS, _MOST_STEPS = 100, 10_000, 1_000_000  # at most, in a whole series
_BINS_PER_STEP = 4  # time bins per typical time step, for irregular sampling


@dataclass(frozen=True)
class Periodogram:
    """Power of a series on a grid of angular frequencies above zero."""

    frequency: Array
    power: Array

    @property
    def spacing(self) -> float:
        """Distance between two neighbouring frequencies."""
        return float(self.frequency[1] - self.frequency[0])

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Frequencies drawn in proportion to power, anywhere within their cell."""
        probability = self.power / self.power.sum()
        chosen = rng.choice(self.frequency, size=n_draws, p=probability)
        return chosen + rng.uniform(-0.5, 0.5, n_draws) * self.spacing


@dataclass(frozen=True)
class SinusoidFit:
    """Sinusoids of one series, strongest first.

    Attributes:
        frequency: angular frequency of each.
        amplitude: amplitude of each when all are fitted together.
        residual_variance: variance left after each, preceded by the one before the first.
        n_supported: number of sinusoids that the Bayesian information criterion supports.
    """

    frequency: Array
    amplitude: Array
    residual_variance: Array
    n_supported: int


def steps_of(time: Float[Tensor, " N"]) -> Int64[Tensor, " N"]:
    """How many steps of a grid each time is after the first, where most follow after one.

    >>> steps_of(torch.tensor([0.0, 0.5, 1.0, 2.0, 2.5]))
    tensor([0, 1, 2, 4, 5])
    """
    width = time.diff()
    whole = (width / width.median()).round().clamp_min(1).long()
    return torch.cat([whole.new_zeros(1), whole.cumsum(0)])


def even_step(time: Float[Tensor, " N"]) -> float | None:
    """Width of the steps of a grid that times in order are on, nearly; None where there is none.

    >>> even_step(torch.tensor([0.0, 0.5, 1.0, 2.0, 2.5]))
    0.5
    >>> even_step(torch.tensor([0.0, 0.5, 0.7, 2.0, 2.5])) is None
    True
    """
    step = steps_of(time)
    width = (time[-1] - time[0]) / step[-1]
    stray = (time - time[0] - step * width).abs().max()
    is_even = width > 0 and stray <= _UNEVEN * width  # and no times repeat
    return float(width) if is_even else None


def periodogram(time: Array, value: Array) -> Periodogram:
    """Power |Σ y e^{−jωt}|² up to the Nyquist frequency of the typical step; any sampling.

    Irregular times are binned at a quarter of the typical step and transformed by FFT, so the cost
    is N log N; what binning blurs, pursuit sharpens on the exact times. Of a few bursts far apart the
    step is taken longer, so that the bins are not many more than the rows.
    """
    start, length = time.min(), max(float(np.ptp(time)), np.finfo(float).tiny)
    most_steps = min(max(_STEPS_PER_ROW * len(time), _FEWEST_STEPS), _MOST_STEPS)
    step = max(typical_step(time), length / most_steps)
    width = step / _BINS_PER_STEP
    index = np.round((time - start) / width).astype(np.int64)
    n_bins = int(index.max()) + 1
    grid = np.bincount(index, weights=value - value.mean(), minlength=n_bins)
    n_padded = _OVERSAMPLING * n_bins
    transform = np.fft.rfft(grid, n_padded)
    frequency: Array = 2 * np.pi * np.fft.rfftfreq(n_padded, width).astype(np.float64)
    keep = (frequency > 0) & (frequency <= np.pi / step)
    keep[1] = True  # a series of two rows has at least one frequency
    keep[2] = True
    power: Array = np.abs(transform[keep]).astype(np.float64) ** 2
    return Periodogram(frequency[keep], power + np.finfo(float).tiny)


def matching_pursuit(
    time: Array, value: Array, max_sinusoids: int, among: Array | None = None
) -> SinusoidFit:
    """Orthogonal matching pursuit of sinusoids beside a constant and a slope.

    Strongest peak of the residual, refined between grid points on the exact times unless only some
    frequencies are allowed; all sinusoids are refitted, and so on. Rows must be finite.

    Args:
        time: times, in any order and spacing.
        value: values.
        max_sinusoids: at most this many; fewer where the data do not carry three numbers for each.
        among: the only frequencies to choose from; any by default.
    """
    n_rows = len(time)
    if n_rows < 3 or np.ptp(time) == 0:
        return SinusoidFit(np.zeros(0), np.zeros(0), np.ones(1), 0)
    basis = _Basis(n_rows)
    residual = basis.add(np.ones_like(time), value)
    residual = basis.add(time - time.mean(), residual)
    found: list[float] = []
    variances = [float(residual @ residual) / n_rows]
    cosines = np.exp(1j * np.outer(among if among is not None else [], time))
    most = min(max_sinusoids, (n_rows - 2) // 3)
    for _ in range(most if among is None else min(most, len(among))):
        if among is None:
            peak = _refine(time, residual, periodogram(time, residual))
        else:
            peak = float(among[np.abs(cosines @ residual).argmax()])
        found.append(peak)
        for column in (np.cos(peak * time), np.sin(peak * time)):
            residual = basis.add(column, residual)
        variances.append(float(residual @ residual) / n_rows)
    frequency, variance = np.array(found), np.array(variances)
    floor = 1e-12 * max(variance[0], np.finfo(float).tiny)
    support = criterion(n_rows, variance + floor, 3 * np.arange(len(variance)))
    amplitude, _ = amplitudes(time, value, frequency)
    return SinusoidFit(frequency, amplitude, variance, int(support.argmin()))


def fit_known(time: Array, value: Array, frequency: Array) -> SinusoidFit:
    """Sinusoids of known frequencies; with fewer than three rows none is supported."""
    count = len(frequency)
    if len(time) < 3:
        return SinusoidFit(frequency, np.zeros(count), np.ones(count + 1), 0)
    amplitude, left = amplitudes(time, value, frequency)
    return SinusoidFit(frequency, amplitude, np.full(count + 1, left), count)


def criterion(n_rows: int, variance: Array, n_parameters: NDArray[np.int64]) -> Array:
    """The Bayesian information criterion of models of growing size, lower for a better one.

    Corrected for few rows as Akaike's is: otherwise models with nearly as many parameters as rows win.
    """
    n_all = n_parameters + 3
    room = n_rows - n_all - 1
    cost = n_all * np.log(n_rows) * n_rows / np.maximum(room, 1)
    result: Array = np.where(room > 0, n_rows * np.log(variance) + cost, np.inf)
    return result


def _refine(time: Array, residual: Array, spectrum: Periodogram) -> float:
    peak = float(spectrum.frequency[spectrum.power.argmax()])

    def unexplained(frequency: float) -> float:
        columns = np.stack([np.cos(frequency * time), np.sin(frequency * time)])
        gram, moment = columns @ columns.T, columns @ residual
        gram[np.diag_indices(2)] += 1e-9 * len(time)
        return -float(moment @ np.linalg.solve(gram, moment))

    bounds = (max(peak - spectrum.spacing, 0.1 * spectrum.spacing), peak + spectrum.spacing)
    return float(minimize_scalar(unexplained, bounds=bounds, method="bounded").x)


def amplitudes(time: Array, value: Array, frequency: Array) -> tuple[Array, float]:
    """Amplitudes fitted together beside a constant and a slope, and the variance left."""
    amplitude, left = fit_sinusoids(time, value, frequency)
    return amplitude, float(np.mean(left**2))


def fit_sinusoids(time: Array, value: Array, frequency: Array) -> tuple[Array, Array]:
    """Amplitudes fitted together beside a constant and a slope, and the residual."""
    phase = np.outer(time, frequency)
    slope = np.stack([np.ones_like(time), time - time.mean()], axis=1)
    design = np.concatenate([np.cos(phase), np.sin(phase), slope], axis=1)
    coefficient = np.linalg.lstsq(design, value, rcond=1e-8)[0]
    cosine, sine = coefficient[: 2 * len(frequency)].reshape(2, -1)
    return np.hypot(cosine, sine), value - design @ coefficient


class _Basis:
    """Orthonormal columns, to which new ones are added one by one."""

    def __init__(self, n_rows: int) -> None:
        self.columns = np.zeros((n_rows, 0))

    def add(self, column: Array, residual: Array) -> Array:
        """The residual once the column is fitted too."""
        size = np.linalg.norm(column)
        for _ in range(2):  # twice is enough
            column = column - self.columns @ (self.columns.T @ column)
        length = np.linalg.norm(column)
        if length <= 1e-10 * max(float(size), 1e-300):
            return residual
        column = column / length
        self.columns = np.column_stack([self.columns, column])
        return residual - column * (column @ residual)
