"""First phases of the cycles of all outputs, and which of them share a clock."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deeplfm.statespace.phase_track import track_phase, without_level
from deeplfm.statespace.phases import Array, Series
from deeplfm.terms.clock_search import find_cycle, find_cycles
from deeplfm.terms.spectrum import typical_step

KNOTS_PER_CYCLE = 4.0
BELOW_NYQUIST = 0.9
ALIKE = 0.1  # frequencies closer than this are of one cycle
_MOST_IN_WINDOW, _N_WINDOWS = 1200, 3  # rows of the search for frequencies
_FACTORS = (1.0, 0.5, 2.0, 3.0, 4.0, 5.0)  # of a frequency that was found
_AS_WELL = (1.2, 0.01)  # times the variance left, and more, that a multiple may leave
_SHARED = 1.5  # times the residual variance that an output may have on the clock of another
_LEAST_EXPLAINED = 0.3  # of the variance, by a cycle
_MOST_HARMONICS = 16
_KNOTS_PER_ROW, _SPARE_KNOTS = 4, 1000  # beyond which most knots are far from any row


@dataclass(frozen=True)
class Cycle:
    """A cycle of one output in the whole record."""

    frequency: float
    width: float
    phase: Array
    rate: Array
    left: float  # variance that its harmonics leave, relative
    score: float  # log density of the values, less what its weights cost


def n_knots(begin: float, end: float, width: float) -> int:
    """Knots from the first row to the last."""
    return max(2, int(np.ceil((end - begin) / width)) + 1)


def can_be_followed(frequency: float, series: Sequence[Series], begin: float, end: float) -> bool:
    """Whether rows are near enough of the cycles: in a gap of thousands the phase is lost anyway."""
    n_rows = sum(len(item.time) for item in series)
    wanted = frequency * (end - begin) / (2 * np.pi) * KNOTS_PER_CYCLE
    return bool(wanted < _KNOTS_PER_ROW * n_rows + _SPARE_KNOTS)


def by_waves(
    series: Sequence[Series], begin: float, end: float, n_clocks: int
) -> tuple[list[Cycle], list[int | None]]:
    """Clocks of the last rows, found together with their shapes."""
    waves = find_cycles([(item.time, item.value) for item in series], n_clocks)
    if waves is None:
        return [], []
    of_output: list[int | None] = []
    clocks = [
        c
        for c, clock in enumerate(waves.clocks)
        if not clock.is_drift and can_be_followed(clock.weight[-1], series, begin, end)
    ]
    for shape in waves.shapes:
        power = [float(shape.variance[shape.orders[:, c] != 0].sum()) for c in clocks]
        of_output.append(int(np.argmax(power)) if max(power, default=0.0) > 0 else None)
    chosen = []
    for c in clocks:
        frequency = float(waves.clocks[c].weight[-1])
        width = 2 * np.pi / frequency / KNOTS_PER_CYCLE
        count = n_knots(begin, end, width)
        phase = waves.clocks[c].phase(np.clip(begin + width * np.arange(count), begin, end))
        rate = np.gradient(phase, width)
        chosen.append(Cycle(frequency, width, phase, rate, 0.0, 0.0))
    return chosen, of_output


def by_windows(
    series: Sequence[Series], begin: float, end: float, n_clocks: int
) -> tuple[list[Cycle], list[int | None]]:
    """Cycles of each output followed from several windows, which a skip leaves whole."""
    own = [find_own(item, begin, end) if len(item.time) > 1 else None for item in series]
    return _shared(series, own, begin, n_clocks)


def followed_back(
    cycle: Cycle, series: Sequence[Series], since: float, begin: float, end: float
) -> Cycle:
    """A cycle that is known since some time, in the whole record."""
    count = n_knots(begin, end, cycle.width)
    time = begin + cycle.width * np.arange(count)
    known = since + cycle.width * np.arange(len(cycle.phase))
    start = np.where(time >= since, np.interp(time, known, cycle.phase), np.nan)
    track = track_phase(series, cycle.frequency, begin, cycle.width, count, start, 2)
    return replace(cycle, phase=track[0], rate=track[1])


def find_own(series: Series, begin: float, end: float, below: float = math.inf) -> Cycle | None:
    """The cycle of one output: frequencies of some windows, each followed through the record.

    Only frequencies below a highest one are followed: a fast clock that may jump follows any smooth
    curve.
    """
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
        is_new = all(abs(wanted / other - 1) > ALIKE for other in tried)
        is_new = is_new and can_be_followed(wanted, [series], begin, end)
        is_slow = wanted < min(below, 2 * np.pi / (5 * step))
        if is_new and is_slow and wanted * (end - begin) > 2.5 * np.pi:
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
        is_multiple = round(ratio) in (2, 3) and abs(ratio / round(ratio) - 1) < ALIKE
        if is_multiple and cycle.left < times * best.left + more:
            best = cycle
    return best


def _followed(series: Series, frequency: float, middle: float, begin: float, end: float) -> Cycle:
    """The cycle of a frequency, which is known in few cycles and is continued from there."""
    width = 2 * np.pi / frequency / KNOTS_PER_CYCLE
    count = n_knots(begin, end, width)
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
    highest = BELOW_NYQUIST * np.pi / typical_step(series.time) / cycle.frequency
    count = int(np.clip(highest, 1, _MOST_HARMONICS))
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
    known = [(d, cycle) for d, cycle in enumerate(own) if cycle is not None]
    for d, cycle in sorted(known, key=lambda item: item[1].left):
        for c, other in enumerate(chosen):
            is_near = abs(other.frequency / cycle.frequency - 1) < ALIKE
            if is_near and _left(series[d], other, begin)[0] < _SHARED * cycle.left + 0.02:
                of_output[d] = c
        if of_output[d] is None and len(chosen) < n_clocks:
            chosen.append(cycle)
            of_output[d] = len(chosen) - 1
    return chosen, of_output
