"""Targets by their logarithms: where the swings of a series grow with its level, as sales do.

In logarithms such swings are the same everywhere, and what foresees them need not grow. But a level
that grows evenly does not do so in logarithms. So both race, and the held-out rows decide.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.estimators.arrays import Arrays
from deeplfm.estimators.scaling import Scaling
from deeplfm.training.race import Heat

_MOST_STRETCHES, _FEWEST_STRETCHES, _FEWEST_ROWS = 10, 4, 8
_LEAST_RANGE = 1.5  # between the lowest level and the highest
_HALF_WAY = 0.5  # swings in proportion to level^power: 0 as they are, 1 in logarithms
_LEAST_SURE = 1.5  # standard errors


def scalings_for(
    arrays: Arrays, is_series: bool, is_log: bool | None, names: list[str]
) -> list[Scaling]:
    """Scalings to choose from: targets as they are first, where they are among them.

    Args:
        arrays: rows, in order of time where they are a series.
        is_series: whether they are.
        is_log: logarithms of all targets, or of none; ``None``: also of those that look like it.
        names: of the targets.
    """
    plain = np.zeros(arrays.y.shape[1], dtype=bool)
    choices = [plain]
    if is_log:
        choices = [~plain]
    elif is_log is None and is_series and not arrays.stay_where_they_are:
        grows = swings_grow(arrays.read(slice(None))[1])
        choices += [grows] if grows.any() else []
    if is_log:
        for _, y, _ in arrays.pieces():
            check_positive(y, ~plain, names)
    return [Scaling.of_pieces(arrays.pieces(), is_series, choice) for choice in choices]


def foreseen(scaling: Scaling, heat: Heat) -> float:
    """Mean logarithm of the density of the held-out rows in the user's units, over all targets."""
    counts = heat.held_out.counts.cpu()
    density = (heat.density.cpu() - scaling.log_units(heat.held_out.y)).nan_to_num(0.0)
    return float(((density * counts).sum(0) / counts.sum(0).clamp_min(1)).sum())


def check_positive(
    y: Float64[ndarray, "N D"], is_log: Bool[ndarray, " D"], names: list[str]
) -> None:
    """Refuse values without a logarithm of targets that are heard by theirs."""
    for column, is_heard, name in zip(y.T, is_log, names, strict=True):
        rows = np.flatnonzero(column <= 0)
        if is_heard and len(rows):
            raise InputError(
                f"{name}: {column[rows[0]]:g} found, which has no logarithm, and the model hears this "
                "target by it. Fit with log_targets=False."
            )


def swings_grow(y: Float64[ndarray, "N D"]) -> Bool[ndarray, " D"]:
    """Outputs that are worth a look at their logarithms; rows in order of time, NaN where unknown.

    Levels and swings of consecutive stretches: a line through their logarithms has slope 1 where swings
    are a share of the level, and 0 where they have nothing to do with it.
    """
    return np.array([_grows(column[~np.isnan(column)]) for column in y.T], dtype=bool)


def _grows(values: Float64[ndarray, " N"]) -> bool:
    n_stretches = min(_MOST_STRETCHES, len(values) // _FEWEST_ROWS)
    if n_stretches < _FEWEST_STRETCHES or values.min() <= 0:
        return False
    stretches = np.array_split(values, n_stretches)
    level = np.array([stretch.mean() for stretch in stretches])
    swing = np.array([_around_a_line(stretch) for stretch in stretches])
    if level.max() < _LEAST_RANGE * level.min() or swing.min() <= 0:
        return False
    x, y = np.log(level), np.log(swing)
    (slope, _), ((variance, _), _) = np.polyfit(x, y, 1, cov=True)
    return bool(slope - _HALF_WAY > _LEAST_SURE * np.sqrt(variance))


def _around_a_line(values: Float64[ndarray, " N"]) -> float:
    time = np.arange(len(values))
    return float(np.std(values - np.polyval(np.polyfit(time, values, 1), time)))
