"""The search for clocks: their frequencies, how their rates vary, and which outputs share them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deeplfm.terms.clock import STEADIEST, Clock
from deeplfm.terms.cycle import Cycles, Orders, Series, Shape, multiples, tempered, track
from deeplfm.terms.spectrum import matching_pursuit, typical_step

Group = tuple[tuple[int, ...], Cycles]  # outputs, and their cycles on one clock

_FEWEST_CYCLES, _FEW_CYCLES = 1.25, 4.0  # in the record
_STEPS_PER_CYCLE = 6  # of the grid below few cycles
_ROWS_PER_CYCLE = 6
_PEAKS, _DIVISORS = 6, 4  # a fundamental is one of the strongest frequencies, or a fraction of it
_ALIKE = 0.03  # frequencies closer than this lead to the same cycle
_REFINED = 3  # candidates that are looked at closely
_ROUGH = (1, 2, 4)  # harmonics of the first look
_HARMONICS = (8, 16, 32)
_DIFFUSIONS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # radians per cycle
_LASTING = (0.0, 0.03, 0.1, 0.3)  # of the record
_FIRST = (0.3, 0.1)
_FAST_ORDER, _SLOW_ORDER = 12, 2  # of products
_SLOW, _MOST_SLOW = 1.2, 8  # half cycles of the level in one of the clock; in the record
_WORTH_IT = 10.0  # nats of a cycle: it was found among many
_FACTORS, _EMPTY = (2, 2, 3), 0.02  # share of the power that a fraction of a frequency must explain
_PRODUCTS = 0.1  # variance of all products together, before they are fitted
# Least certainty of products that are kept, and the nats by which many of them must lead.
_CERTAIN = {4.0: 0.0, 1.0: -5.0}


def find_cycles(series: Sequence[Series], n_clocks: int = 3) -> Cycles | None:
    """Clocks and shapes of all outputs; ``None`` where no output has a cycle."""
    own = [find_cycle(item) for item in series]
    groups = _grouped(series, own)
    if not groups:
        return None
    groups = sorted(groups, key=lambda group: -group[1].evidence)[:n_clocks]
    return _with_products(series, groups)


def find_cycle(series: Series) -> Cycles | None:
    """The cycle of one series with the highest evidence, where it is worth more than none."""
    rough = [_rough(series, frequency) for frequency in fundamentals(series)]
    rough.sort(key=lambda cycles: cycles.clocks[0].log_prior - cycles.evidence)
    sharp = [_in_lowest_terms(_sharpened([series], item)) for item in rough[:_REFINED]]
    if not sharp:
        return None
    sharp = [track([series], item, n_steps=4) for item in sharp]
    sharp += [steadied([series], item) for item in sharp]
    best = max(sharp, key=lambda cycles: cycles.evidence)
    if best.evidence < _without([series]) + _WORTH_IT:
        return None
    worth = tempered([series], best).shapes[0].row_worth
    sharp = [track([series], _worth(item, worth), n_steps=4) for item in sharp]
    return with_best_priors([series], max(sharp, key=lambda cycles: cycles.evidence))


def _worth(cycles: Cycles, worth: float) -> Cycles:
    """The same cycles with rows of some worth: halves of a frequency fit correlated noise too well."""
    return replace(cycles, shapes=tuple(replace(item, row_worth=worth) for item in cycles.shapes))


def _in_lowest_terms(cycles: Cycles) -> Cycles:
    """Twice or three times the frequency, where other multiples than those of two or three are empty."""
    (clock,), (shape,) = cycles.clocks, cycles.shapes
    for factor in _FACTORS:
        keep = shape.orders[:, 0] % factor == 0
        if not keep.any() or shape.variance[~keep].sum() > _EMPTY * shape.variance.sum():
            continue
        faster = replace(clock, fundamental=factor * clock.fundamental)
        ratio = np.tile(factor * clock.size / faster.size, 2)
        weight = np.append(clock.weight[:-1] * ratio, factor * clock.weight[-1])
        orders, variance = shape.orders[keep] // factor, shape.variance[keep]
        clock, shape = (
            replace(faster, weight=weight),
            replace(shape, orders=orders, variance=variance),
        )
    return replace(cycles, clocks=(clock,), shapes=(shape,))


def steadied(series: Sequence[Series], cycles: Cycles) -> Cycles:
    """The same cycles on clocks that keep time."""
    steady = tuple(clock.with_prior(STEADIEST, 0.0) for clock in cycles.clocks)
    return track(series, replace(cycles, clocks=steady))


def fundamentals(series: Series) -> list[float]:
    """Frequencies to try: with enough cycles in the record, and rows in a cycle."""
    time, value = series
    span = float(np.ptp(time)) if len(time) else 0.0
    if len(time) < 3 * _ROWS_PER_CYCLE or span == 0:
        return []
    cell = 2 * np.pi / span
    grid = cell * np.arange(_FEWEST_CYCLES, _FEW_CYCLES, 1 / _STEPS_PER_CYCLE)
    peaks = matching_pursuit(time, value, _PEAKS).frequency
    parts = np.divide.outer(peaks, np.arange(1, _DIVISORS + 1)).ravel()
    low, high = _FEWEST_CYCLES * cell, 2 * np.pi / (_ROWS_PER_CYCLE * typical_step(time))
    distinct: list[float] = []
    for frequency in (*parts, *grid):
        near = max(_ALIKE * frequency, cell / (2 * _STEPS_PER_CYCLE))
        is_new = all(abs(frequency - other) > near for other in distinct)
        if low <= frequency <= high and is_new:
            distinct.append(float(frequency))
    return distinct


def _rough(series: Series, fundamental: float) -> Cycles:
    """The cycle of some fundamental, with a moderate diffusion and few harmonics."""
    time, _ = series
    clock = Clock.steady(fundamental, float(np.ptp(time)), len(time), *_FIRST)
    n_slow = min(_MOST_SLOW, int(_SLOW * fundamental * clock.span / (2 * np.pi)))
    cycles = Cycles((clock,), (Shape.of(multiples(0), n_slow),))
    for count in _ROUGH:
        cycles = track([series], _with_count(cycles, count), n_steps=6)
    return cycles


def _with_count(cycles: Cycles, count: int) -> Cycles:
    """More harmonics; those that are known keep their variances."""
    shapes = []
    for shape in cycles.shapes:
        new = Shape.of(multiples(count))
        variance = np.append(shape.variance, new.variance[len(shape.variance) :])
        shapes.append(replace(shape, orders=new.orders, variance=variance))
    return replace(cycles, shapes=tuple(shapes))


def _sharpened(series: Sequence[Series], cycles: Cycles) -> Cycles:
    """With as many harmonics as the evidence supports."""
    step = max(typical_step(time) for time, _ in series)
    most = int(np.pi / (cycles.clocks[0].fundamental * step))
    best = cycles
    for count in _HARMONICS:
        count = min(count, most, min(len(time) for time, _ in series) // 4)
        if count <= len(cycles.shapes[0].orders):
            break
        cycles = track(series, _with_count(cycles, count))
        best = max(best, cycles, key=lambda item: item.evidence)
    return best


def with_best_priors(series: Sequence[Series], cycles: Cycles) -> Cycles:
    """The prior of each clock in turn that has the highest evidence, by steps on a grid."""
    best = cycles
    for index, kind in enumerate(cycles.clocks):
        if kind.is_drift:
            continue
        tried = set()
        improved = True
        while improved:
            improved = False
            clock = best.clocks[index]
            here = (_index(_DIFFUSIONS, clock.diffusion), _index(_LASTING, clock.lasting))
            for move in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                place = (here[0] + move[0], here[1] + move[1])
                inside = 0 <= place[0] < len(_DIFFUSIONS) and 0 <= place[1] < len(_LASTING)
                if not inside or place in tried:
                    continue
                tried.add(place)
                other = clock.with_prior(_DIFFUSIONS[place[0]], _LASTING[place[1]])
                clocks = (*best.clocks[:index], other, *best.clocks[index + 1 :])
                found = track(series, replace(best, clocks=clocks))
                if found.evidence > best.evidence:
                    best, improved = found, True
    return best


def _index(grid: tuple[float, ...], value: float) -> int:
    return int(np.argmin([abs(item - value) for item in grid]))


def _without(series: Sequence[Series]) -> float:
    """Evidence of level and slope alone."""
    clock = Clock.steady(1.0, 1.0, 4, *_FIRST)
    nothing = Cycles((clock,), tuple(Shape.of(multiples(0), 2) for _ in series))
    for _ in range(12):  # the noise
        nothing = track(series, nothing, n_steps=1)
    return nothing.evidence - clock.log_prior


def _grouped(series: Sequence[Series], own: Sequence[Cycles | None]) -> list[Group]:
    """Outputs that share a clock, where that is likelier than clocks of their own."""
    groups: list[Group] = [((d,), cycles) for d, cycles in enumerate(own) if cycles is not None]
    is_merged = True
    while is_merged:
        is_merged = False
        for first, second in itertools.combinations(groups, 2):
            together = _together(series, first, second)
            if together.evidence > first[1].evidence + second[1].evidence:
                groups = [group for group in groups if group not in (first, second)]
                groups.append((first[0] + second[0], together))
                is_merged = True
                break
    return groups


def _together(
    series: Sequence[Series],
    first: Group,
    second: Group,
) -> Cycles:
    """All outputs of two groups on the clock of one of them, whichever is likelier."""
    chosen = [series[d] for d in first[0] + second[0]]
    shapes = first[1].shapes + second[1].shapes
    ratio = first[1].clocks[0].weight[-1] / second[1].clocks[0].weight[-1]
    if not 0.9 < ratio < 1.1:
        return Cycles((), ())
    found = [track(chosen, Cycles(item[1].clocks, shapes)) for item in (first, second)]
    return max(found, key=lambda cycles: cycles.evidence)


def _with_products(series: Sequence[Series], groups: Sequence[Group]) -> Cycles:
    """All clocks together; outputs also have multiples and products of the others' clocks, and drift."""
    n_clocks = len(groups) + 1
    clocks = [group[1].clocks[0] for group in groups]
    clocks.append(Clock.drift(max(clock.span for clock in clocks)))
    shapes = [Shape.of(np.zeros((0, n_clocks), dtype=np.int64), _MOST_SLOW) for _ in series]
    for c, (outputs, cycles) in enumerate(groups):
        for d, shape in zip(outputs, cycles.shapes, strict=True):
            orders = np.zeros((len(shape.orders), n_clocks), dtype=np.int64)
            orders[:, c] = shape.orders[:, 0]
            shapes[d] = _widened(replace(shape, orders=orders), c)
    wide = tempered(series, Cycles(tuple(clocks), tuple(shapes)))
    found: list[tuple[float, Cycles]] = []
    for start, certain in itertools.product((wide, steadied(series, wide)), _CERTAIN):
        pruned = tuple(_pruned(shape, certain) for shape in start.shapes)
        item = track(series, replace(start, shapes=pruned))
        found.append((item.evidence + _CERTAIN[certain], item))
    return with_best_priors(series, max(found, key=lambda pair: pair[0])[1])


def _widened(shape: Shape, own: int) -> Shape:
    """With multiples of the other clocks, and sums and differences of its own with each of them.

    The last clock is the drift.
    """
    n_clocks = shape.orders.shape[1]
    added: list[Orders] = []
    for other in range(n_clocks):
        is_drift = other == n_clocks - 1
        for m in range(1, 2 if is_drift else _SLOW_ORDER + 1):
            for k in range(1 if is_drift else 0, min(_FAST_ORDER, len(shape.orders)) + 1):
                for sign in (1, -1) if k else (1,):
                    order = np.zeros(n_clocks, dtype=np.int64)
                    order[own], order[other] = k, sign * m
                    added += [order] if other != own else []
    orders = np.concatenate([shape.orders, *(order[None] for order in added)])
    variance = np.full(len(added), _PRODUCTS / max(1, len(added)))
    return replace(shape, orders=orders, variance=np.append(shape.variance, variance))


def _pruned(shape: Shape, certain: float) -> Shape:
    """Without products that the values do not support."""
    if shape.certainty is None:
        return shape
    is_single = (shape.orders != 0).sum(axis=1) == 1
    keep = is_single | (shape.certainty > certain)
    return replace(shape, orders=shape.orders[keep], variance=shape.variance[keep])
