"""Fit of cycles on clocks whose rate varies: phases, shapes, and their priors by the evidence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from deeplfm.statespace.phase_solve import (
    Grid,
    Local,
    Posterior,
    Priors,
    Sample,
    State,
    linearise,
    moved,
    solve,
)
from deeplfm.statespace.phases import Array, Clock, Shape

_FEWEST_ROWS = 3  # of an output, by which its noise is known
_SHORTEST_STEP = 2e-3  # radians; after a shorter one the search ends
_LEAST_VARIANCE = 1e-8  # of a weight
_BOUNDS = {  # of the parameters that the evidence chooses, in log; times in units of a knot's width
    "std": (1e-4, 0.3),
    "lasting": (4.0, 1e4),
    "noise": (1e-6, 10.0),
    "colour": (0.02, 1e2),
    "level": (1e-5, 3.0),
    "level lasting": (0.5, 1e3),
    "damping": (0.03, 1.0),
}
_NATS, _STEADIEST, _MANY = 3.0, 0.003, 10.0
_LEAST_STD = 0.002  # around which the grid of a steady clock is laid
_STD, _LASTING = np.arange(-2.4, 2.5, 0.6), (0.0, -0.8, 0.8)  # of the grid, in log
_AMPLITUDES = (0.003, 0.01, 0.03, 0.1, 0.3)  # standard deviations of their logarithms, of the grid
_AMPLITUDE_LASTING = (4.0, 8.0, 16.0)  # in knots
_WHITE = 0.2  # of a step between rows: noise that lasts no longer is white
_DEGREES = 1.0  # of freedom of Student's t of jumps
_JUMP = 0.003  # radians: its scale


@dataclass(frozen=True)
class Fitted:
    """Cycles at their posterior."""

    grid: Grid
    priors: Priors
    state: State
    local: list[Local]
    posterior: Posterior

    @property
    def evidence(self) -> float:
        """Log density of the values (Laplace)."""
        return self.posterior.evidence


def track(
    grid: Grid, priors: Priors, state: State, n_steps: int = 12, learn: bool = True
) -> Fitted:
    """Steps of Gauss and Newton; each also updates the variances of the weights."""
    for _ in range(n_steps):
        local = linearise(grid, priors, state)
        posterior = solve(grid, priors, local, state.jumps)
        state, longest = moved(grid, priors, state, posterior.state)
        if learn:
            priors = _learned(priors, posterior)
        if longest < _SHORTEST_STEP:
            break
    local = linearise(grid, priors, state)
    return Fitted(grid, priors, state, local, solve(grid, priors, local, state.jumps))


def _learned(priors: Priors, posterior: Posterior) -> Priors:
    """Variances of the weights that raise the evidence (expectation maximisation)."""
    variances, first, shapes = np.diag(posterior.covariance), 0, []
    for shape, weights in zip(priors.shapes, posterior.state.weights, strict=True):
        count = len(shape.orders)
        spread = variances[first : first + len(weights)]
        square = weights**2 + spread
        both = (square[:count] + square[count : 2 * count]) / 2
        shapes.append(replace(shape, variance=np.maximum(both, _LEAST_VARIANCE)))
        first += len(weights)
    return replace(priors, shapes=tuple(shapes))


def certainty(fitted: Fitted, output: int) -> Array:
    """Square of each amplitude over its posterior variance."""
    variances = np.diag(fitted.posterior.covariance)
    first = sum(len(item) for item in fitted.state.weights[:output])
    count = len(fitted.priors.shapes[output].orders)
    square = fitted.posterior.state.weights[output] ** 2
    spread = variances[first : first + len(square)]
    return (square[:count] + square[count : 2 * count]) / (
        spread[:count] + spread[count : 2 * count]
    )


def with_jumps(fitted: Fitted) -> State:
    """Variances of jumps of the phases, by Student's t at the most likely phases."""
    knots = fitted.grid.knots(fitted.priors)
    if not knots.clocks:
        return fitted.state
    states = fitted.state.knots.reshape(-1, knots.size)
    found = np.empty_like(fitted.state.jumps)
    for c, clock in enumerate(knots.clocks):
        pair = states[:, 2 * c : 2 * c + 2]
        jump = clock.rate.transition(np.array([knots.width]))[0]
        gained = float(clock.rate.innovation(np.array([knots.width]))[0, 0, 0])
        away = pair[1:, 0] - pair[:-1] @ jump[0]
        now = fitted.state.jumps[:, c]
        share = now / (now + gained)
        square = (share * away) ** 2 + share * gained
        found[:, c] = (_DEGREES * _JUMP**2 + square) / (_DEGREES + 1)
    return replace(fitted.state, jumps=found)


