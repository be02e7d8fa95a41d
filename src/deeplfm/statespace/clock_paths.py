"""Rows, longer records, and what goes on after the last row, for a model of clocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Tensor

from deeplfm.statespace.phase_fit import Fitted
from deeplfm.statespace.phase_solve import Grid, Priors, State
from deeplfm.statespace.phases import JITTER, Array, Knots, Series


def series_of(x: Tensor, y: Tensor, weight: Tensor) -> list[Series]:
    """Known rows of each output, in the order of time."""
    found = []
    for d in range(y.shape[1]):
        known = ~y[:, d].isnan() & (weight > 0)
        parts = (x[known, 0], y[known, d], weight[known])
        found.append(Series(*(part.double().cpu().numpy() for part in parts)))
    return found


def extended(grid: Grid, priors: Priors, state: State) -> State:
    """A state with more knots, where the clocks go on and the levels stay."""
    laws = grid.knots(priors)
    old = state.knots.reshape(-1, laws.size)
    n_more = grid.count - len(old)
    if n_more <= 0:
        return state
    more = np.repeat(old[-1:], n_more, axis=0)
    step = grid.width * np.arange(1.0, n_more + 1)
    for index, law in enumerate(laws.processes):
        some = slice(2 * index, 2 * index + 2)
        more[:, some] = law.transition(step) @ old[-1, some]
    jumps = np.full((n_more, state.jumps.shape[1]), JITTER)
    return replace(
        state,
        knots=np.concatenate([old, more]).ravel(),
        jumps=np.concatenate([state.jumps, jumps]),
    )


def beyond(laws: Knots, knots: Array, n_more: int, generator: np.random.Generator) -> Array:
    """Paths, one in each column, that go on after their last knot as the processes do.

    The deviates of a knot do not depend on how many follow.
    """
    if n_more == 0:
        return knots
    size, n_paths = laws.size, knots.shape[1]
    noise = generator.standard_normal((n_more, size, n_paths))
    found = np.empty((n_more, size, n_paths))
    step = np.array([laws.width])
    for index, law in enumerate(laws.processes):
        some = slice(2 * index, 2 * index + 2)
        kept, gained = law.transition(step)[0], law.innovation(step)[0]
        values, vectors = np.linalg.eigh(gained)
        moved = (vectors * np.sqrt(np.maximum(values, 0.0))) @ noise[:, some]
        pair = knots[-size:][some]
        for place in range(n_more):
            pair = kept @ pair + moved[place]
            found[place, some] = pair
    return np.concatenate([knots, found.reshape(-1, n_paths)])


def jumps_ahead(ahead: Array, hazard: float, generator: np.random.Generator) -> Array:
    """Skips after the last row, to anywhere in the cycle."""
    moved = np.zeros_like(ahead)
    if hazard == 0:
        return moved
    at, reach = generator.exponential(1 / hazard), float(ahead.max(initial=0.0))
    while at < reach:
        moved += generator.uniform(0, 2 * np.pi) * (ahead > at)
        at += generator.exponential(1 / hazard)
    return moved


def noise_at(fitted: Fitted, asked: Array) -> tuple[Array, Array]:
    """Noise of rows near known ones, given theirs: its mean, and the share of its variance that is left.

    At a known time it is the noise of another observation.
    """
    mean = np.zeros((len(asked), len(fitted.priors.shapes)))
    share = np.ones_like(mean)
    for d, (shape, local) in enumerate(zip(fitted.priors.shapes, fitted.local, strict=True)):
        time, residual = fitted.grid.series[d].time, local.residual
        if shape.colour == 0 or not len(time):
            continue
        after = np.searchsorted(time, asked)
        before = np.clip(after - 1, 0, len(time) - 1)
        next_ = np.minimum(after, len(time) - 1)
        is_known = time[next_] == asked
        away = [np.maximum(asked - time[before], 0), np.maximum(time[next_] - asked, 0)]
        left, right = (np.exp(-distance / shape.colour) for distance in away)
        left = np.where(after > 0, left, 0.0)
        right = np.where(after < len(time), right, 0.0)
        both = np.where(is_known, 1.0, 1 - (left * right) ** 2)
        gain = [left * (1 - right**2) / both, right * (1 - left**2) / both]
        by_both = gain[0] * residual[before] + gain[1] * residual[next_]
        rest = 1 - gain[0] * left - gain[1] * right
        mean[:, d] = np.where(is_known, 0.0, by_both)
        share[:, d] = np.where(is_known, 1.0, np.maximum(rest, 1e-6))
    return mean, share
