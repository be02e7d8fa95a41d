"""From rows to a model of clocks: cycles, their phases in the whole record, orders, and the fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from deeplfm.errors import UnsuitableError
from deeplfm.randomness import numpy_for
from deeplfm.statespace.clock_paths import series_of
from deeplfm.statespace.clocks import MOST_TO_SAMPLE, ClocksLFM
from deeplfm.statespace.phase_fit import (
    Fitted,
    certainty,
    sampled_priors,
    track,
    with_amplitudes,
    with_best_priors,
    with_jumps,
    with_noise_of_residuals,
)
from deeplfm.statespace.phase_solve import Grid, Priors, Sample, State, linearise, solve
from deeplfm.statespace.phase_track import without_level
from deeplfm.statespace.phases import JITTER, Array, Clock, Orders, Series, Shape, design
from deeplfm.terms.clock_cycles import (
    ALIKE,
    BELOW_NYQUIST,
    KNOTS_PER_CYCLE,
    Cycle,
    by_waves,
    by_windows,
    can_be_followed,
    find_own,
    followed_back,
    n_knots,
)
from deeplfm.terms.spectrum import typical_step
from deeplfm.training import Rows

_N_SAMPLES = 8  # of the priors of the clocks
_MOST_TO_LEARN = 2000  # rows, the most recent, whose evidence determines the parameters
_HARMONICS, _OF_OTHERS = 40, 10  # of an output's own clock; of the others
_FAST_ORDER, _FEW_ORDER, _SLOW_ORDER = 16, 4, 3  # of products
_CERTAIN = (1.5, 2.0)  # least certainty of products that are kept, first and later
_SLOWER = 2.0  # times slower than an output's own clock: that of a modulation
_JUMP = 0.6  # radians, of a first phase
_AMPLITUDE = 1e-8  # variance of the logarithm of an amplitude, before the evidence decides


def build_clocks(rows: Rows, n_clocks: int, seed: int = 0) -> ClocksLFM:
    """A fitted model of the cycles of all outputs."""
    weight = torch.ones(len(rows)) if rows.weight is None else rows.weight
    order = rows.x[:, 0].argsort(stable=True)
    x, y, weight = rows.x[order], rows.y[order], weight[order]
    fitted = fit_clocks(series_of(x, y, weight), n_clocks)
    samples: tuple[Sample, ...] = ()
    if len(rows) <= MOST_TO_SAMPLE:
        samples = sampled_priors(fitted, _N_SAMPLES, numpy_for(seed, "start"))
    return ClocksLFM.of(fitted, x, y, weight, samples)


def fit_clocks(series: Sequence[Series], n_clocks: int = 3) -> Fitted:
    """Clocks, shapes and phases of all outputs; refused where no output has a cycle.

    The last rows determine the parameters; in a longer record the phases are then followed back.
    """
    some = _recent(series)
    known = [item for item in some if len(item.time) > 1]
    found: list[tuple[Fitted, list[Cycle], list[int | None]]] = []
    if known:
        begin, end = _ends(known)
        for find in (by_waves, by_windows):
            chosen, of_output = find(some, begin, end, n_clocks)
            for item in _merged(chosen, of_output) if chosen else ():
                found.append((_rough(some, *item), *item))
    if not found:
        raise UnsuitableError("a cycle that repeats, of six rows at least, in one output")
    fitted, chosen, of_output = max(found, key=lambda item: item[0].evidence)
    more, slower = _with_slower(fitted, chosen, of_output, n_clocks)
    fitted = _refined(fitted)
    if len(slower) > len(chosen):
        more = _refined(more)
        if more.evidence > fitted.evidence:
            fitted, chosen = more, slower
    if sum(len(item.time) for item in some) == sum(len(item.time) for item in series):
        return fitted
    first, last = _ends([item for item in series if len(item.time)])
    if not all(can_be_followed(cycle.frequency, series, first, last) for cycle in chosen):
        raise UnsuitableError("rows without a gap of thousands of cycles")
    whole = [
        followed_back(cycle, _carriers(series, chosen, of_output, c), begin, first, last)
        for c, cycle in enumerate(chosen)
    ]
    grid = _grid(series, whole)
    return _of_all(grid, fitted, _start(grid, whole, of_output)[1])


def _carriers(
    series: Sequence[Series], chosen: Sequence[Cycle], of_output: Sequence[int | None], clock: int
) -> list[Series]:
    """The outputs that follow a clock; or, of a slower one, the levels of those with faster clocks."""
    pairs = list(zip(series, of_output, strict=True))
    if clock in of_output:
        return [item for item, own in pairs if own == clock]
    periods = [(item, 2 * np.pi / chosen[own].frequency) for item, own in pairs if own is not None]
    return [
        item._replace(value=item.value - without_level(item, period).value)
        for item, period in periods
        if len(item.time) > 1
    ]


def _refined(fitted: Fitted) -> Fitted:
    """Without needless orders, and with the parameters that the evidence prefers."""
    for certain in _CERTAIN:
        fitted = with_best_priors(_pruned(fitted, certain), 1)
    return with_amplitudes(fitted)


def _merged(
    chosen: list[Cycle], of_output: list[int | None]
) -> list[tuple[list[Cycle], list[int | None]]]:
    """The clocks as they are; and, where two have one frequency, with one in place of both."""
    found = [(chosen, of_output)]
    for first, second in itertools.combinations(range(len(chosen)), 2):
        if abs(chosen[second].frequency / chosen[first].frequency - 1) < ALIKE:
            place = [c - (c > second) if c != second else first for c in range(len(chosen))]
            fewer = [cycle for c, cycle in enumerate(chosen) if c != second]
            found.append((fewer, [c if c is None else place[c] for c in of_output]))
    return found


def _with_slower(
    fitted: Fitted, chosen: list[Cycle], of_output: list[int | None], n_clocks: int
) -> tuple[Fitted, list[Cycle]]:
    """Slower clocks in what an output's own clock leaves, as breathing in a pulse, by the evidence."""
    series = fitted.grid.series
    for output, own in enumerate(of_output):
        if own is None or len(chosen) >= n_clocks:
            continue
        below = chosen[own].frequency / _SLOWER
        left = _unexplained(fitted, output)
        cycle = find_own(left, *_ends(series), below)
        if cycle is None or _is_known(cycle, chosen):
            continue
        more = _rough(series, [*chosen, cycle], of_output)
        if more.evidence > fitted.evidence:
            fitted, chosen = more, [*chosen, cycle]
    return fitted, chosen


