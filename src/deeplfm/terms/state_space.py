"""Sums of trend, season, level and covariates, in state-space form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deeplfm.statespace import SeasonConfig, StateSpaceConfig, StateSpaceLFM
from deeplfm.terms.base import BuildContext, Term
from deeplfm.terms.covariates import Covariates
from deeplfm.terms.initial import all_series, span_of
from deeplfm.terms.local_level import LocalLevel
from deeplfm.terms.mean_reversion import MeanReversion
from deeplfm.terms.season import Season, find_season, frequency_of, fundamental_of
from deeplfm.terms.spectrum import typical_step
from deeplfm.terms.trend import Trend
from deeplfm.training import Rows

_FEWEST_CYCLES = 1.5  # of a season in the record
_FEWEST_TO_EVOLVE = 3.0  # cycles, from which on a season may change
_MOST_HARMONICS, _MOST_EVOLVING = 12, 6
_SIDEBANDS = 4  # harmonics of a season that differ from cycle to cycle of a longer one
_MOST_LONG = 10  # harmonics of a longer season that is no multiple of a shorter one
_WHOLE = 0.02  # off a whole multiple
_ROUNDING = 1e-6


def build_state_space(terms: Sequence[Term], rows: Rows, context: BuildContext) -> StateSpaceLFM:
    """A fitted state-space model of some terms."""
    kinds = {type(term): term for term in terms}
    span = span_of(rows)
    time = np.unique(rows.x[:, 0].double().cpu().numpy())
    step = typical_step(time) if len(time) > 1 else span
    season = kinds.get(Season)
    config = StateSpaceConfig(
        n_inputs=rows.x.shape[1],
        n_outputs=rows.y.shape[1],
        begin=float(time[0]),
        step=step,
        span=span,
        has_slope=Trend in kinds,
        has_walk=LocalLevel in kinds,
        has_reversion=MeanReversion in kinds,
        seasons=_seasons(season, rows, context, step, span) if isinstance(season, Season) else (),
    )
    model = StateSpaceLFM(config)
    model.set_train_data(rows.x, rows.y, rows.weight)
    model.fit(context.seed)
    return model


def _seasons(
    season: Season, rows: Rows, context: BuildContext, step: float, span: float
) -> tuple[SeasonConfig, ...]:
    """Harmonics of the periods that a term names, or of the one that is found in the rows."""
    periods = season.period if isinstance(season.period, tuple) else (season.period,)
    if periods == (None,):
        series = all_series(Covariates().unexplained(rows))
        frequencies = [fundamental_of(find_season(series, season.n_harmonics))]
    else:
        frequencies = [frequency_of(period, context) or 0.0 for period in periods]
    found: list[SeasonConfig] = []
    shortest = max(frequencies, default=0.0)
    for frequency in sorted(frequencies, reverse=True):
        n_cycles = frequency * span / (2 * np.pi)
        if n_cycles < _FEWEST_CYCLES:
            continue
        orders = _orders(frequency, shortest if found else None, step, season.n_harmonics)
        if not orders:
            continue
        evolves = season.evolves and not found and n_cycles >= _FEWEST_TO_EVOLVE
        found.append(
            SeasonConfig(
                f"{season.term_name} {len(found) + 1}" if found else season.term_name,
                tuple(frequency * order for order in orders),
                orders,
                min(_MOST_EVOLVING, len(orders)) if evolves else 0,
            )
        )
    return tuple(found)


def _orders(frequency: float, shorter: float | None, step: float, most: int) -> tuple[int, ...]:
    """Harmonics that the rows resolve; of a longer season, those that a shorter one has not.

    The days of a week differ by multiples of the weekly frequency beside those of the daily one.
    """
    highest = int(math.pi / step / frequency + _ROUNDING)
    if shorter is None:
        return tuple(range(1, min(highest, most, _MOST_HARMONICS) + 1))
    ratio = shorter / frequency
    if abs(ratio - round(ratio)) > _WHOLE or ratio > most:
        return tuple(range(1, min(highest, _MOST_LONG) + 1))
    last = min(highest, _SIDEBANDS * round(ratio))
    return tuple(order for order in range(1, last + 1) if order % round(ratio))
