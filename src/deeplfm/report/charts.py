"""Charts over time: forecasts with their observations, and forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.report.clock import Clock
from deeplfm.report.facts import RecordFacts
from deeplfm.report.figures import blank_figure, line, rectangle
from deeplfm.report.prediction import LEVELS, Prediction
from deeplfm.report.wording import digits_for

Vector = Float64[ndarray, " n"]
Points = tuple[pd.Index, Vector]

MOST_POINTS = 20_000  # observations of one kind in one chart
_MOST_MARKERS = 1500  # more become a line: a browser draws one path, not thousands of dots
_MOST_GAPS = 200


@dataclass(frozen=True)
class Window:
    """What the charts over time show at first, and at most; in the clock's numbers."""

    clock: Clock
    first: tuple[float, float]
    whole: tuple[float, float]

    def range(self, ends: tuple[float, float]) -> list[float]:
        """A range of the axis."""
        return self.clock.drawn(self.clock.times(np.array(ends))).tolist()


def forecast_chart(
    window: Window,
    record: RecordFacts,
    target: int,
    prediction: Prediction,
    observed: Points,
    held_out: Points | None,
) -> go.Figure:
    """Mean, intervals and observations of one target, its gaps and the end of training.

    Args:
        window: what to show of the time.
        record: facts of the record.
        target: which one.
        prediction: of all targets.
        observed: times and values that the model has seen.
        held_out: times and values that it is judged by.
    """
    clock, facts = window.clock, record.targets[target]
    mean = prediction.mean[:, target]
    figure = _time_figure(window)
    figure.add_traces(_bands(clock, prediction, target))
    figure.add_trace(_points(clock, observed, "observed", "circle", 5, facts.pause))
    if held_out is not None:
        figure.add_trace(_points(clock, held_out, "held out", "diamond", 5.5, facts.pause))
    figure.add_trace(_mean_line(clock, prediction, target, _digits(observed[1], mean)))
    figure.update_layout(
        shapes=_stretches(window, record, facts.gaps),
        yaxis_range=_value_range(np.r_[observed[1], [] if held_out is None else held_out[1]], mean),
    )
    return figure


def force_chart(
    window: Window, times: pd.Index, mean: Vector, std: Vector, end: float
) -> go.Figure:
    """A force over time with the band of two standard deviations."""
    x = window.clock.drawn(times)
    digits = digits_for(mean)
    figure = _time_figure(window)
    figure.add_traces(_band(x, mean - 2 * std, mean + 2 * std, "var(--force-band)"))
    figure.add_trace(
        go.Scatter(
            x=x,
            y=mean,
            customdata=2 * std,
            mode="lines",
            name="force",
            line={"color": "var(--force)", "width": 1.8},
            hovertemplate=f"%{{y:.{digits}~g}} ± %{{customdata:.2~g}}<extra></extra>",
        )
    )
    figure.update_layout(shapes=[_end_of_training(window, end)])
    return figure


def thin(points: Points, most: int = MOST_POINTS) -> Points:
    """The lowest and highest point of each of many neighbourhoods: what is drawn looks the same."""
    times, values = points
    known = np.flatnonzero(~np.isnan(values))
    if len(known) <= most:
        return times[known], values[known]
    kept = [
        known[part[[values[known[part]].argmin(), values[known[part]].argmax()]]]
        for part in np.array_split(np.arange(len(known)), most // 2)
    ]
    chosen = np.unique(np.concatenate(kept))
    return times[chosen], values[chosen]


def _time_figure(window: Window) -> go.Figure:
    figure = blank_figure(window.clock.title, "")
    figure.update_layout(
        hovermode="x unified",
        margin_l=48,  # the same for nearly all labels, so that charts below each other are in line
        xaxis={
            "type": "date" if window.clock.kind == "timestamp" else "linear",
            "range": window.range(window.first),
            "hoverformat": window.clock.pattern,
        },
    )
    return figure


def _bands(clock: Clock, prediction: Prediction, target: int) -> list[go.Scatter]:
    x = clock.drawn(prediction.times)
    traces: list[go.Scatter] = []
    for level in reversed(LEVELS):
        low, high = prediction.low[level][:, target], prediction.high[level][:, target]
        traces += _band(x, low, high, f"var(--band-{level})")
    return traces


def _band(x: Any, low: Vector, high: Vector, colour: str) -> list[go.Scatter]:
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        go.Scatter(x=x, y=low, **edge),
        go.Scatter(x=x, y=high, fill="tonexty", fillcolor=colour, **edge),
    ]


