"""Plotly charts; their colours are variables of the style sheet."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.report.clock import Clock
from deeplfm.report.prediction import LEVELS, Prediction
from deeplfm.report.record_statistics import Record
from deeplfm.report.wording import digits_for

Vector = Float64[ndarray, " n"]
Points = tuple[pd.Index, Vector]

MOST_POINTS = 20_000  # observations of one kind in one chart
_MOST_MARKERS = 1500  # more are drawn as a line, which a browser draws faster
_MOST_GAPS = 200
_LEAST_POWER = 0.1  # per cent of the power of a frequency that is drawn


@dataclass(frozen=True)
class Window:
    """Initial and full range of the charts over time, in the clock's numbers."""

    clock: Clock
    first: tuple[float, float]
    whole: tuple[float, float]

    def range(self, ends: tuple[float, float]) -> list[float]:
        """A range of the axis."""
        return self.clock.drawn(self.clock.times(np.array(ends))).tolist()


def forecast_chart(
    window: Window,
    record: Record,
    target: int,
    prediction: Prediction,
    observed: Points,
    held_out: Points | None,
) -> go.Figure:
    """Mean, intervals and observations of one target, its gaps and the end of training.

    Args:
        window: range of time.
        record: statistics of the training data.
        target: its number.
        prediction: of all targets.
        observed: times and values of the training data.
        held_out: times and values of later observations.
    """
    clock, facts = window.clock, record.targets[target]
    mean, x = prediction.mean[:, target], clock.drawn(prediction.times)
    ends = {
        level: (prediction.low[level][:, target], prediction.high[level][:, target])
        for level in LEVELS
    }
    figure = _time_figure(window)
    for level in reversed(LEVELS):
        figure.add_traces(_band(x, *ends[level], f"var(--band-{level})"))
    figure.add_trace(_points(clock, observed, "observed", "circle", 5, facts.pause))
    if held_out is not None:
        figure.add_trace(_points(clock, held_out, "held out", "diamond", 5.5, facts.pause))
    digits = digits_for(np.r_[observed[1], mean])
    rows = "".join(
        f"<br>{level} %: %{{customdata[{2 * i}]:.{digits}~g}} to "
        f"%{{customdata[{2 * i + 1}]:.{digits}~g}}"
        for i, level in enumerate(LEVELS)
    )
    figure.add_trace(
        go.Scatter(
            x=x,
            y=mean,
            customdata=np.stack([end for pair in ends.values() for end in pair], axis=1),
            mode="lines",
            name="prediction",
            line={"color": "var(--mean)", "width": 1.8},
            hovertemplate=f"prediction %{{y:.{digits}~g}}{rows}<extra></extra>",
        )
    )
    values = np.r_[observed[1], [] if held_out is None else held_out[1]]
    longest = sorted(facts.gaps, key=lambda gap: gap[0] - gap[1])[:_MOST_GAPS]
    shapes = [rectangle(window.range(gap), (0, 1), "var(--gap)") for gap in longest]
    if window.whole[1] > record.last:
        ahead = window.range((record.last, window.whole[1]))
        shapes.append(rectangle(ahead, (0, 1), "var(--future)"))
    shapes.append(_end_of_training(window, record.last))
    figure.update_layout(shapes=shapes, yaxis_range=_value_range(values, mean))
    return figure


def curve_chart(
    window: Window, times: pd.Index, mean: Vector, low: Vector, high: Vector, end: float
) -> go.Figure:
    """A curve over time with its band; ``end`` is the end of training."""
    x, digits = window.clock.drawn(times), digits_for(mean)
    figure = _time_figure(window)
    figure.add_traces(_band(x, low, high, "var(--force-band)"))
    band = f"%{{customdata[0]:.{digits}~g}} to %{{customdata[1]:.{digits}~g}}"
    figure.add_trace(
        go.Scatter(
            x=x,
            y=mean,
            customdata=np.stack([low, high], axis=1),
            mode="lines",
            line={"color": "var(--force)", "width": 1.8},
            hovertemplate=f"%{{y:.{digits}~g}}<br>{band}<extra></extra>",
        )
    )
    figure.update_layout(
        shapes=[_end_of_training(window, end)], xaxis={"nticks": 5, "tickangle": 0}
    )
    return figure


