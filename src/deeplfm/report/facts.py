"""What the record holds: rows, steps, gaps and values, as numbers that tables and cautions share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.estimators.columns import Name
from deeplfm.report.clock import Clock

Vector = Float64[ndarray, " n"]

_SAME_STEP = 0.01  # steps that differ by less are the same
_REGULAR_SHARE = 0.9  # of the steps; the others are rows left out
# A pause of so many usual steps is a gap: one missing value of a regular record; weekends are none,
# and in an irregular record pauses differ by nature.
_REGULAR_GAP, _WEEKDAY_GAP, _IRREGULAR_GAP = 1.5, 3.5, 5.0


@dataclass(frozen=True)
class TargetFacts:
    """One target of the record.

    Attributes:
        name: as the user calls it, in words.
        known: number of known values.
        missing: number of rows without one.
        pause: time between known values from which it is a gap.
        gaps: from and until of each gap, in the clock's numbers, in order.
        low: smallest known value.
        mean: of the known values.
        high: largest known value.
        std: of the known values.
        middle: width of the range that holds the middle 95 % of the known values.
    """

    name: str
    known: int
    missing: int
    pause: float
    gaps: list[tuple[float, float]]
    low: float
    mean: float
    high: float
    std: float
    middle: float

    @property
    def longest_gap(self) -> float:
        """Length of the longest gap, 0 where there is none."""
        return max((until - after for after, until in self.gaps), default=0.0)

    @property
    def is_constant(self) -> bool:
        """All known values are one."""
        return self.low == self.high


@dataclass(frozen=True)
class RecordFacts:
    """The record that the model was fitted to.

    Attributes:
        n_rows: number of rows.
        first: time of the first row, in the clock's numbers.
        last: time of the last row.
        step: median time between neighbouring rows.
        is_regular: whether nearly all steps are that one.
        calendar: what the steps follow: "weekdays", "months", ...; ``None`` for equal spans of time.
        usual_steps: a pause between known values of so many of a target's usual steps is a gap.
        targets: each target's facts.
    """

    n_rows: int
    first: float
    last: float
    step: float
    is_regular: bool
    calendar: str | None
    usual_steps: float
    targets: list[TargetFacts]

    @property
    def span(self) -> float:
        """Time from the first row to the last."""
        return self.last - self.first


def read_record(
    training: pd.DataFrame, targets: list[Name], clock: Clock, calendar: str | None = None
) -> RecordFacts:
    """Facts of the rows a forecaster was fitted to, whose times follow a calendar or none."""
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
    return RecordFacts(
        len(training),
        float(numbers[0]),
        float(numbers[-1]),
        step,
        is_regular,
        calendar,
        usual_steps,
        [_read_target(training[name], numbers, usual_steps) for name in targets],
    )


def _read_target(column: pd.Series, numbers: Vector, usual_steps: float) -> TargetFacts:
    values = column.to_numpy(np.float64)
    is_known = ~np.isnan(values)
    known = values[is_known]
    low, high = np.quantile(known, [0.025, 0.975])
    step = _usual(np.diff(numbers[is_known]))
    return TargetFacts(
        str(column.name),
        len(known),
        len(values) - len(known),
        usual_steps * step,
        _gaps(numbers[is_known], numbers, step, usual_steps * step),
        low=float(known.min()),
        mean=float(known.mean()),
        high=float(known.max()),
        std=float(known.std()),
        middle=float(high - low),
    )


def _usual(steps: Vector) -> float:
    """Median of the steps; those between rows of one time do not count."""
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 0.0


def _gaps(known: Vector, numbers: Vector, step: float, pause: float) -> list[tuple[float, float]]:
    """Pauses between known values; the record begins a step before its first row, and ends likewise."""
    edges = np.r_[numbers[0] - step, known, numbers[-1] + step]
    is_gap = np.diff(edges) > pause
    after = np.maximum(edges[:-1][is_gap], numbers[0])
    until = np.minimum(edges[1:][is_gap], numbers[-1])
    return [(float(a), float(u)) for a, u in zip(after, until, strict=True)]