def _is_known(cycle: Cycle, chosen: Sequence[Cycle]) -> bool:
    return any(abs(cycle.frequency / other.frequency - 1) < ALIKE for other in chosen)


def _unexplained(fitted: Fitted, output: int) -> Series:
    """The values of an output without the multiples and products of its clocks."""
    grid, priors, state = fitted.grid, fitted.priors, fitted.state
    series = grid.series[output]
    phases = grid.phases(grid.knots(priors), state, output)
    basis = design(phases, priors.shapes[output].orders)[0]
    return series._replace(value=series.value - basis[:, :-1] @ state.weights[output][:-1])


def _ends(series: Sequence[Series]) -> tuple[float, float]:
    begin = min(float(item.time[0]) for item in series)
    return begin, max(float(item.time[-1]) for item in series)


def _grid(series: Sequence[Series], chosen: Sequence[Cycle]) -> Grid:
    """Knots over the rows, some in each cycle of the fastest clock."""
    begin, end = _ends([item for item in series if len(item.time)])
    width = 2 * np.pi / max(cycle.frequency for cycle in chosen) / KNOTS_PER_CYCLE
    return Grid(series, begin, width, n_knots(begin, end, width))


def _rough(
    series: Sequence[Series], chosen: Sequence[Cycle], of_output: Sequence[int | None]
) -> Fitted:
    """A fit from some first phases, with all orders."""
    grid = _grid(series, chosen)
    priors, state = _start(grid, chosen, of_output)
    fitted = track(grid, priors, _with_shapes(grid, priors, state), 8)
    for _ in range(3):
        fitted = with_noise_of_residuals(fitted)
        fitted = track(grid, fitted.priors, with_jumps(fitted), 2)
    return fitted


def orders_of(own: int | None, frequencies: Array, nyquist: float) -> Orders:
    """Multiples of an output's clock and of the others, and products of two clocks."""
    n_clocks = len(frequencies)
    found: set[tuple[int, ...]] = set()

    def add(**terms: int) -> None:
        order = np.zeros(n_clocks, dtype=np.int64)
        for name, times in terms.items():
            order[int(name[1:])] = times
        if 0 < abs(order @ frequencies) < BELOW_NYQUIST * nyquist:
            found.add(tuple(int(times) for times in order))

    for c in range(n_clocks):
        most = _HARMONICS if own in (c, None) else _OF_OTHERS
        for k in range(1, most + 1):
            add(**{f"c{c}": k})
    for fast, slow in itertools.permutations(range(n_clocks), 2):
        if own not in (fast, slow) or frequencies[fast] < frequencies[slow]:
            continue
        most = _FAST_ORDER if own == fast else _FEW_ORDER
        for k, m in itertools.product(range(1, most + 1), range(1, _SLOW_ORDER + 1)):
            add(**{f"c{fast}": k, f"c{slow}": m})
            add(**{f"c{fast}": k, f"c{slow}": -m})
    return np.array(sorted(found), dtype=np.int64).reshape(-1, n_clocks)