def pit_chart(pit: Vector) -> go.Figure:
    """Histogram of the predictive distribution function at the observations."""
    n_bins = 20 if len(pit) >= 400 else 10
    counts, edges = np.histogram(pit, bins=n_bins, range=(0, 1))
    chance = 1.96 * np.sqrt((n_bins - 1) / len(pit))
    figure = blank_figure("PIT", "density")
    figure.add_trace(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts * n_bins / len(pit),
            width=0.92 / n_bins,
            marker={"color": "var(--mean)", "line": {"width": 0}},
            customdata=np.stack([edges[:-1], edges[1:], counts], axis=1),
            hovertemplate="%{customdata[0]:.2f} to %{customdata[1]:.2f}: "
            "%{customdata[2]} observations<extra></extra>",
        )
    )
    band = rectangle((0, 1), (max(0, 1 - chance), 1 + chance), "var(--chance)", yref="y")
    figure.update_layout(
        shapes=[band, line((0, 1), (1, 1))], xaxis_range=[0, 1], hovermode="closest"
    )
    return figure


def coverage_chart(pit: Vector) -> go.Figure:
    """Share of the observations inside the central interval of every level."""
    levels = np.linspace(0, 1, 101)
    figure = blank_figure("level of the interval", "observations inside")
    figure.add_trace(
        go.Scatter(
            x=levels,
            y=(2 * np.abs(pit - 0.5)[:, None] <= levels).mean(0),
            mode="lines",
            line={"color": "var(--mean)", "width": 2},
            hovertemplate="%{y:.0%} inside the %{x:.0%} interval<extra></extra>",
        )
    )
    percent = {"tickformat": ".0%", "range": [0, 1.01], "dtick": 0.25}
    figure.update_layout(
        shapes=[line((0, 1), (0, 1))], xaxis=percent, yaxis=percent, hovermode="closest"
    )
    return figure


def spectrum_chart(
    frequency: Vector, power: Vector, unit: str, periods: Sequence[str]
) -> go.Figure:
    """Share of the power at every frequency, one stem each.

    Args:
        frequency: in cycles per unit.
        power: share of the total, in per cent.
        unit: of time.
        periods: with their units, for the labels.
    """
    is_seen = power >= _LEAST_POWER
    frequency, power = frequency[is_seen], power[is_seen]
    blank = np.full(len(frequency), np.nan)
    figure = blank_figure(f"cycles per {unit}", "share of the power, %")
    figure.add_trace(
        go.Scatter(
            x=np.stack([frequency, frequency, blank], axis=1).ravel(),
            y=np.stack([np.zeros_like(power), power, blank], axis=1).ravel(),
            mode="lines",
            line={"color": "var(--mean)", "width": 1.5},
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=frequency,
            y=power,
            text=[literal(period) for period, shown in zip(periods, is_seen, strict=True) if shown],
            mode="markers",
            marker={"color": "var(--mean)", "size": 6},
            hovertemplate="%{y:.2~g} % of the power<br>period %{text}<extra></extra>",
        )
    )
    figure.update_layout(
        hovermode="closest",
        xaxis_range=[0, 1.1 * float(frequency.max())] if (frequency > 0).any() else None,
        yaxis_rangemode="tozero",
    )
    return figure


