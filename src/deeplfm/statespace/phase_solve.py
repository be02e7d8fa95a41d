r"""Posterior of phases, shapes and levels of cycles, by steps of Gauss and Newton.

With knots x (phases, rates and levels), border β (weights of the shapes and frequencies) and the values
linearised, y ≈ f + J δx + G δβ, the precision of all is

    [[A, B], [Bᵀ, S]],  A = P + JᵀC⁻¹J,  B = JᵀC⁻¹G,  S = D⁻¹ + GᵀC⁻¹G,

where A has few bands. So δβ is solved from S − BᵀA⁻¹B, and δx given δβ from A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from deeplfm.statespace.phases import (
    Array,
    Clock,
    Factor,
    Knots,
    Series,
    Shape,
    Smooth,
    State,
    design,
)

_LONGEST_STEP, _SHORTEST_STEP = 0.5, 2e-3  # radians; after a shorter one the search ends
SKIP = 0.5  # radians: what counts as a skip of a clock
_IN_SKIP = 0.01  # rows that a row within one stands for
_CLOSEST = 1e-3  # of a knot: rows that are closer have the noise of this distance
_MOST_KEPT = 40
_RESOLUTION = 1.0  # prior standard deviation of a frequency, in cells 2π / span


@dataclass(frozen=True)
class Priors:
    """Clocks and shapes: all that the evidence chooses."""

    clocks: tuple[Clock, ...]
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Sample:
    """Clocks, and for each output variance and time constant of its amplitude, drawn together."""

    clocks: tuple[Clock, ...]
    amplitudes: tuple[tuple[float, float], ...]

    def within(self, priors: Priors) -> Priors:
        """Priors with these in place of their own."""
        shapes = tuple(
            replace(shape, amplitude=variance, amplitude_lasting=lasting)
            for shape, (variance, lasting) in zip(priors.shapes, self.amplitudes, strict=True)
        )
        return Priors(self.clocks, shapes)


class Grid:
    """Rows of all outputs, and a grid of knots over them."""

    def __init__(self, series: Sequence[Series], begin: float, width: float, count: int) -> None:
        self.series, self.begin, self.width, self.count = tuple(series), begin, width, count
        self.span = width * (count - 1)
        self._columns: dict[tuple[tuple[float, ...], int, int, int], sp.csr_matrix] = {}

    def knots(self, priors: Priors) -> Knots:
        """The processes at the knots."""
        return Knots(self.begin, self.width, self.count, priors.clocks, priors.shapes)

    def columns(self, knots: Knots, output: int, process: int) -> sp.csr_matrix:
        """How the rows of an output depend on the states of a process."""
        law = knots.processes[process]
        rest = (law.lasting, law.damping) if isinstance(law, Smooth) else (law.rate,)
        key = (rest, output, process, knots.size)
        if key not in self._columns:
            if len(self._columns) > _MOST_KEPT:
                self._columns.clear()
            self._columns[key] = knots.columns(self.series[output].time, process)
        return self._columns[key]

    def place(self, time: Array) -> NDArray[np.intp]:
        """The last knot before each time."""
        place = np.floor((time - self.begin) / self.width).astype(np.intp)
        return np.clip(place, 0, self.count - 2)

    def is_skip(self, time: Array, jumps: Array) -> NDArray[np.bool_]:
        """Rows between knots where a clock skips: the phase there is not known well."""
        has_skip = np.asarray((jumps > SKIP**2).any(axis=1))
        return np.asarray(has_skip[self.place(time)], dtype=bool)

    def phases(self, knots: Knots, state: State, output: int) -> Array:
        """Phases of all clocks at the rows of an output."""
        since = self.series[output].time - self.begin
        moved = [self.columns(knots, output, c) @ state.knots for c in range(len(knots.clocks))]
        return np.multiply.outer(since, state.frequency) + np.column_stack(moved)


@dataclass(frozen=True)
class Local:
    """One output, linearised: target ≈ J x + G β.

    Attributes:
        residual: of the rows.
        by_knots: J.
        by_border: G: of its own weights, and of all frequencies.
        target: the values that the linear model is to explain.
        steps: times between the rows; infinite across a gap, where the noise is independent.
        weight: how many rows each stands for.
    """

    residual: Array
    by_knots: sp.csr_matrix
    by_border: Array
    target: Array
    steps: Array
    weight: Array
    _sums: dict[float, tuple] = field(default_factory=dict)

    def sums(self, colour: float) -> tuple[sp.csr_matrix, Array, Array, Array, Array, float, float]:
        """JᵀC⁻¹J, JᵀC⁻¹G, GᵀC⁻¹G, JᵀC⁻¹y, GᵀC⁻¹y, yᵀC⁻¹y and log |C|, for noise of variance one."""
        if colour not in self._sums:
            if len(self._sums) > 6:
                self._sums.clear()
            whiten, log_determinant = sp.csr_matrix((0, 0)), 0.0
            if len(self.weight):
                whiten, log_determinant = whitening(self.steps, colour)
                whiten = whiten @ sp.diags(np.sqrt(self.weight))
            log_determinant -= float(np.log(self.weight).sum())
            knots, border, target = (
                whiten @ item for item in (self.by_knots, self.by_border, self.target)
            )
            turned = knots.T.tocsr()
            self._sums[colour] = (
                (turned @ knots).tocsr(),
                turned @ border,
                border.T @ border,
                turned @ target,
                border.T @ target,
                float(target @ target),
                log_determinant,
            )
        return self._sums[colour]


def whitening(steps: Array, colour: float) -> tuple[sp.csr_matrix, float]:
    """T with T C Tᵀ = I for C of an Ornstein–Uhlenbeck process of variance one; and log |C|."""
    n_rows = len(steps) + 1
    if colour == 0 or not len(steps):
        return sp.identity(n_rows, format="csr"), 0.0
    kept = np.exp(-steps / colour)
    left = np.sqrt(-np.expm1(-2 * steps / colour))
    matrix = sp.diags([np.append(1.0, 1 / left), -kept / left], [0, -1], format="csr")
    return matrix, float(2 * np.log(left).sum())


def linearise(grid: Grid, priors: Priors, state: State) -> list[Local]:
    """All outputs at a state."""
    knots, found = grid.knots(priors), []
    for d, (series, shape) in enumerate(zip(grid.series, priors.shapes, strict=True)):
        phase = grid.phases(knots, state, d)
        columns, cosine, sine = design(phase, shape.orders)
        weights, count = state.weights[d], len(shape.orders)
        level = grid.columns(knots, d, knots.level(d))
        log_amplitude = grid.columns(knots, d, knots.level(d) + 1)
        amplitude = np.exp(log_amplitude @ state.knots)[:, None]
        cosine, sine = amplitude * cosine, amplitude * sine
        columns[:, :-1] *= amplitude
        slope = cosine * weights[count : 2 * count] - sine * weights[:count]
        by_clock = slope @ shape.orders
        since = series.time - grid.begin
        fitted = columns @ weights
        by_knots = level + sp.diags(columns[:, :-1] @ weights[:-1]) @ log_amplitude
        for c in range(len(priors.clocks)):
            by_knots = by_knots + sp.diags(by_clock[:, c]) @ grid.columns(knots, d, c)
        residual = series.value - fitted - level @ state.knots
        border = np.column_stack([columns, by_clock * since[:, None]])
        target = residual + by_knots @ state.knots
        target = target + border @ np.append(weights, state.frequency)
        steps = np.maximum(np.diff(series.time), _CLOSEST * grid.width)
        steps[np.diff(grid.place(series.time)) > 1] = np.inf  # few bands: not across a gap
        weight = series.weight * np.where(grid.is_skip(series.time, state.jumps), _IN_SKIP, 1.0)
        found.append(Local(residual, by_knots.tocsr(), border, target, steps, weight))
    return found


@dataclass(frozen=True)
class Posterior:
    """Gaussian posterior of a linearised problem.

    Attributes:
        state: its mean.
        factor: of A.
        through: A⁻¹B.
        root: Cholesky factor of S − BᵀA⁻¹B.
        covariance: of the border.
        evidence: log density of the values.
    """

    state: State
    factor: Factor
    through: Array
    root: Array
    covariance: Array
    evidence: float

    def draw(self, generator: np.random.Generator, n_draws: int) -> tuple[Array, Array]:
        """Deviations of border and knots from their means, one in each column."""
        n_knots, n_border = self.through.shape
        noise = generator.standard_normal((n_border, n_draws))
        border = solve_triangular(self.root, noise, lower=True, trans="T")
        knots = self.factor.draw(generator.standard_normal((n_knots, n_draws)))
        return border, knots - self.through @ border


def border_prior(grid: Grid, priors: Priors) -> tuple[Array, Array]:
    """Expected border and its precision: weights of each output, then the frequencies."""
    frequency = np.array([item.frequency for item in priors.clocks])
    variance = np.concatenate([shape.prior for shape in priors.shapes])
    cell = (_RESOLUTION * 2 * np.pi / grid.span) ** 2
    expected = np.append(np.zeros(len(variance)), frequency)
    return expected, 1 / np.append(variance, np.full(len(frequency), cell))


def solve(grid: Grid, priors: Priors, local: Sequence[Local], jumps: Array) -> Posterior:
    """The posterior of a problem that is linearised."""
    knots = grid.knots(priors)
    precision, log_prior = knots.prior(jumps)
    expected, border_precision = border_prior(grid, priors)
    n_border, n_clocks = len(expected), len(knots.clocks)
    own = precision.copy()
    cross = np.zeros((precision.shape[0], n_border))
    gram = np.diag(border_precision)
    right, right_border = np.zeros(precision.shape[0]), border_precision * expected
    fit, first = 0.0, 0
    places = []
    for shape, item in zip(priors.shapes, local, strict=True):
        jj, jg, gg, jy, gy, yy, log_noise = item.sums(shape.colour)
        last = first + item.by_border.shape[1] - n_clocks
        place = np.r_[first:last, n_border - n_clocks : n_border]
        places.append(slice(first, last))
        own = own + jj / shape.noise
        cross[:, place] += jg / shape.noise
        gram[np.ix_(place, place)] += gg / shape.noise
        right += jy / shape.noise
        right_border[place] += gy / shape.noise
        n_rows = len(item.target)
        fit += n_rows * math.log(2 * np.pi * shape.noise) + log_noise + yy / shape.noise
        first = last
    factor = Factor(own, 3 * knots.size)
    through = factor.solve(cross)
    alone = factor.solve(right)
    left = gram - cross.T @ through
    root = np.asarray(np.linalg.cholesky((left + left.T) / 2), dtype=np.float64)
    moment = right_border - cross.T @ alone
    border = cho_solve((root, True), moment)
    state = alone - through @ border
    fit += float(border_precision @ expected**2) - np.log(border_precision).sum()
    fit += factor.log_determinant - log_prior + 2 * np.log(np.diag(root)).sum()
    fit -= float(right @ alone) + float(moment @ border)
    weights = tuple(border[place] for place in places)
    found = State(state, weights, border[n_border - n_clocks :], jumps)
    covariance = cho_solve((root, True), np.eye(n_border))
    return Posterior(found, factor, through, root, covariance, -0.5 * fit)


def moved(grid: Grid, priors: Priors, old: State, new: State) -> tuple[State, float]:
    """A state nearer to a new one: phases change by half a radian at most."""
    knots = grid.knots(priors)
    size, n_clocks = knots.size, len(knots.clocks)
    change = (new.knots - old.knots).reshape(-1, size)[:, : 2 * n_clocks : 2]
    change = change + np.outer(knots.time - grid.begin, new.frequency - old.frequency)
    longest = float(np.abs(change).max(initial=0.0))
    share = min(1.0, _LONGEST_STEP / max(longest, 1e-12))
    weights = tuple(a + share * (b - a) for a, b in zip(old.weights, new.weights, strict=True))
    return (
        State(
            old.knots + share * (new.knots - old.knots),
            weights,
            old.frequency + share * (new.frequency - old.frequency),
            new.jumps,
        ),
        longest,
    )
