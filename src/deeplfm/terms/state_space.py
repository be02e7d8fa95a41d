"""Sums of trend, season, level and covariates, in state-space form."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from deeplfm.statespace import (
    OtherOutputsLFM,
    SeasonConfig,
    SharedForcesLFM,
    StateSpaceConfig,
    StateSpaceLFM,
)
from deeplfm.statespace.others import with_others
from deeplfm.terms.base import BuildContext, Term
from deeplfm.terms.covariates import Covariates
from deeplfm.terms.initial import Array, all_series, resolved_step, span_of, typical_step
from deeplfm.terms.local_level import LocalLevel, MeanReversion, Trend
from deeplfm.terms.located import located, with_sinusoids
from deeplfm.terms.other_outputs import OtherOutputs
from deeplfm.terms.season import Season, Series, find_season, frequency_of, fundamental_of
from deeplfm.terms.shared_forces import SharedForces
from deeplfm.terms.sinusoids import Sinusoids
from deeplfm.training import Rows
from deeplfm.training.interruption import stop_requested, time_left, within

_FEWEST_CYCLES = 1.5  # of a season in the record
_FEWEST_TO_EVOLVE = 3.0  # cycles, from which on a season may change
_MOST_HARMONICS, _MOST_EVOLVING = 12, 6  # of a given period; of the first season
_N_DRAWS = 8  # of the parameters; many rows determine them
_MOST_TO_EVOLVE = 5_000  # rows, the last ones, of a season that changes: more take too much time
_MOST_OTHERS, _NEAR = 2, 0.02  # frequencies of other outputs; how near to a multiple is a multiple
_SIDEBANDS = 4  # harmonics of a season that differ from cycle to cycle of a longer one
_MOST_LONG = 10  # harmonics of a longer season that is no multiple of a shorter one
_WHOLE, _MOST_CYCLES = 0.02, 20  # off a whole multiple; of a season in a longer one
_ROUNDING = 1e-6
_CARRIER = 0.9  # of the power
_FOUND: dict[tuple[bytes, int], tuple[float, ...]] = {}  # frequencies by a digest of their series
_MOST_FOUND = 1000


def build_state_space(terms: Sequence[Term], rows: Rows, context: BuildContext) -> StateSpaceLFM:
    """A fitted state-space model of some terms."""
    kinds = {type(term): term for term in terms}
    season, is_long = kinds.get(Season), len(rows) > _MOST_TO_EVOLVE
    evolves = isinstance(season, Season) and season.evolves
    if is_long and evolves:
        rows = rows.take(rows.x[:, 0].argsort(stable=True)[-_MOST_TO_EVOLVE:])
    span = span_of(rows)
    time = np.unique(rows.x[:, 0].double().cpu().numpy())
    step = typical_step(time) if len(time) > 1 else span
    n_outputs = rows.y.shape[1]
    seasons: list[tuple[SeasonConfig, ...]] = [()] * n_outputs
    if isinstance(season, Season):
        resolved = resolved_step(time) if len(time) > 1 else span
        n_evolving = _MOST_EVOLVING if evolves else 0
        seasons = [
            _configs(frequencies, most, n_evolving, resolved, span, step if season.period else None)
            for frequencies, most in _frequencies(season, rows, context)
        ]
    lines = kinds.get(Sinusoids)
    if isinstance(lines, Sinusoids):
        seasons = with_sinusoids(seasons, rows, lines.n)
    config = StateSpaceConfig(
        n_inputs=rows.x.shape[1],
        begin=float(time[0]),
        step=step,
        span=span,
        has_slope=Trend in kinds,
        has_level=LocalLevel() in terms,
        has_damped_level=LocalLevel(damped=True) in terms,
        has_reversion=MeanReversion in kinds,
        n_draws=1 if is_long else _N_DRAWS,
        prior=context.prior,
        is_recent=is_long and evolves,
    )
    configs = [replace(config, seasons=item) for item in seasons]
    shared = kinds.get(SharedForces)
    model = StateSpaceLFM(configs)
    if isinstance(shared, SharedForces) and n_outputs > 1:
        model = SharedForcesLFM(configs, n_forces=shared.n)
    elif OtherOutputs in kinds and n_outputs > 1:
        model = OtherOutputsLFM([with_others(item, n_outputs) for item in configs])
    model.set_train_data(rows.x, rows.y, rows.weight, error=rows.error)
    is_found = isinstance(season, Season) and season.period is None
    locate = partial(located, is_found=is_found)
    model.fit(context.seed, context.near, locate, by_prior=context.n_steps == 0)
    return model


def _frequencies(
    season: Season, rows: Rows, context: BuildContext
) -> list[tuple[list[float], int]]:
    """Of the periods that a term names, or that are found, for each output; how many harmonics at most.

    The first season of an output is its own. Those of the other outputs may modulate it, as breathing
    does the pulse.
    """
    if season.period is not None:
        periods = season.period if isinstance(season.period, tuple) else (season.period,)
        frequencies = [frequency_of(period, context) or 0.0 for period in periods]
        most = min(season.n_harmonics, _MOST_HARMONICS)
        return [(sorted(frequencies, reverse=True), most)] * rows.y.shape[1]
    series = all_series(Covariates().unexplained(rows))
    own: list[tuple[float, ...]] = []
    with within(time_left() / 2):
        for pair in series:  # those that no time is left for have the season of the one before
            is_late = own and stop_requested()
            own.append(own[-1] if is_late else _cycles(pair, season.n_harmonics))
    fundamentals = [frequencies[-1] for frequencies in own]
    return [
        ([*frequencies, *_others(frequencies, fundamentals)], season.n_harmonics)
        for frequencies in own
    ]


def _cycles(series: Series, most: int) -> tuple[float, ...]:
    """Frequency of a season, after that of a shorter one which it modulates, as breathing does the pulse.

    They are kept: several sums ask for those of the same rows.
    """
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in series)
    key = hashlib.sha256(content).digest(), most
    if key not in _FOUND:
        if len(_FOUND) >= _MOST_FOUND:
            _FOUND.clear()
        found = find_season([series], most)
        fundamental = fundamental_of(found)
        _FOUND[key] = (*_modulated(fundamental, found[0].amplitude ** 2), fundamental)
    return _FOUND[key]


def _modulated(fundamental: float, power: Array) -> list[float]:
    """The frequency of a shorter season, of which nearly all power is in the multiples."""
    for order in range(len(power), 1, -1):
        if power[order - 1 :: order].sum() >= _CARRIER * power.sum():
            return [order * fundamental]
    return []


def _others(own: Sequence[float], all_of_them: Sequence[float]) -> list[float]:
    """Frequencies of other outputs that are no multiples of an output's own, nor it of them."""
    found: list[float] = []
    for other in all_of_them:
        is_new = all(_is_apart(other, known) for known in (*own, *found))
        if other and own[0] and is_new:
            found.append(other)
    return found[:_MOST_OTHERS]