def _mean_line(clock: Clock, prediction: Prediction, target: int, digits: int) -> go.Scatter:
    ends = [
        side[level][:, target] for level in LEVELS for side in (prediction.low, prediction.high)
    ]
    rows = "".join(
        f"<br>{level} %: %{{customdata[{2 * i}]:.{digits}~g}} to "
        f"%{{customdata[{2 * i + 1}]:.{digits}~g}}"
        for i, level in enumerate(LEVELS)
    )
    return go.Scatter(
        x=clock.drawn(prediction.times),
        y=prediction.mean[:, target],
        customdata=np.stack(ends, axis=1),
        mode="lines",
        name="prediction",
        line={"color": "var(--mean)", "width": 1.8},
        hovertemplate=f"prediction %{{y:.{digits}~g}}{rows}<extra></extra>",
    )


def _points(
    clock: Clock, points: Points, name: str, symbol: str, size: float, gap: float
) -> go.Scatter:
    times, values = thin(points)
    colour = f"var(--{name.replace(' ', '-')})"
    digits = digits_for(points[1])
    is_line = len(values) > _MOST_MARKERS
    if is_line:
        times, values = _broken(clock, times, values, gap)
    return go.Scatter(
        x=clock.drawn(times),
        y=values,
        name=name,
        mode="lines" if is_line else "markers",
        opacity=0.65 if is_line else 0.85,
        marker={"color": colour, "size": size, "symbol": symbol},
        line={"color": colour, "width": 1},
        connectgaps=False,
        hovertemplate=f"{name} %{{y:.{digits}~g}}<extra></extra>",
    )


def _broken(clock: Clock, times: pd.Index, values: Vector, gap: float) -> Points:
    """A line that stops where there is nothing to join; thinning leaves at most a few rows out."""
    numbers = clock.numbers(times)
    pause = max(gap, 4 * float(np.median(np.diff(numbers))))
    breaks = np.flatnonzero(np.diff(numbers) > pause) + 1
    return clock.times(np.insert(numbers, breaks, numbers[breaks])), np.insert(
        values, breaks, np.nan
    )


def _stretches(
    window: Window, record: RecordFacts, gaps: Sequence[tuple[float, float]]
) -> list[dict[str, Any]]:
    longest = sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_MOST_GAPS]
    shapes = [rectangle(window.range(gap), (0, 1), "var(--gap)") for gap in longest]
    if window.whole[1] > record.last:
        ends = window.range((record.last, window.whole[1]))
        shapes.append(rectangle(ends, (0, 1), "var(--future)"))
    return [*shapes, _end_of_training(window, record.last)]


def _end_of_training(window: Window, end: float) -> dict[str, Any]:
    (x, _) = window.range((end, end))
    return line((x, x), (0, 1), "dash") | {"yref": "paper"}


def _digits(*values: Vector) -> int:
    return digits_for(np.concatenate(values))


def _value_range(values: Vector, mean: Vector) -> list[float]:
    """All observations, and as much again for a mean that leaves them; then some for intervals."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = (high - low) or abs(high) or 1.0
    low, high = max(low - room, min(low, mean.min())), min(high + room, max(high, mean.max()))
    return [low - 0.35 * room, high + 0.35 * room]