def thin(points: Points, most: int = MOST_POINTS) -> Points:
    """The lowest and highest point of each of many segments, which look the same when drawn."""
    times, values = points
    known = np.flatnonzero(~np.isnan(values))
    if len(known) <= most:
        return times[known], values[known]
    kept = [
        part[[values[part].argmin(), values[part].argmax()]]
        for part in np.array_split(known, most // 2)
    ]
    chosen = np.unique(np.concatenate(kept))
    return times[chosen], values[chosen]


def blank_figure(x_title: str, y_title: str) -> go.Figure:
    """An empty figure in the style of the page."""
    axis = {
        **dict.fromkeys(("gridcolor", "zerolinecolor", "linecolor"), "var(--rule)"),
        "automargin": True,
        "ticklabeloverflow": "allow",
        "title": {"font": {"size": 12}, "standoff": 8},
    }
    clear = "rgba(0,0,0,0)"
    label = {"bgcolor": "var(--hover)", "bordercolor": "var(--rule)"}
    figure = go.Figure(
        layout={
            "template": "none",
            "paper_bgcolor": clear,
            "plot_bgcolor": clear,
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": "var(--text)"},
            "margin": {"l": 8, "r": 18, "t": 8, "b": 8},
            "showlegend": False,
            "xaxis": axis | {"showgrid": False, "zeroline": False},
            "yaxis": axis,
            "hoverlabel": label | {"font": {"color": "var(--text)", "size": 12}},
            "modebar": {"bgcolor": clear, "color": "var(--quiet)", "activecolor": "var(--text)"},
        }
    )
    figure.update_layout(xaxis_title_text=literal(x_title), yaxis_title_text=literal(y_title))
    return figure


def literal(text: str) -> str:
    """Text of the user that a chart shows unchanged: neither markup nor placeholders."""
    return html.escape(text).replace("%", "&#37;").replace("$", "&#36;")


def rectangle(
    x: Sequence[Any], y: tuple[float, float], colour: str, yref: str = "paper"
) -> dict[str, Any]:
    """A shaded rectangle behind the data."""
    place = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "yref": yref}
    fill = {"fillcolor": colour, "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", **place, **fill}


def line(x: tuple[Any, Any], y: tuple[float, float], dash: str = "dot") -> dict[str, Any]:
    """A line of reference."""
    place = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1]}
    return {"type": "line", **place, "line": {"color": "var(--quiet)", "width": 1.2, "dash": dash}}


def _time_figure(window: Window) -> go.Figure:
    figure = blank_figure(window.clock.title, "")
    figure.update_layout(
        hovermode="x unified",
        margin_l=48,  # wide enough for nearly all labels, so that charts are aligned
        xaxis={
            "type": "date" if window.clock.kind == "timestamp" else "linear",
            "range": window.range(window.first),
            "hoverformat": window.clock.pattern,
        },
    )
    return figure


def _band(x: Any, low: Vector, high: Vector, colour: str) -> list[go.Scatter]:
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        go.Scatter(x=x, y=low, **edge),
        go.Scatter(x=x, y=high, fill="tonexty", fillcolor=colour, **edge),
    ]


def _points(
    clock: Clock, points: Points, name: str, symbol: str, size: float, pause: float
) -> go.Scatter:
    times, values = thin(points)
    colour = f"var(--{name.replace(' ', '-')})"
    is_line = len(values) > _MOST_MARKERS
    if is_line:  # broken at gaps; thinning leaves out a few rows at most
        numbers = clock.numbers(times)
        steps = np.diff(numbers)
        breaks = np.flatnonzero(steps > max(pause, 4 * float(np.median(steps)))) + 1
        times = clock.times(np.insert(numbers, breaks, numbers[breaks]))
        values = np.insert(values, breaks, np.nan)
    return go.Scatter(
        x=clock.drawn(times),
        y=values,
        name=name,
        mode="lines" if is_line else "markers",
        opacity=0.65 if is_line else 0.85,
        marker={"color": colour, "size": size, "symbol": symbol},
        line={"color": colour, "width": 1},
        connectgaps=False,
        hovertemplate=f"{name} %{{y:.{digits_for(points[1])}~g}}<extra></extra>",
    )


def _end_of_training(window: Window, end: float) -> dict[str, Any]:
    (x, _) = window.range((end, end))
    return line((x, x), (0, 1), "dash") | {"yref": "paper"}


def _value_range(values: Vector, mean: Vector) -> list[float]:
    """All observations, as much again for the mean, and some room for intervals."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = (high - low) or abs(high) or 1.0
    low, high = max(low - room, min(low, mean.min())), min(high + room, max(high, mean.max()))
    return [low - 0.35 * room, high + 0.35 * room]
