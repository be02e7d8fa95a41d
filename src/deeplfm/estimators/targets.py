"""The targets of a fit: their names and form, outliers, and whether their amplitude grows."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64
from numpy import ndarray
from numpy.typing import NDArray

from deeplfm.errors import InputError
from deeplfm.estimators.scaling import Chunk, Scaling

Array = NDArray[np.float64]

_FEWEST = 20  # known values in which outliers are looked for
_FAR = 10.0  # interquartile ranges beyond the quartiles
_MOST = 0.05  # of the values
_EMPTY = 0.7  # of the way from the median to an outlier has no other values
_FLAT = 0.1  # interquartile ranges: most steps between outliers are smaller, if these are constant
_FEWEST_REPEATS, _FEWEST_OTHERS = 3, 10  # of a sentinel value; different values beside it

_FAR_FROM_TRAINING, _FARTHEST = 1e3, 1e100  # standard deviations of the training rows

_MOST_SEGMENTS, _FEWEST_SEGMENTS, _FEWEST_ROWS = 10, 4, 8
_LEAST_RANGE = 1.5  # between the lowest level and the highest
_HALF_WAY = 0.5  # amplitude in proportion to level^power: 0 is additive, 1 multiplicative
_LEAST_SURE = 2.0  # standard errors off 0


@dataclass(frozen=True)
class Labels:
    """Names of the targets of a fit, and whether they were one vector."""

    names: tuple[Hashable, ...] | None
    n_outputs: int
    is_vector: bool

    @classmethod
    def of(cls, y: Any, n_outputs: int) -> Self:
        """Labels of the targets that a user gave."""
        names: tuple[Hashable, ...] | None = None
        if isinstance(y, pd.DataFrame):
            names = tuple(y.columns)
        elif isinstance(y, pd.Series):
            names = (y.name,)
        return cls(names, n_outputs, np.asarray(y).ndim == 1)

    def check(self, y: Any, n_outputs: int) -> None:
        """Refuse targets other than those of the fit."""
        names = tuple(y.columns) if isinstance(y, pd.DataFrame) else self.names
        if n_outputs == self.n_outputs and (self.names is None or names == self.names):
            return
        found, wanted = f"{n_outputs} columns", f"{self.n_outputs}"
        if n_outputs == self.n_outputs:
            found, wanted = (", ".join(map(repr, item or ())) for item in (names, self.names))
        raise InputError(
            f"y: {found}, but the model was fitted on {wanted}. Give the same targets in the same "
            "order."
        )

    @property
    def texts(self) -> list[str]:
        """A text to name each output in messages and figures."""
        if self.names is not None and None not in self.names:
            return [str(name) for name in self.names]
        return ["y"] if self.n_outputs == 1 else [f"y{i}" for i in range(self.n_outputs)]

    def shaped(self, values: Array, like: Any, along: Sequence[Any] = ()) -> Any:
        """Predictions in the form of the inputs: frames for frames, arrays for arrays.

        Args:
            values: one for each row, output and, where ``along`` is given, item of it.
            like: the inputs; a frame gives its index.
            along: names of the last dimension: levels of quantiles, numbers of draws.
        """
        if self.names is None or not isinstance(like, pd.DataFrame | pd.Series):
            return values[:, 0] if self.is_vector else values
        if self.is_vector and not len(along):
            return pd.Series(values[:, 0], index=like.index, name=self.names[0])
        columns = pd.Index(self.names)
        if len(along):
            columns = pd.Index(along)
            if not self.is_vector:
                columns = pd.MultiIndex.from_product([self.names, along])
            values = values.reshape(len(values), -1)
        return pd.DataFrame(values, index=like.index, columns=columns)


class OutlierWarning(UserWarning):
    """Values of a series look like measurement errors or sentinel values."""


@dataclass(frozen=True)
class Outliers:
    """Outliers of a series."""

    count: int
    segments: int
    span: tuple[float, float]
    others: tuple[float, float]


def find_outliers(values: Float64[ndarray, " N"]) -> Outliers | None:
    """Measurement errors or sentinel values in a series in order of time; ``None`` if there are none.

    A peak has sides: values between the far ones and the rest make both one signal, unless the far
    ones are constant, as when a sensor is switched off. Far values at the end do not count: they may
    be a new level.
    """
    known = values[~np.isnan(values)]
    if len(known) < _FEWEST:
        return None
    low, middle, high = np.percentile(known, [25, 50, 75])
    reach = _FAR * (high - low)
    is_far: Bool[ndarray, " n"] = (known < low - reach) | (known > high + reach)
    n_last = int(np.argmin(is_far[::-1]))  # far values at the end
    known, is_far = known[: len(known) - n_last], is_far[: len(known) - n_last]
    if reach == 0 or not is_far.any() or is_far.mean() > _MOST:
        return None
    far, near = known[is_far], known[~is_far]
    edge = np.where(far > middle, near.max(), near.min())
    is_joined = bool(np.any(np.abs(far - edge) < _EMPTY * np.abs(far - middle)))
    steps = np.abs(np.diff(known))[is_far[1:] & is_far[:-1]]
    is_constant = len(steps) > 0 and np.median(steps) < _FLAT * (high - low)
    if is_joined and not is_constant:
        return None
    segments = int(np.count_nonzero(np.diff(is_far.astype(int)) == 1) + is_far[0])
    spans = [(float(part.min()), float(part.max())) for part in (far, near)]
    return Outliers(len(far), segments, *spans)


def find_sentinel(values: Float64[ndarray, " N"]) -> float | None:
    """A number that marks missing values, at any share of them; ``None`` if there is none.

    It is the lowest or highest value, repeats exactly, and is further from the others than they are
    from each other; or the only negative number, and whole. A last segment of equal values does not
    count: it may be a new level.
    """
    known = values[~np.isnan(values)]
    if len(known) < _FEWEST:
        return None
    for edge in (float(known.min()), float(known.max())):
        is_edge = known == edge
        if _is_apart(known, edge) and not is_edge[np.argmax(is_edge) :].all():
            return edge
    return None


def find_sentinels(values: Float64[ndarray, "N D"]) -> list[float | None]:
    """The sentinel value of each column; one that another column has may also be its last segment."""
    found = [find_sentinel(column) for column in values.T]
    codes = {code for code in found if code is not None}
    for d, column in enumerate(values.T):
        known = column[~np.isnan(column)]
        if found[d] is None and len(known) >= _FEWEST:
            edges = codes & {float(known.min()), float(known.max())}
            found[d] = next((edge for edge in edges if _is_apart(known, edge)), None)
    return found


def _is_apart(known: Float64[ndarray, " N"], edge: float) -> bool:
    """Whether the lowest or highest value repeats, and is far from all others or a negative code."""
    others = np.unique(known[known != edge])
    if (known == edge).sum() < _FEWEST_REPEATS or len(others) < _FEWEST_OTHERS:
        return False
    is_code = edge < 0 <= others[0] and edge.is_integer()
    return is_code or float(np.abs(others - edge).min()) > np.ptp(others)


def warn_of_outliers(values: Float64[ndarray, "N D"], names: Sequence[str]) -> None:
    """Warn of values in a series that are better marked as missing."""
    sentinels = find_sentinels(values)
    for code in dict.fromkeys(item for item in sentinels if item is not None):
        same = [d for d, item in enumerate(sentinels) if item == code]
        _warn_of_sentinel([names[d] for d in same], values[:, same], code)
    for name, column, sentinel in zip(names, values.T, sentinels, strict=True):
        if sentinel is not None:
            continue
        found = find_outliers(column)
        if found is None:
            continue
        some = "value is" if found.count == 1 else "values are"
        where = f", in {found.segments} segment{'s' * (found.segments > 1)}" * (found.count > 1)
        warnings.warn(
            f"{name}: {found.count} {some} far from all others ({_words(found.span)}; the others "
            f"{_words(found.others)}){where}. The model will follow them. If they are measurement "
            "errors or codes for missing values, replace them by NaN and fit again: gaps are filled.",
            OutlierWarning,
            stacklevel=3,
        )


def check_new_values(chunks: Iterable[Chunk], scaling: Scaling, names: Sequence[str]) -> None:
    """Refuse new values whose squares overflow in the model's units, and warn of very large ones."""
    most = np.zeros(len(names))
    for _, y, *_ in chunks:
        most = np.fmax(most, np.nanmax(np.abs(scaling.outputs(y)), axis=0, initial=0.0))
    for name, farthest in zip(names, most, strict=True):
        if farthest > _FARTHEST:
            raise InputError(
                f"{name}: a value {farthest:.3g} standard deviations from the mean of the training rows "
                "found, whose square overflows. Correct it, or write NaN to mark it as missing."
            )
        if farthest > _FAR_FROM_TRAINING:
            warnings.warn(
                f"{name}: a value {farthest:.3g} standard deviations from the mean of the training rows "
                "found. The model will follow it. If it is a measurement error, update with NaN in its "
                "place; if the series has changed, fit again.",
                OutlierWarning,
                stacklevel=3,
            )


