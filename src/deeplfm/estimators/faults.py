"""Values that look like faults of a measurement: a few, far from all others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FEWEST = 20  # known values
_FAR = 10.0  # ranges of the middle half beyond it
_MOST = 0.05  # of the values
_EMPTY = 0.7  # of the way from the middle to a far value on which there are no others
_FLAT = 0.1  # of the range of the middle half: most steps between far values are smaller


class FaultWarning(UserWarning):
    """Values of a series look like faults."""


@dataclass(frozen=True)
class Faults:
    """What looks like faults in a series.

    Attributes:
        count: how many values.
        stretches: without another value between them.
        span: lowest and highest of these values.
        others: those of all others.
    """

    count: int
    stretches: int
    span: tuple[float, float]
    others: tuple[float, float]


def find_faults(values: Float64[ndarray, " N"]) -> Faults | None:
    """Faults in a series, in order of time; ``None`` where nothing looks like one.

    A peak has sides: where values lie between the far ones and the rest, both are one signal, unless it
    stands still far away, as when something is switched off. Where the last values are far, nobody knows
    whether the others will come back: these count as no faults.
    """
    known = values[~np.isnan(values)]
    if len(known) < _FEWEST:
        return None
    low, middle, high = np.percentile(known, [25, 50, 75])
    reach = _FAR * (high - low)
    is_far: Bool[ndarray, " n"] = (known < low - reach) | (known > high + reach)
    n_back = int(np.argmin(is_far[::-1]))  # far values at the end
    known, is_far = known[: len(known) - n_back], is_far[: len(known) - n_back]
    if reach == 0 or not is_far.any() or is_far.mean() > _MOST:
        return None
    far, near = known[is_far], known[~is_far]
    edge = np.where(far > middle, near.max(), near.min())
    is_joined = bool(np.any(np.abs(far - edge) < _EMPTY * np.abs(far - middle)))
    steps = np.abs(np.diff(known))[is_far[1:] & is_far[:-1]]
    stands_still = len(steps) > 0 and np.median(steps) < _FLAT * (high - low)
    if is_joined and not stands_still:
        return None
    stretches = int(np.count_nonzero(np.diff(is_far.astype(int)) == 1) + is_far[0])
    return Faults(len(far), stretches, _span(far), _span(near))


def warn_of_faults(values: Float64[ndarray, "N D"], names: Sequence[str]) -> None:
    """Tell of values in a series that are better left empty, if they are what they look like."""
    for name, column in zip(names, values.T, strict=True):
        found = find_faults(column)
        if found is None:
            continue
        some = "value is" if found.count == 1 else "values are"
        where = f", in {found.stretches} stretch{'es' * (found.stretches > 1)}" * (found.count > 1)
        warnings.warn(
            f"{name}: {found.count} {some} far from all others ({_words(found.span)}; the others "
            f"{_words(found.others)}){where}. What is fitted will follow them. If they are faults of the "
            "measurement, leave them empty (NaN) and fit again: gaps are filled.",
            FaultWarning,
            stacklevel=3,
        )


def _span(values: Array) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _words(span: tuple[float, float]) -> str:
    low, high = (f"{value:.4g}" for value in span)
    return low if low == high else f"{low} to {high}"
