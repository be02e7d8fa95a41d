r"""Cycles: series that are functions of the phases of few clocks.

    y_d(t) = Σ_k a_dk cos(k·φ(t)) + b_dk sin(k·φ(t)) + level(t),

where φ(t) are the phases of all clocks and k are vectors of whole numbers: multiples of one clock, and
sums and differences of two, where one cycle modulates another as breathing does the pulse. The level is a
constant, a slope, and waves slower than the clocks. Given the phases all this is linear and its posterior
is known; the phases are found by Gauss–Newton steps, the rest eliminated. The variances of the noise, of
the level and of each pair of coefficients maximise the evidence (Laplace).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deeplfm.terms.clock import Clock
from deeplfm.terms.spectrum import Array

Orders = NDArray[np.int64]  # K × clocks
Series = tuple[Array, Array]

_STEPS = 12  # of Gauss and Newton
_LONGEST_STEP, _SHORTEST_STEP = 0.5, 2e-3  # radians; after a shorter one the search ends
_LEAST_VARIANCE, _LEAST_NOISE = 1e-8, 1e-6  # of a coefficient, and of the noise
_LEVEL_VARIANCE = 10.0  # of level and slope
_LEAST_WORTH = 0.05
_FORECAST_SCALE = 2.0  # of the prior beyond the rows, over the one within: cycles are few


@dataclass(frozen=True)
class Shape:
    """One output as a function of the phases.

    Attributes:
        orders: the vectors k.
        variance: prior variance of the coefficients of each.
        n_slow: number of waves of the level; wave j has j half cycles in the record.
        slow: prior variance of the slowest of them; the variance falls as in a random walk.
        noise: variance of the noise.
        row_worth: independent rows that a row is worth; below 1 where residuals repeat each other.
        amplitude: of each, found with the phases.
        certainty: square of each amplitude over its posterior variance.
    """

    orders: Orders
    variance: Array
    n_slow: int = 0
    slow: float = 0.1
    noise: float = 0.1
    row_worth: float = 1.0
    amplitude: Array | None = None
    certainty: Array | None = None

    @classmethod
    def of(cls, orders: Orders, n_slow: int = 0) -> Shape:
        """A shape whose coefficients have the same variance."""
        return cls(orders, np.full(len(orders), 1 / max(1, len(orders))), n_slow)

    @property
    def profile(self) -> Array:
        """Variances of the waves of the level, relative to the slowest."""
        return np.tile(np.arange(1.0, self.n_slow + 1) ** -2, 2)

    @property
    def prior(self) -> Array:
        """Prior variances of cosines, sines, constant and slope, and waves of the level."""
        level = [_LEVEL_VARIANCE] * 2
        return np.concatenate([self.variance, self.variance, level, self.slow * self.profile])


@dataclass(frozen=True)
class Cycles:
    """Clocks, the shapes of all outputs on them, and what they leave of the values.

    Attributes:
        clocks: one for each phase.
        shapes: one for each output.
        residual: what is left of the values of each output, its level included.
        noise: the same without the level.
        evidence: logarithm of the density of all values, and of the prior of the clocks.
    """

    clocks: tuple[Clock, ...]
    shapes: tuple[Shape, ...]
    residual: tuple[Array, ...] = ()
    noise: tuple[Array, ...] = ()
    evidence: float = -math.inf


def multiples(count: int, clock: int = 0, n_clocks: int = 1) -> Orders:
    """The vectors k of the first harmonics of one clock."""
    orders = np.zeros((count, n_clocks), dtype=np.int64)
    orders[:, clock] = np.arange(1, count + 1)
    return orders


def tempered(series: Sequence[Series], cycles: Cycles) -> Cycles:
    """The same with the worth of rows that the residuals suggest, (1 − ρ)/(1 + ρ).

    ρ is the correlation of neighbouring residuals. The likelihood is raised to this power; evidences of
    different powers cannot be compared.
    """
    found = track(series, cycles, n_steps=2)
    shapes = []
    for shape, residual in zip(found.shapes, found.noise, strict=True):
        square = float(residual @ residual) or 1.0
        rho = float(residual[1:] @ residual[:-1]) / square
        worth = float(np.clip((1 - rho) / (1 + rho), _LEAST_WORTH, 1.0))
        shapes.append(replace(shape, row_worth=worth))
    return track(series, replace(found, shapes=tuple(shapes)), n_steps=2)


def track(series: Sequence[Series], cycles: Cycles, n_steps: int = _STEPS) -> Cycles:
    """Gauss–Newton steps of the phases, with the best shapes of each; then the evidence."""
    clocks, shapes = cycles.clocks, cycles.shapes
    basis = [[clock.columns(time) for clock in clocks] for time, _ in series]
    expected = np.concatenate([clock.expected for clock in clocks])
    precision = np.concatenate([clock.precision for clock in clocks])
    weight = np.concatenate([clock.weight for clock in clocks])
    ends = np.cumsum([len(clock.weight) for clock in clocks])[:-1]
    for step in range(n_steps + 1):
        parts = np.split(weight, ends)
        local = [
            _near(*item) for item in zip(series, basis, shapes, [parts] * len(series), strict=True)
        ]
        shapes = tuple(item.learned() for item in local)
        hessian = np.diag(precision) + sum(item.information for item in local)
        if step == n_steps:
            break
        gradient = sum(item.gradient for item in local) - precision * (weight - expected)
        change = np.linalg.solve(hessian, gradient)
        changes = np.split(change, ends)
        longest = max(
            float(np.abs(columns @ part).max(initial=0.0))
            for item in basis
            for columns, part in zip(item, changes, strict=True)
        )
        if longest < _SHORTEST_STEP:
            break
        weight = weight + change * min(1.0, _LONGEST_STEP / longest)
    away = weight - expected
    occam = np.linalg.slogdet(hessian)[1] - np.log(precision).sum()
    evidence = sum(item.evidence for item in local) - 0.5 * float(away @ (precision * away) + occam)
    evidence += sum(clock.log_prior for clock in clocks)
    known = sum(item.curvature for item in local) + np.diag(precision) / _FORECAST_SCALE**2
    covariance = np.asarray(np.linalg.inv(known), dtype=np.float64)
    found = []
    for clock, begin, end in zip(clocks, (0, *ends), (*ends, len(weight)), strict=True):
        own = slice(int(begin), int(end))
        found.append(replace(clock, weight=weight[own], covariance=covariance[own, own]))
    return Cycles(
        tuple(found),
        shapes,
        tuple(item.rest for item in local),
        tuple(item.residual for item in local),
        float(evidence),
    )


@dataclass(frozen=True)
class _Local:
    """One output, linearised at some phases, its shape at the best for them.

    Attributes:
        shape: with the variances that were used.
        coefficient: of cosines, sines, level and slope.
        spread: their posterior variances.
        residual: what is left of each row.
        rest: the same with the level.
        curvature: Jᵀ J / noise, by the weights of all phases, the shape known.
        information: the same, the shape unknown.
        gradient: Jᵀ residual / noise.
        evidence: of the values given the phases.
    """

    shape: Shape
    coefficient: Array
    spread: Array
    residual: Array
    rest: Array
    curvature: Array
    information: Array
    gradient: Array
    evidence: float

    def learned(self) -> Shape:
        """The shape with variances that raise the evidence (expectation maximisation)."""
        shape, count = self.shape, len(self.shape.orders)
        squares = self.coefficient**2
        both = squares[:count] + squares[count : 2 * count]
        spread = self.spread[:count] + self.spread[count : 2 * count]
        n_used = float((1 - self.spread / shape.prior).sum())
        n_rows = len(self.residual)
        n_free = max(n_rows - n_used / shape.row_worth, 0.5 * n_rows, 1.0)
        noise = float(self.residual @ self.residual) / n_free
        slow = slice(2 * count + 2, None)
        level = (squares[slow] + self.spread[slow]) / shape.profile
        return replace(
            shape,
            slow=max(float(level.mean()), _LEAST_VARIANCE) if shape.n_slow else shape.slow,
            variance=np.maximum((both + spread) / 2, _LEAST_VARIANCE),
            noise=max(noise, _LEAST_NOISE),
            amplitude=np.sqrt(both),
            certainty=both / np.maximum(spread, 1e-300),
        )


def _near(series: Series, basis: list[Array], shape: Shape, weights: list[Array]) -> _Local:
    (time, value), orders = series, shape.orders
    noise = shape.noise / shape.row_worth
    phases = np.column_stack([columns @ part for columns, part in zip(basis, weights, strict=True)])
    angle = phases @ orders.T
    cosine, sine = np.cos(angle), np.sin(angle)
    begin, end = (float(time.min()), float(time.max())) if len(time) else (0.0, 1.0)
    span = (end - begin) or 1.0
    slow = np.pi / span * np.outer(time - begin, np.arange(1, shape.n_slow + 1))
    design = np.column_stack([cosine, sine, np.ones_like(time), time, np.cos(slow), np.sin(slow)])
    prior = shape.prior
    gram = design.T @ design / noise + np.diag(1 / prior)
    inverse = np.linalg.inv(gram)
    coefficient = inverse @ (design.T @ value) / noise
    residual = value - design @ coefficient
    count = len(orders)
    slope = cosine * coefficient[count : 2 * count] - sine * coefficient[:count]  # by k·φ
    by_clock = slope @ orders
    level = design[:, 2 * count :] @ coefficient[2 * count :]
    jacobian = np.column_stack([by_clock[:, [c]] * columns for c, columns in enumerate(basis)])
    cross = design.T @ jacobian / noise
    curvature = jacobian.T @ jacobian / noise
    fit = shape.row_worth * len(time) * math.log(2 * np.pi * shape.noise)
    fit += float(residual @ residual) / noise
    occam = np.linalg.slogdet(gram)[1] + np.log(prior).sum()
    return _Local(
        shape,
        coefficient,
        np.diag(inverse).copy(),
        residual,
        residual + level,
        curvature,
        curvature - cross.T @ inverse @ cross,
        jacobian.T @ residual / noise,
        -0.5 * float(fit + (coefficient**2 / prior).sum() + occam),
    )