def _warn_of_sentinel(
    names: Sequence[str], values: Float64[ndarray, "N D"], sentinel: float
) -> None:
    """One warning for all columns that have the same sentinel value."""
    counts = [
        (int((column == sentinel).sum()), int((~np.isnan(column)).sum())) for column in values.T
    ]
    shares = [f"{100 * n_equal / n_known:.2g} %" for n_equal, n_known in counts]
    if len(names) == 1:
        others = values[~np.isnan(values) & (values != sentinel)]
        what = (
            f"{names[0]}: {counts[0][0]} of {counts[0][1]} values ({shares[0]}) are {sentinel:g}, far "
            f"from all others ({_words((others.min(), others.max()))})"
        )
    else:
        each = ", ".join(f"{name} ({share})" for name, share in zip(names, shares, strict=True))
        what = f"{len(names)} targets have values of {sentinel:g}, far from all others: {each}"
    warnings.warn(
        f"{what}. The model will follow them. If they mark missing values, give "
        f"missing_values={sentinel:g} or replace them by NaN: gaps are filled.",
        OutlierWarning,
        stacklevel=4,
    )


def _words(span: tuple[float, float]) -> str:
    low, high = (f"{value:.4g}" for value in span)
    return low if low == high else f"{low} to {high}"


def amplitude_grows(y: Float64[ndarray, "N D"]) -> Bool[ndarray, " D"]:
    """Outputs whose amplitude grows with their level; rows in order of time, NaN where unknown.

    Levels and amplitudes of consecutive segments: a line through their logarithms has slope 1 where
    the amplitude is proportional to the level, and 0 where the two are independent. It must be nearer
    to 1, and significantly different from 0.
    """
    return np.array([_grows(column[~np.isnan(column)]) for column in y.T], dtype=bool)


def _grows(values: Float64[ndarray, " N"]) -> bool:
    n_segments = min(_MOST_SEGMENTS, len(values) // _FEWEST_ROWS)
    if n_segments < _FEWEST_SEGMENTS or values.min() <= 0:
        return False
    segments = np.array_split(values, n_segments)
    level = np.array([segment.mean() for segment in segments])
    amplitude = np.array([_around_a_line(segment) for segment in segments])
    if level.max() < _LEAST_RANGE * level.min() or amplitude.min() <= 0:
        return False
    (slope, _), ((variance, _), _) = np.polyfit(np.log(level), np.log(amplitude), 1, cov=True)
    return bool(slope > max(_HALF_WAY, _LEAST_SURE * np.sqrt(variance)))


def _around_a_line(values: Float64[ndarray, " N"]) -> float:
    time = np.arange(len(values))
    return float(np.std(values - np.polyval(np.polyfit(time, values, 1), time)))
