"""Frequencies of a state-space model that are found in the rows: of sinusoids, and of a season."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from deeplfm.statespace import SeasonConfig, StateSpaceConfig
from deeplfm.statespace.solved import Known
from deeplfm.terms.covariates import Covariates
from deeplfm.terms.initial import Array, all_series
from deeplfm.terms.sinusoids import Sinusoids
from deeplfm.terms.spectrum import fit_sinusoids, matching_pursuit
from deeplfm.training import Rows

_FEWEST_CYCLES = 1.5  # of a sinusoid in the record
_PHASE = 2.0  # radians that the phase of a season may move over the rows
_RIDGE = 0.01  # of the mean square of a column


def with_sinusoids(
    seasons: Sequence[tuple[SeasonConfig, ...]], rows: Rows, most: int
) -> list[tuple[SeasonConfig, ...]]:
    """Seasons of each output, and after them the sinusoids that stand out beside them."""
    series = all_series(Covariates().unexplained(rows))
    found = []
    for pair, own in zip(series, seasons, strict=True):
        frequencies = _sinusoids(*pair, _frequencies_of(own), most)
        found.append((*own, _as_season(frequencies)) if frequencies else own)
    return found


def located(config: StateSpaceConfig, known: Known, is_found: bool) -> StateSpaceConfig:
    """The same model with the frequencies that some rows have: of sinusoids, and of a found season."""
    time = known.x[:, 0]
    seasons: list[SeasonConfig] = []
    for season in config.seasons:
        if season.name == Sinusoids.term_name:
            beside, most = _frequencies_of(seasons), len(season.frequencies)
            season = _as_season(_sinusoids(time, known.y, beside, most))
        elif is_found:
            season = _moved(season, time, known.y)
        seasons.append(season)
    return replace(config, seasons=tuple(seasons))


def _frequencies_of(seasons: Sequence[SeasonConfig]) -> Array:
    return np.array([frequency for season in seasons for frequency in season.frequencies])


def _as_season(frequencies: tuple[float, ...]) -> SeasonConfig:
    """Sinusoids, none of which is a harmonic of another."""
    return SeasonConfig(Sinusoids.term_name, frequencies, (1,) * len(frequencies))


def _sinusoids(time: Array, value: Array, beside: Array, most: int) -> tuple[float, ...]:
    """Frequencies that stand out beside others, strongest first."""
    if len(time) < 3:
        return ()
    rest = fit_sinusoids(time, value, beside)[1] if len(beside) else value
    found = matching_pursuit(time, rest, most)
    least = 2 * np.pi * _FEWEST_CYCLES / (float(np.ptp(time)) or 1.0)
    return tuple(float(item) for item in found.frequency[: found.n_supported] if item >= least)


def _moved(season: SeasonConfig, time: Array, value: Array) -> SeasonConfig:
    """A season at the frequency near its own that explains most of the values."""
    span = float(np.ptp(time)) if len(time) > 2 else 0.0
    if not span:
        return season
    reach = _PHASE / (season.frequencies[0] / season.orders[0] * span)
    target = value - value.mean()
    penalty = _RIDGE * len(time) * np.eye(2 * len(season.frequencies))

    def unexplained(factor: float) -> float:
        angle = np.outer(time, season.frequencies) * factor
        columns = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        moment = columns.T @ target
        return -float(moment @ np.linalg.solve(columns.T @ columns + penalty, moment))

    found = minimize_scalar(unexplained, bounds=(1 - reach, 1 + reach), method="bounded")
    return replace(season, frequencies=tuple(found.x * item for item in season.frequencies))