def _is_apart(one: float, other: float) -> bool:
    ratio = max(one, other) / (min(one, other) or 1.0)
    return abs(ratio - round(ratio)) > _NEAR * ratio


def _configs(
    frequencies: Sequence[float],
    most: int,
    n_evolving: int,
    step: float,
    span: float,
    unit: float | None,
) -> tuple[SeasonConfig, ...]:
    """Harmonics of each frequency that has enough cycles in the record; the first may evolve."""
    found: list[SeasonConfig] = []
    for frequency in frequencies:
        n_cycles = frequency * span / (2 * np.pi)
        if n_cycles < _FEWEST_CYCLES:
            continue
        orders = _orders(frequency, frequencies[0] if found else None, step, most)
        evolves = not found and n_cycles >= _FEWEST_TO_EVOLVE
        if orders:
            found.append(
                SeasonConfig(
                    _name(len(found), frequency, unit),
                    tuple(frequency * order for order in orders),
                    orders,
                    min(n_evolving, len(orders)) if evolves else 0,
                )
            )
    return tuple(found)


def _name(place: int, frequency: float, unit: float | None) -> str:
    """Name of a season: the first is alone; others have their period in steps, where it was given."""
    if not place:
        return Season.term_name
    period = f"({2 * math.pi / (frequency * unit):.5g})" if unit else f" {place + 1}"
    return Season.term_name + period


def _orders(frequency: float, shorter: float | None, step: float, most: int) -> tuple[int, ...]:
    """Harmonics that the rows resolve; of a longer season, those that a shorter one has not.

    The days of a week differ by multiples of the weekly frequency beside those of the daily one.
    """
    highest = int(math.pi / step / frequency + _ROUNDING)
    if shorter is None:
        return tuple(range(1, min(highest, most) + 1))
    ratio = shorter / frequency
    if abs(ratio - round(ratio)) > _WHOLE or not 1 < round(ratio) <= _MOST_CYCLES:
        return tuple(range(1, min(highest, _MOST_LONG) + 1))
    last = min(highest, _SIDEBANDS * round(ratio))
    return tuple(order for order in range(1, last + 1) if order % round(ratio))
