"""Statistics of the training data: rows, steps, gaps and values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.estimators.columns import Name
from deeplfm.report.clock import Clock

Vector = Float64[ndarray, " n"]

_SAME_STEP = 0.01  # relative difference below which two steps are equal
_REGULAR_SHARE = 0.9  # of the steps of a regular record; the others are missing rows
# A gap is a pause longer than this many usual steps: one missing value of a regular record, more than
# a weekend of weekdays, and a long pause of an irregular record.
_REGULAR_GAP, _WEEKDAY_GAP, _IRREGULAR_GAP = 1.5, 3.5, 5.0


@dataclass(frozen=True)
class Target:
    """Statistics of one target.

    Attributes:
        name: of its column.
        known: number of known values.
        missing: number of missing values.
        pause: shortest time between known values that counts as a gap.
        gaps: begin and end of each gap, in the clock's numbers, in order.
        low: smallest known value.
        mean: of the known values.
        high: largest known value.
        middle: width of the range of the middle 95 % of the known values.
    """

    name: str
    known: int
    missing: int
    pause: float
    gaps: list[tuple[float, float]]
    low: float
    mean: float
    high: float
    middle: float

    @property
    def longest_gap(self) -> float:
        """Length of the longest gap; 0 without gaps."""
        return max((end - begin for begin, end in self.gaps), default=0.0)

    @property
    def is_constant(self) -> bool:
        """Whether all known values are equal."""
        return self.low == self.high


@dataclass(frozen=True)
class Record:
    """Statistics of the training data.

    Attributes:
        n_rows: number of rows.
        first: time of the first row, in the clock's numbers.
        last: time of the last row.
        step: median time between successive rows.
        is_regular: whether nearly all steps are equal.
        calendar: "weekdays", "months", ...; ``None`` if steps are equal spans of time.
        usual_steps: a gap is a pause of more than this many usual steps.
        targets: statistics of each target.
    """

    n_rows: int
    first: float
    last: float
    step: float
    is_regular: bool
    calendar: str | None
    usual_steps: float
    targets: list[Target]

    @property
    def span(self) -> float:
        """Time from the first row to the last."""
        return self.last - self.first


def read_record(
    training: pd.DataFrame, targets: list[Name], clock: Clock, calendar: str | None = None
) -> Record:
    """Statistics of the rows a forecaster was fitted to, whose steps may follow a calendar."""
    numbers = clock.numbers(training.index)
    steps = np.diff(numbers)
    step = _usual(steps)
    is_same = np.abs(steps - step) <= _SAME_STEP * step
    is_regular = calendar is not None or (
        bool(len(steps)) and float(is_same.mean()) >= _REGULAR_SHARE
    )
    usual_steps = _REGULAR_GAP if is_regular else _IRREGULAR_GAP
    if calendar == "weekdays":
        usual_steps = _WEEKDAY_GAP
    return Record(
        len(training),
        float(numbers[0]),
        float(numbers[-1]),
        step,
        is_regular,
        calendar,
        usual_steps,
        [_read_target(training[name], numbers, usual_steps) for name in targets],
    )


def _read_target(column: pd.Series, numbers: Vector, usual_steps: float) -> Target:
    values = column.to_numpy(np.float64)
    is_known = ~np.isnan(values)
    known = values[is_known]
    low, high = np.quantile(known, [0.025, 0.975])
    step = _usual(np.diff(numbers[is_known]))
    return Target(
        str(column.name),
        len(known),
        len(values) - len(known),
        usual_steps * step,
        _gaps(numbers[is_known], numbers, step, usual_steps * step),
        low=float(known.min()),
        mean=float(known.mean()),
        high=float(known.max()),
        middle=float(high - low),
    )


def _usual(steps: Vector) -> float:
    """Median of the steps between different times."""
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 0.0


def _gaps(known: Vector, numbers: Vector, step: float, pause: float) -> list[tuple[float, float]]:
    """Pauses between known values; the record extends one step beyond its first and last row."""
    edges = np.r_[numbers[0] - step, known, numbers[-1] + step]
    is_gap = np.diff(edges) > pause
    begin = np.maximum(edges[:-1][is_gap], numbers[0])
    end = np.minimum(edges[1:][is_gap], numbers[-1])
    return [(float(b), float(e)) for b, e in zip(begin, end, strict=True)]
