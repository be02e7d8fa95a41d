"""From rows to a model of clocks: cycles, their phases in the whole record, orders, and the fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from deeplfm.errors import UnsuitableError
from deeplfm.randomness import numpy_for
from deeplfm.statespace.clocks import MOST_TO_SAMPLE, ClocksLFM, series_of
from deeplfm.statespace.phase_fit import (
    Fitted,
    certainty,
    sampled_clocks,
    track,
    with_best_priors,
    with_jumps,
    with_noise_of_residuals,
)
from deeplfm.statespace.phase_solve import Grid, Priors, State, linearise, solve
from deeplfm.statespace.phase_track import track_phase, without_level
from deeplfm.statespace.phases import JITTER, Array, Clock, Orders, Series, Shape
from deeplfm.terms.clock_search import find_cycle, find_cycles
from deeplfm.terms.spectrum import typical_step
from deeplfm.training import Rows

_KNOTS_PER_CYCLE = 4.0
_N_SAMPLES = 8  # of the priors of the clocks
_MOST_TO_LEARN = 2000  # rows, the most recent, whose evidence determines the parameters
_MOST_IN_WINDOW, _N_WINDOWS = 1200, 3  # rows of the search for frequencies
_FACTORS = (1.0, 0.5, 2.0, 3.0, 4.0, 5.0)  # of a frequency that was found
_ALIKE = 0.1
_AS_WELL = (
    1.2,
    0.01,
)  # times the variance left, and more, that a multiple of a frequency may leave
_HARMONICS, _OF_OTHERS = 40, 10  # of an output's own clock; of the others
_FAST_ORDER, _FEW_ORDER, _SLOW_ORDER = 16, 4, 3  # of products
_BELOW_NYQUIST = 0.9
_SHARED = 1.5  # times the residual variance that an output may have on the clock of another
_LEAST_EXPLAINED = 0.3  # of the variance, by a cycle
_CERTAIN = (1.5, 2.0)  # least certainty of products that are kept, first and later
_JUMP = 0.6  # radians, of a first phase


@dataclass(frozen=True)
class Cycle:
    """A cycle of one output in the whole record.

    Attributes:
        frequency: angular, on average.
        width: between the knots of its phase.
        phase: at the knots.
        rate: at the knots.
        left: variance that its harmonics leave, relative.
        score: log density of the values, less what its weights cost.
    """

    frequency: float
    width: float
    phase: Array
    rate: Array
    left: float
    score: float


def build_clocks(rows: Rows, n_clocks: int, seed: int = 0) -> ClocksLFM:
    """A fitted model of the cycles of all outputs."""
    weight = torch.ones(len(rows)) if rows.weight is None else rows.weight
    order = rows.x[:, 0].argsort(stable=True)
    x, y, weight = rows.x[order], rows.y[order], weight[order]
    fitted = fit_clocks(series_of(x, y, weight), n_clocks)
    samples: tuple[tuple[Clock, ...], ...] = ()
    if len(rows) <= MOST_TO_SAMPLE:
        samples = sampled_clocks(fitted, _N_SAMPLES, numpy_for(seed, "start"))
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
        for find in (_by_waves, _by_windows):
            chosen, of_output = find(some, begin, end, n_clocks)
            if chosen:
                found.append((_rough(some, chosen, of_output), chosen, of_output))
    if not found:
        raise UnsuitableError("a cycle that repeats, of six rows at least, in one output")
    fitted, chosen, of_output = max(found, key=lambda item: item[0].evidence)
    for certain in _CERTAIN:
        fitted = with_best_priors(_pruned(fitted, certain), 1)
    if sum(len(item.time) for item in some) == sum(len(item.time) for item in series):
        return fitted
    first, last = _ends([item for item in series if len(item.time)])
    whole = [
        _followed_back(
            cycle,
            [item for item, clock in zip(series, of_output, strict=True) if clock == c],
            begin,
            first,
            last,
        )
        for c, cycle in enumerate(chosen)
    ]
    grid = _grid(series, whole)
    return _of_all(grid, fitted, _start(grid, whole, of_output)[1])


def _ends(series: Sequence[Series]) -> tuple[float, float]:
    begin = min(float(item.time[0]) for item in series)
    return begin, max(float(item.time[-1]) for item in series)


def _grid(series: Sequence[Series], chosen: Sequence[Cycle]) -> Grid:
    """Knots over the rows, some in each cycle of the fastest clock."""
    begin, end = _ends([item for item in series if len(item.time)])
    width = 2 * np.pi / max(cycle.frequency for cycle in chosen) / _KNOTS_PER_CYCLE
    return Grid(series, begin, width, max(2, int(np.ceil((end - begin) / width)) + 1))


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


def _by_waves(
    series: Sequence[Series], begin: float, end: float, n_clocks: int
) -> tuple[list[Cycle], list[int | None]]:
    """Clocks of the last rows, found together with their shapes."""
    waves = find_cycles([(item.time, item.value) for item in series], n_clocks)
    if waves is None:
        return [], []
    of_output: list[int | None] = []
    clocks = [c for c, clock in enumerate(waves.clocks) if not clock.is_drift]
    for shape in waves.shapes:
        power = [float(shape.variance[shape.orders[:, c] != 0].sum()) for c in clocks]
        of_output.append(int(np.argmax(power)) if max(power, default=0.0) > 0 else None)
    chosen = []
    for c in clocks:
        frequency = float(waves.clocks[c].weight[-1])
        width = 2 * np.pi / frequency / _KNOTS_PER_CYCLE
        count = max(2, int(np.ceil((end - begin) / width)) + 1)
        phase = waves.clocks[c].phase(np.clip(begin + width * np.arange(count), begin, end))
        rate = np.gradient(phase, width)
        chosen.append(Cycle(frequency, width, phase, rate, 0.0, 0.0))
    return chosen, of_output


def _by_windows(
    series: Sequence[Series], begin: float, end: float, n_clocks: int
) -> tuple[list[Cycle], list[int | None]]:
    """Cycles of each output followed from several windows, which a skip leaves whole."""
    own = [find_own(item, begin, end) if len(item.time) > 1 else None for item in series]
    return _shared(series, own, begin, n_clocks)


def _followed_back(
    cycle: Cycle, series: Sequence[Series], since: float, begin: float, end: float
) -> Cycle:
    """A cycle that is known since some time, in the whole record."""
    count = max(2, int(np.ceil((end - begin) / cycle.width)) + 1)
    time = begin + cycle.width * np.arange(count)
    known = since + cycle.width * np.arange(len(cycle.phase))
    start = np.where(time >= since, np.interp(time, known, cycle.phase), np.nan)
    track = track_phase(series, cycle.frequency, begin, cycle.width, count, start, 2)
    return replace(cycle, phase=track[0], rate=track[1])


def find_own(series: Series, begin: float, end: float) -> Cycle | None:
    """The cycle of one output: frequencies of some windows, each followed through the record."""
    n_rows = len(series.time)
    length = min(n_rows, _MOST_IN_WINDOW)
    starts = {n_rows - length}
    starts |= {int(s) for s in np.linspace(0, n_rows - length // 2, _N_WINDOWS)}
    found: list[tuple[float, float]] = []
    for start in sorted(starts, reverse=True):
        some = slice(start, start + (length if start == n_rows - length else length // 2))
        waves = find_cycle((series.time[some], series.value[some]))
        if waves is not None:
            middle = float(np.median(series.time[some]))
            found.append((float(waves.clocks[0].weight[-1]), middle))
    step = typical_step(series.time)
    tried: list[float] = []
    cycles: list[Cycle] = []
    for (frequency, middle), factor in itertools.product(found, _FACTORS):
        wanted = factor * frequency
        is_new = all(abs(wanted / other - 1) > _ALIKE for other in tried)
        if is_new and 2 * np.pi / wanted > 5 * step and wanted * (end - begin) > 2.5 * np.pi:
            tried.append(wanted)
            cycles.append(_followed(series, wanted, middle, begin, end))
    cycles = [cycle for cycle in cycles if cycle.left < 1 - _LEAST_EXPLAINED]
    return _in_lowest_terms(cycles) if cycles else None


def _in_lowest_terms(cycles: Sequence[Cycle]) -> Cycle:
    """The best cycle, or one of two or three times its frequency that leaves hardly more."""
    least = min(cycle.left for cycle in cycles)
    times, more = _AS_WELL
    left = [cycle for cycle in cycles if cycle.left < 3 * least + more]
    best = max(left, key=lambda cycle: cycle.score)
    for cycle in sorted(left, key=lambda cycle: cycle.frequency):
        ratio = cycle.frequency / best.frequency
        is_multiple = round(ratio) in (2, 3) and abs(ratio / round(ratio) - 1) < _ALIKE
        if is_multiple and cycle.left < times * best.left + more:
            best = cycle
    return best


def _followed(series: Series, frequency: float, middle: float, begin: float, end: float) -> Cycle:
    """The cycle of a frequency, which is known in few cycles and is continued from there."""
    width = 2 * np.pi / frequency / _KNOTS_PER_CYCLE
    count = int(np.ceil((end - begin) / width)) + 1
    time = begin + width * np.arange(count)
    start = np.where(np.abs(time - middle) < 6 * np.pi / frequency, frequency * time, np.nan)
    phase, rate, density = track_phase([series], frequency, begin, width, count, start)
    cycle = Cycle(float(np.median(rate)), width, phase, rate, 1.0, 0.0)
    left, n_weights = _left(series, cycle, begin)
    n_levels = 2 * frequency * (end - begin) / (2 * np.pi)  # what the mean of a period takes out
    score = density - 0.5 * (n_weights + n_levels) * math.log(len(series.time))
    return replace(cycle, left=left, score=score)


def _left(series: Series, cycle: Cycle, begin: float) -> tuple[float, int]:
    """Relative variance that the harmonics of a cycle leave of the values without their level."""
    value = without_level(series, 2 * np.pi / cycle.frequency).value
    knots = begin + cycle.width * np.arange(len(cycle.phase))
    phase = np.interp(series.time, knots, cycle.phase)
    highest = _BELOW_NYQUIST * np.pi / typical_step(series.time) / cycle.frequency
    count = int(np.clip(highest, 1, _FAST_ORDER))
    angle = np.outer(phase, np.arange(1, count + 1))
    columns = np.column_stack([np.cos(angle), np.sin(angle)])
    gram = columns.T @ columns + 1e-3 * len(phase) * np.eye(2 * count)
    rest = value - columns @ np.linalg.solve(gram, columns.T @ value)
    return float(rest.var() / max(series.value.var(), 1e-12)) + 1e-6, 2 * count


def _shared(
    series: Sequence[Series], own: Sequence[Cycle | None], begin: float, n_clocks: int
) -> tuple[list[Cycle], list[int | None]]:
    """Clocks, and that of each output: its own, or another's where that explains it as well."""
    chosen: list[Cycle] = []
    of_output: list[int | None] = [None] * len(series)
    ranked = sorted(
        (d for d, cycle in enumerate(own) if cycle is not None),
        key=lambda d: own[d].left,  # type: ignore[union-attr]
    )
    for d in ranked:
        cycle = own[d]
        assert cycle is not None
        for c, other in enumerate(chosen):
            is_near = abs(other.frequency / cycle.frequency - 1) < _ALIKE
            if is_near and _left(series[d], other, begin)[0] < _SHARED * cycle.left + 0.02:
                of_output[d] = c
        if of_output[d] is None and len(chosen) < n_clocks:
            chosen.append(cycle)
            of_output[d] = len(chosen) - 1
    return chosen, of_output


def orders_of(own: int | None, frequencies: Array, nyquist: float) -> Orders:
    """Multiples of an output's clock and of the others, and products of two clocks."""
    n_clocks = len(frequencies)
    found: set[tuple[int, ...]] = set()

    def add(**terms: int) -> None:
        order = np.zeros(n_clocks, dtype=np.int64)
        for name, times in terms.items():
            order[int(name[1:])] = times
        if 0 < abs(order @ frequencies) < _BELOW_NYQUIST * nyquist:
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
            Shape(orders, variance, 0.1 * spread + 1e-6, grid.width / 4, 0.01, 10 * grid.width, 0.5)
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