def _start(
    grid: Grid, chosen: Sequence[Cycle], of_output: Sequence[int | None]
) -> tuple[Priors, State]:
    """Wide priors, and the phases as they were followed."""
    time = grid.begin + grid.width * np.arange(grid.count)
    clocks, phases, jumps = [], [], []
    for cycle in chosen:
        own = grid.begin + cycle.width * np.arange(len(cycle.phase))
        phase = np.interp(time, own, cycle.phase)
        expected = np.interp(time, own, cycle.rate)
        frequency = float(np.mean(expected))
        clocks.append(Clock(frequency, 0.02, 10 * np.pi / frequency))
        rest = np.diff(phase) - (expected[1:] + expected[:-1]) / 2 * grid.width
        is_jump = np.abs(rest) > _JUMP * min(1.0, grid.width / cycle.width)
        phases.append((phase - phase[0], expected - frequency))
        jumps.append(np.where(is_jump, np.maximum(rest**2, 1.0), JITTER))
    frequencies = np.array([clock.frequency for clock in clocks])
    shapes, weights = [], []
    for d, item in enumerate(grid.series):
        nyquist = np.pi / typical_step(item.time) if len(item.time) > 1 else np.inf
        orders = orders_of(of_output[d], frequencies, min(nyquist, 100 * frequencies.max()))
        variance = 0.1 / (1 + (orders**2).sum(axis=1))
        spread = float(item.value.var()) if len(item.value) else 1.0
        shapes.append(
            Shape(
                orders,
                variance,
                noise=0.1 * spread + 1e-6,
                colour=grid.width / 4,
                level=0.01,
                lasting=10 * grid.width,
                damping=0.5,
                amplitude=_AMPLITUDE,
                amplitude_lasting=4 * grid.width,
            )
        )
        weights.append(np.zeros(2 * len(orders) + 1))
    priors = Priors(tuple(clocks), tuple(shapes))
    size = grid.knots(priors).size
    knots = np.zeros((grid.count, size))
    for c, (phase, moved) in enumerate(phases):
        knots[:, 2 * c] = phase - frequencies[c] * (time - grid.begin)
        knots[:, 2 * c + 1] = moved
    state = State(knots.ravel(), tuple(weights), frequencies, np.column_stack(jumps))
    return priors, state


def _with_shapes(grid: Grid, priors: Priors, state: State) -> State:
    """The state with the best shapes of its phases."""
    posterior = solve(grid, priors, linearise(grid, priors, state), state.jumps)
    return replace(state, weights=posterior.state.weights)


def _pruned(fitted: Fitted, certain: float) -> Fitted:
    """Without orders that the values do not support; low multiples stay."""
    shapes, weights = [], []
    for d, shape in enumerate(fitted.priors.shapes):
        is_low = ((shape.orders != 0).sum(axis=1) == 1) & (np.abs(shape.orders).sum(axis=1) <= 2)
        keep = is_low | (certainty(fitted, d) > certain)
        old, count = fitted.state.weights[d], len(keep)
        parts = (old[:count][keep], old[count : 2 * count][keep], old[-1:])
        weights.append(np.concatenate(parts))
        shapes.append(replace(shape, orders=shape.orders[keep], variance=shape.variance[keep]))
    priors = replace(fitted.priors, shapes=tuple(shapes))
    return track(fitted.grid, priors, replace(fitted.state, weights=tuple(weights)), 6)


def _recent(series: Sequence[Series]) -> Sequence[Series]:
    """The last rows of a long record; all of another."""
    long = [item for item in series if len(item.time) > _MOST_TO_LEARN]
    if not long:
        return series
    since = max(item.time[-_MOST_TO_LEARN] for item in long)
    return [Series(*(part[item.time >= since] for part in item)) for item in series]


def _of_all(grid: Grid, learned: Fitted, state: State) -> Fitted:
    """The learned parameters, and phases of all rows."""
    zeros = tuple(np.zeros(len(shape.prior)) for shape in learned.priors.shapes)
    state = _with_shapes(grid, learned.priors, replace(state, weights=zeros))
    fitted = track(grid, learned.priors, state, 6, learn=False)
    return track(grid, learned.priors, with_jumps(fitted), 4, learn=False)