def with_best_priors(fitted: Fitted, n_sweeps: int = 2) -> Fitted:
    """Parameters that raise the evidence; the linearisation is renewed in between."""
    for _ in range(n_sweeps):
        priors = fitted.priors
        shapes = tuple(_best_shape(fitted, d) for d in range(len(priors.shapes)))
        fitted = replace(fitted, priors=replace(priors, shapes=shapes))
        fitted = track(fitted.grid, fitted.priors, fitted.state, 3)
        fitted = _with_best_clocks(fitted)
        fitted = track(fitted.grid, fitted.priors, with_jumps(fitted), 3)
    return fitted


def with_noise_of_residuals(fitted: Fitted) -> Fitted:
    """Variance and correlation time of the noise as the residuals suggest."""
    shapes = []
    for shape, local in zip(fitted.priors.shapes, fitted.local, strict=True):
        if len(local.residual) < _FEWEST_ROWS:
            shapes.append(shape)
            continue
        used = min(2 * len(shape.orders) + 1, len(local.residual) // 2)
        square = float(local.residual @ local.residual)
        variance = max(square / (len(local.residual) - used), 1e-6)
        kept = float(local.residual[1:] @ local.residual[:-1]) / (square or 1.0)
        kept = min(max(kept, 0.01), 0.99)
        colour = -float(np.median(local.steps)) / math.log(kept)
        shapes.append(replace(shape, noise=variance, colour=colour))
    return track(fitted.grid, replace(fitted.priors, shapes=tuple(shapes)), fitted.state, 4)


def _own(fitted: Fitted, output: int) -> Local:
    """The problem of one output where the phases are known."""
    local, state = fitted.local[output], fitted.state
    knots = fitted.grid.knots(fitted.priors)
    n_clocks = len(knots.clocks)
    is_own = np.zeros(knots.size, dtype=bool)
    is_own[2 * knots.level(output) : 2 * knots.level(output) + 4] = True
    chosen = np.tile(is_own, knots.count)
    last = local.by_border.shape[1] - n_clocks
    known = local.by_knots[:, ~chosen] @ state.knots[~chosen]
    known = known + local.by_border[:, last:] @ state.frequency
    return Local(
        local.residual,
        local.by_knots[:, chosen].tocsr(),
        local.by_border[:, :last],
        local.target - known,
        local.steps,
        local.weight,
    )


def _best_shape(fitted: Fitted, output: int) -> Shape:
    """Noise and level of one output, the phases known."""
    grid, shape = fitted.grid, fitted.priors.shapes[output]
    local, none = _own(fitted, output), np.zeros((grid.count - 1, 0))
    names = ("noise", "colour", "level", "lasting", "damping")
    scale = np.array([1.0, grid.width, 1.0, grid.width, 1.0])

    def changed(logs: Array) -> Shape:
        values = np.exp(logs) * scale
        values[0] *= values[1] / (1 + values[1] / grid.width) / grid.width  # diffusion of the noise
        noise, colour, level, lasting, damping = map(float, values)
        return replace(
            shape, noise=noise, colour=colour, level=level, lasting=lasting, damping=damping
        )

    def loss(logs: Array) -> float:
        priors = Priors((), (changed(logs),))
        own = solve(grid, priors, [local], none).evidence
        return -own - log_prior(priors, grid.width, grid.span)

    start = np.array([getattr(shape, name) for name in names]) / scale
    start[0] /= start[1] / (1 + start[1])
    bounds = [_BOUNDS[key] for key in ("noise", "colour", "level", "level lasting", "damping")]
    white = _WHITE * float(np.median(local.steps)) / grid.width if len(local.steps) else np.inf
    bounds[1] = (min(bounds[1][0], white), bounds[1][1])
    found = minimize(
        loss,
        np.log(start),
        method="L-BFGS-B",
        bounds=np.log(bounds),
        options={"maxiter": 8, "eps": 1e-4},
    )
    return changed(found.x)


def _with_best_clocks(fitted: Fitted) -> Fitted:
    """How the rate of each clock varies, in turn."""
    grid, priors = fitted.grid, fitted.priors
    best = fitted.evidence + log_prior(priors, grid.width, grid.span)
    for index, clock in enumerate(priors.clocks):
        size = 1.2
        while size > 0.2:
            is_better = False
            clock = priors.clocks[index]
            for std, lasting in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                changed = replace(
                    clock,
                    std=_within("std", clock.std * math.exp(size * std)),
                    lasting=_within(
                        "lasting", clock.lasting * math.exp(size * lasting), grid.width
                    ),
                )
                other = replace(priors, clocks=_at(priors.clocks, index, changed))
                local = linearise(grid, other, fitted.state) if lasting else fitted.local
                found = solve(grid, other, local, fitted.state.jumps)
                total = found.evidence + log_prior(other, grid.width, grid.span)
                if total > best + 0.1:
                    best, priors, is_better = total, other, True
                    break
            if not is_better:
                size /= 2
    return replace(fitted, priors=priors)


def sampled_priors(
    fitted: Fitted, n_samples: int, generator: np.random.Generator
) -> tuple[Sample, ...]:
    """Priors of clocks and amplitudes drawn from their posterior on grids, each by itself.

    One prior alone would be too sure of how far phase and amplitude may move.
    """
    grid, priors = fitted.grid, fitted.priors
    clocks, amplitudes = [], []
    for index, clock in enumerate(priors.clocks):
        tried, scores = [], []
        center = max(clock.std, _LEAST_STD)
        for lasting, std in itertools.product(_LASTING, _STD):
            changed = replace(
                clock,
                std=_within("std", center * math.exp(std)),
                lasting=_within("lasting", clock.lasting * math.exp(lasting), grid.width),
            )
            other = replace(priors, clocks=_at(priors.clocks, index, changed))
            local = linearise(grid, other, fitted.state) if lasting else fitted.local
            found = solve(grid, other, local, fitted.state.jumps).evidence
            tried.append(changed)
            scores.append(found - _lasting_cost(changed))
        clocks.append(_drawn(tried, scores, n_samples, generator))
    for output in range(len(priors.shapes)):
        amplitudes.append(_drawn(*_amplitudes(fitted, output), n_samples, generator))
    by_output = zip(*amplitudes, strict=True)
    return tuple(Sample(*both) for both in zip(zip(*clocks, strict=True), by_output, strict=True))


def with_amplitudes(fitted: Fitted) -> Fitted:
    """Amplitudes that vary as much as the evidence of each output asks for."""
    shapes = []
    for output, shape in enumerate(fitted.priors.shapes):
        tried, scores = _amplitudes(fitted, output)
        variance, lasting = tried[int(np.argmax(scores))]
        shapes.append(replace(shape, amplitude=variance, amplitude_lasting=lasting))
    priors = replace(fitted.priors, shapes=tuple(shapes))
    return track(fitted.grid, priors, fitted.state, 6)


def _amplitudes(fitted: Fitted, output: int) -> tuple[list[tuple[float, float]], list[float]]:
    """Variances and time constants of an amplitude, and their log probabilities, the phases known."""
    grid, shape = fitted.grid, fitted.priors.shapes[output]
    local, none = _own(fitted, output), np.zeros((grid.count - 1, 0))
    tried, scores = [], []
    for std, lasting in itertools.product(_AMPLITUDES, _AMPLITUDE_LASTING):
        changed = replace(shape, amplitude=std**2, amplitude_lasting=lasting * grid.width)
        found = solve(grid, Priors((), (changed,)), [local], none).evidence
        tried.append((changed.amplitude, changed.amplitude_lasting))
        scores.append(found)
    return tried, scores


def _drawn(
    tried: Sequence[Any], scores: Sequence[float], n_samples: int, generator: np.random.Generator
) -> list[Any]:
    """Some of them, in proportion to their probability."""
    weight = np.exp(np.array(scores) - max(scores))
    reached = np.cumsum(weight) / weight.sum()
    level = (np.arange(n_samples) + generator.uniform()) / n_samples
    places = np.minimum(np.searchsorted(reached, level), len(tried) - 1)
    return [tried[place] for place in generator.permutation(places)]


def _lasting_cost(clock: Clock) -> float:
    return 0.5 * (math.log(clock.lasting * clock.frequency / (2 * np.pi) / 5) / 1.5) ** 2


def _within(name: str, value: float, unit: float = 1.0) -> float:
    low, high = _BOUNDS[name]
    return float(min(max(value, low * unit), high * unit))


def _at(items: tuple, index: int, item: object) -> tuple:
    return (*items[:index], item, *items[index + 1 :])


def log_prior(priors: Priors, width: float, span: float) -> float:
    """Of the parameters: wide, and a steady clock is likelier than one that is not."""
    total = 0.0
    for clock in priors.clocks:
        n_cycles = clock.frequency * span / (2 * np.pi)
        nats = _NATS * max(1.0, _MANY / n_cycles)  # few cycles cannot show how they differ
        total -= nats * math.log10(max(clock.diffusion / _STEADIEST, 1.0))
        total -= _lasting_cost(clock)
    for shape in priors.shapes:
        total -= 0.5 * (math.log(shape.level / 0.01) / 2.5) ** 2
        total -= 0.5 * (math.log(shape.colour / width) / 2.0) ** 2
        total -= 0.5 * (math.log(shape.lasting / width / 10) / 1.5) ** 2
        total -= 0.5 * math.log(shape.damping / 0.7) ** 2
        total -= 0.5 * (math.log(shape.noise / 0.01) / 3.0) ** 2
    return total
