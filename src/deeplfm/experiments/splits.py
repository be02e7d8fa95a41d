"""Splits from series and tables, standardised as the paper scores them: on the training rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from deeplfm.experiments.declaration import Split


def series_split(
    time: Float64[ndarray, " N"],
    value: Float64[ndarray, "N D"],
    outputs: tuple[str, ...],
    train: Bool[ndarray, "N D"],
    tests: Mapping[str, Bool[ndarray, "N D"]],
    truth: Float64[ndarray, "N D"] | None = None,
    is_standardised: bool = True,
) -> Split:
    """A series, some values of which are known and some asked for.

    Args:
        time: of each row.
        value: observations.
        outputs: names of the columns.
        train: which observations are known.
        tests: which are asked for in each part.
        truth: what to score against; ``None`` for the observations.
        is_standardised: in units of what is known; otherwise as given, for models that know the
            equation behind the series. A normalised error is the same in both.
    """
    known = np.where(train, value, np.nan)
    mean, std = np.zeros(value.shape[1]), np.ones(value.shape[1])
    if is_standardised:
        mean, std = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
    target = ((value if truth is None else truth) - mean) / std
    asked = {part: mask.any(axis=1) for part, mask in tests.items()}
    return Split(
        x_train=time[train.any(axis=1), None],
        y_train=((known - mean) / std)[train.any(axis=1)],
        x_test={part: time[rows, None] for part, rows in asked.items()},
        y_test={part: np.where(tests[part], target, np.nan)[rows] for part, rows in asked.items()},
        outputs=outputs,
        is_noise_free=truth is not None,
    )


def rows_between(
    first: int, last: int, shape: tuple[int, ...], column: int | None = None
) -> Bool[ndarray, "N D"]:
    """Marks the rows from ``first`` to before ``last``, of one column or of all."""
    mask = np.zeros(shape, dtype=bool)
    mask[first:last, slice(None) if column is None else column] = True
    return mask
