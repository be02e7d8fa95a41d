"""Predictions as columns of a frame: expected values, intervals and quantiles; and filled gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.estimators.known_inputs import Name
from deeplfm.predictive.mixture import Predictive

if TYPE_CHECKING:
    from deeplfm.estimators.regressor import DeepLFMRegressor

SUFFIXES = ("_std", "_low", "_high")  # of the columns that a prediction adds to that of its mean


def interval_columns(coverage: float, level: Any, quantiles: Any) -> dict[str, float]:
    """Suffixes of the columns of a forecast, and the quantiles that they hold.

    Args:
        coverage: of the interval, if no level is given.
        level: coverages in per cent, as Nixtla's libraries take them: 95, or [80, 95].
        quantiles: levels between 0 and 1.

    >>> interval_columns(0.95, [80], [0.5])
    {'_low_80': 0.1, '_high_80': 0.9, '_q0.5': 0.5}
    """
    found: dict[str, float] = {}
    for item in _numbers(level, "level"):
        if not 1 < item < 100:
            raise InputError(
                f"level: {item:g} found. Give per cent between 1 and 100, such as 95; or a share as "
                "coverage=0.95."
            )
        tail = round((1 - item / 100) / 2, 12)
        found |= {f"_low_{item:g}": tail, f"_high_{item:g}": round(1 - tail, 12)}
    for item in _numbers(quantiles, "quantiles"):
        if not 0 < item < 1:
            raise InputError(
                f"quantiles: {item:g} found. Give numbers between 0 and 1, such as 0.1."
            )
        found[f"_q{item:g}"] = item
    if level is None and quantiles is None:
        if not 0 < coverage < 1:
            raise InputError(f"coverage: {coverage!r} found. Give a share, such as 0.95.")
        found = {"_low": (1 - coverage) / 2, "_high": 1 - (1 - coverage) / 2}
    return found


def prediction_table(
    regressor: DeepLFMRegressor,
    x: Float64[ndarray, "N P"],
    index: pd.Index,
    targets: Sequence[Name],
    quantiles: Mapping[str, float],
    instead: Callable[[float], list[float]] | None = None,
) -> pd.DataFrame:
    """Mean, standard deviation and quantiles of an observation of each target.

    ``instead`` gives the quantile of each target to ask for in place of a nominal one.
    """
    ends = ["", "_std", *quantiles]
    columns = [f"{name}{end}" if end else name for name in targets for end in ends]
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise InputError(f"forecast: two columns would be named {twice[0]!r}. Rename a target.")
    if len(index) == 0:
        return pd.DataFrame(index=index, columns=columns, dtype=float)
    levels = [instead(q) if instead else [q] * len(targets) for q in quantiles.values()]

    def question(posterior: Predictive, _: slice) -> tuple[torch.Tensor, ...]:
        asked = sorted({q for of_targets in levels for q in of_targets})
        found = posterior.quantile(asked)  # L N D
        ends = [
            torch.stack([found[asked.index(q), :, d] for d, q in enumerate(of_targets)], dim=-1)
            for of_targets in levels
        ]
        return posterior.mean, posterior.std(), torch.stack(ends, dim=-1)

    mean, std, found = regressor._in_chunks(x, question)
    values = torch.cat([mean[..., None], std[..., None], found], dim=-1).flatten(1)
    return pd.DataFrame(values.numpy(), index=index, columns=columns)


def _numbers(given: Any, where: str) -> list[float]:
    items = [] if given is None else [given] if np.ndim(given) == 0 else list(given)
    try:
        return [float(item) for item in items]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {given!r} found. Give numbers.") from error


def fill_gaps(
    frame: pd.DataFrame,
    gaps: Bool[ndarray, "N D"],
    predicted: pd.DataFrame,
    targets: Sequence[Name],
    intervals: bool,
) -> pd.DataFrame:
    """A frame in which predictions fill the gaps of the targets, and all else is unchanged."""
    result = frame.copy()
    has_gap = gaps.any(axis=1)
    for is_gap, name in zip(gaps.T, targets, strict=True):
        values = predicted[is_gap[has_gap]]
        if is_gap.any():
            result[name] = _filled(frame[name], is_gap, values[name].to_numpy())
        for suffix in SUFFIXES if intervals else ():
            column = f"{name}{suffix}"
            if column in frame.columns:
                raise InputError(
                    f"column {column!r}: the frame has one already, and intervals need the name. "
                    "Rename it, or leave the intervals out."
                )
            spread = np.full(len(frame), np.nan)
            spread[is_gap] = values[column].to_numpy()
            result[column] = spread
    return result


def _filled(column: pd.Series, is_gap: Bool[ndarray, " N"], values: ndarray) -> pd.Series:
    """The column in its own type, or one that has room for fractions."""
    if isinstance(column.dtype, np.dtype):
        filled = column.to_numpy(copy=True)
        if filled.dtype.kind in "iu":  # a number marks what is missing
            filled = filled.astype(np.float64)
        filled[is_gap] = values
        return pd.Series(filled, index=column.index, dtype=filled.dtype)
    kind = "Float64" if pd.api.types.is_integer_dtype(column.dtype) else column.dtype
    filled = column.astype(kind)
    filled.iloc[np.flatnonzero(is_gap)] = values
    return filled
