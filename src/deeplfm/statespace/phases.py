r"""Cycles on clocks whose rate varies, linearised: a banded precision with a dense border.

    y_d(t) = exp(g_d(t)) Σ_k [a_dk cos(k·φ(t)) + b_dk sin(k·φ(t))] + c_d + level_d(t) + e_d(t),
    φ_c(t) = ω_c t + w_c(t),  w' = r,

where r is an Ornstein–Uhlenbeck process and e_d is one too (noise whose neighbours may repeat each
other); levels and logarithms g of amplitudes are damped oscillators. Their states at evenly spaced knots
are a Markov process, so that its precision has few bands. The weights a, b, c and the frequencies ω
touch all rows: they are the border. A step of Gauss and Newton solves for all of them together, in a
time that is linear in the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dtbtrs

from deeplfm.statespace.chain import DampedLevel

Array = NDArray[np.float64]
Orders = NDArray[np.int64]  # K × clocks

_START = 1e-4  # variance of a phase at the first knot: the shape has its own
_CONSTANT = 10.0  # prior variance of the constant of each output
_LONGEST_STEP, _SHORTEST_STEP = 0.5, 1e-3  # radians; after a shorter one the search ends
JITTER = 1e-6  # variance of the jumps of a clock that has none


@dataclass(frozen=True)
class Clock:
    """Prior of one phase.

    Attributes:
        frequency: expected angular frequency.
        std: of the rate, as a share of the frequency.
        lasting: correlation time of the rate.
    """

    frequency: float
    std: float
    lasting: float

    @property
    def diffusion(self) -> float:
        """Standard deviation that a cycle adds to the phase in the long run, in radians."""
        return self.std * math.sqrt(4 * np.pi * self.frequency * self.lasting)

    @property
    def rate(self) -> DampedLevel:
        """The phase and its rate as a damped level with its velocity."""
        return DampedLevel(1 / self.lasting, (self.std * self.frequency) ** 2)


@dataclass(frozen=True)
class Shape:
    """One output as a function of the phases.

    Attributes:
        orders: the vectors k.
        variance: prior variance of the two weights of each.
        noise: variance of e.
        colour: correlation time of e; 0 for white noise.
        level: variance of the level.
        lasting: time constant 1/ω₀ of the level.
        damping: its damping ratio ζ; below one it is a wave of its own.
        amplitude: variance of the logarithm of the amplitude.
        amplitude_lasting: its time constant.
    """

    orders: Orders
    variance: Array
    noise: float
    colour: float
    level: float
    lasting: float
    damping: float
    amplitude: float
    amplitude_lasting: float

    @property
    def prior(self) -> Array:
        """Variances of cosines, sines and the constant."""
        return np.concatenate([self.variance, self.variance, [_CONSTANT]])


class Series(NamedTuple):
    """Known values of one output in the order of time, and how many rows each stands for."""

    time: Array
    value: Array
    weight: Array


def design(phase: Array, orders: Orders) -> tuple[Array, Array, Array]:
    """Cosines, sines and a constant; and the first two alone."""
    angle = phase @ orders.T
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.column_stack([cosine, sine, np.ones(len(phase))]), cosine, sine


class Smooth(NamedTuple):
    """A damped oscillator driven by white noise, with its derivative: f'' + 2ζω₀f' + ω₀²f = noise.

    With ζ = 1 it is a Matérn-3/2 process.
    """

    lasting: float
    variance: float
    damping: float

    @property
    def start(self) -> Array:
        """Variances of the process and its derivative."""
        return self.variance * np.array([1.0, self.lasting**-2])

    def transition(self, step: Array) -> Array:
        """Share of the pair that is kept after each step, ``N 2 2``."""
        natural = 1 / self.lasting
        decay = self.damping * natural
        turn = natural * math.sqrt(max(1 - self.damping**2, 0.0)) * step
        kept, cosine = np.exp(-decay * step)[:, None, None], np.cos(turn)
        sine = step * np.sinc(turn / np.pi)
        first = np.stack([cosine + decay * sine, sine], axis=-1)
        second = np.stack([-(natural**2) * sine, cosine - decay * sine], axis=-1)
        return kept * np.stack([first, second], axis=-2)

    def innovation(self, step: Array) -> Array:
        """Covariance of what each step adds, ``N 2 2``."""
        jump, start = self.transition(step), np.diag(self.start)
        return start - jump @ start @ jump.transpose(0, 2, 1)


class Knots:
    """Evenly spaced times, the Markov processes there, and how rows depend on them.

    First the clocks, then level and amplitude of each output. Each process has two states: a phase and
    its rate, or a value and its derivative.

    Args:
        begin, width, count: of the grid.
        clocks: priors of the phases.
        shapes: one for each output.
    """

    def __init__(
        self,
        begin: float,
        width: float,
        count: int,
        clocks: Sequence[Clock],
        shapes: Sequence[Shape],
    ) -> None:
        self.begin, self.width, self.count = begin, width, count
        self.clocks = tuple(clocks)
        self.processes: list[DampedLevel | Smooth] = [clock.rate for clock in self.clocks]
        for shape in shapes:
            self.processes.append(Smooth(shape.lasting, shape.level, shape.damping))
            self.processes.append(Smooth(shape.amplitude_lasting, shape.amplitude, 1.0))
        self.size = 2 * len(self.processes)

    def level(self, output: int) -> int:
        """Which process is the level of an output; the next one is its amplitude."""
        return len(self.clocks) + 2 * output

    def is_amplitude(self, process: int) -> bool:
        """Whether a process is the logarithm of an amplitude."""
        return process >= len(self.clocks) and (process - len(self.clocks)) % 2 == 1

    @property
    def time(self) -> Array:
        """Of the knots."""
        return self.begin + self.width * np.arange(self.count, dtype=np.float64)

    def columns(self, time: Array, process: int) -> sp.csr_matrix:
        """Expected value of a process between knots, given its states there: N × states."""
        left, ahead = self._place(time)
        law, width = self.processes[process], np.array([self.width])
        first, second = law.transition(ahead), law.transition(self.width - ahead)
        gain = (
            law.innovation(ahead) @ second.transpose(0, 2, 1) @ np.linalg.inv(law.innovation(width))
        )
        part = np.concatenate([(first - gain @ law.transition(width))[:, 0], gain[:, 0]], axis=1)
        columns = (self.size * left + 2 * process)[:, None] + np.array(
            [0, 1, self.size, self.size + 1]
        )
        n_rows, n_each = part.shape
        pointer = np.arange(0, n_each * n_rows + 1, n_each)
        shape = (n_rows, self.size * self.count)
        return sp.csr_matrix((part.ravel(), columns.ravel(), pointer), shape=shape)

    def _place(self, time: Array) -> tuple[NDArray[np.intp], Array]:
        place = (time - self.begin) / self.width
        left = np.clip(np.floor(place).astype(np.intp), 0, self.count - 2)
        return left, time - self.begin - self.width * left

    def prior(self, jumps: Array) -> tuple[sp.csr_matrix, float]:
        """Precision of all states and the logarithm of its determinant.

        Args:
            jumps: variance that each step adds to each phase, knots - 1 × clocks.
        """
        steps, size, width = self.count - 1, self.size, np.array([self.width])
        own = np.zeros((self.count, size, size))
        beyond = np.zeros((steps, size, size))  # of the next with this
        log_determinant = 0.0
        for index, law in enumerate(self.processes):
            jump = law.transition(width)[0]
            gained = np.repeat(law.innovation(width), steps, axis=0)
            if index < len(self.clocks):
                gained[:, 0, 0] += jumps[:, index]
            start = self.start(index)
            precision = np.linalg.inv(gained)
            some = slice(2 * index, 2 * index + 2)
            own[1:, some, some] += precision
            own[:-1, some, some] += jump.T @ precision @ jump
            own[0, some, some] += np.diag(1 / start)
            beyond[:, some, some] = -precision @ jump
            if self.is_amplitude(index):  # one at the last knot: weights have the present size
                own[-1, 2 * index, 2 * index] += 1 / _START
                log_determinant += math.log1p(start[0] / _START)
            log_determinant -= np.linalg.slogdet(gained)[1].sum() + np.log(start).sum()
        return _banded(own, beyond), float(log_determinant)

    def start(self, index: int) -> Array:
        """Variances of a process at the first knot."""
        law = self.processes[index]
        return law.start if isinstance(law, Smooth) else np.array([_START, law.variance])


def _banded(own: Array, beyond: Array) -> sp.csr_matrix:
    """Symmetric block tridiagonal matrix."""
    count, size, _ = own.shape
    row, column = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    first = size * np.arange(count)[:, None, None]
    rows = [first + row, first[1:] + row, first[:-1] + row]
    columns = [first + column, first[:-1] + column, first[1:] + column]
    values = [own, beyond, beyond.transpose(0, 2, 1)]
    joined = [np.concatenate([item.ravel() for item in part]) for part in (values, rows, columns)]
    return sp.coo_matrix((joined[0], (joined[1], joined[2])), shape=(count * size,) * 2).tocsr()


class Factor:
    """Cholesky factor of a sparse matrix whose entries are near its diagonal."""

    def __init__(self, matrix: sp.csr_matrix, n_bands: int) -> None:
        lower = sp.tril(matrix).tocoo()
        bands = np.zeros((n_bands, matrix.shape[0]))
        bands[lower.row - lower.col, lower.col] = lower.data
        self._factor = cholesky_banded(bands, lower=True, check_finite=False, overwrite_ab=True)

    @property
    def log_determinant(self) -> float:
        """Of the matrix."""
        return float(2 * np.log(self._factor[0]).sum())

    def solve(self, right: Array) -> Array:
        """Of the matrix with one or many right-hand sides."""
        solved: Array = cho_solve_banded((self._factor, True), right, check_finite=False)
        return solved

    def draw(self, noise: Array) -> Array:
        """Normal deviates with this precision."""
        drawn: Array = dtbtrs(self._factor, noise, uplo="L", trans="T")[0]
        return drawn


@dataclass(frozen=True)
class State:
    """Where the linearisation is: phases and levels at the knots, and the border.

    Attributes:
        knots: values at the knots, one after the other.
        weights: of cosines, sines and constant of each output.
        frequency: of each clock.
        jumps: variance that each step adds to each phase.
    """

    knots: Array
    weights: tuple[Array, ...]
    frequency: Array
    jumps: Array
