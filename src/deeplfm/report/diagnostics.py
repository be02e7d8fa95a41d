"""Charts that judge a model and look inside it: calibration and spectrum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.report.figures import blank_figure, line, literal, rectangle

Vector = Float64[ndarray, " n"]

_LEAST_POWER = 0.1  # per cent of it, in a wave that is drawn


def position_chart(positions: Vector) -> go.Figure:
    """Histogram of the predictive distribution function at the observations: flat where honest."""
    n_bins = 20 if len(positions) >= 400 else 10
    counts, edges = np.histogram(positions, bins=n_bins, range=(0, 1))
    chance = 1.96 * np.sqrt((n_bins - 1) / len(positions))
    figure = blank_figure("position within the forecast", "density")
    figure.add_trace(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts * n_bins / len(positions),
            width=0.92 / n_bins,
            marker={"color": "var(--mean)", "line": {"width": 0}},
            customdata=np.stack([edges[:-1], edges[1:], counts], axis=1),
            hovertemplate="%{customdata[0]:.2f} to %{customdata[1]:.2f}: "
            "%{customdata[2]} observations<extra></extra>",
        )
    )
    figure.update_layout(
        shapes=[
            rectangle((0, 1), (max(0, 1 - chance), 1 + chance), "var(--chance)", yref="y"),
            line((0, 1), (1, 1)),
        ],
        xaxis_range=[0, 1],
        hovermode="closest",
    )
    return figure


def coverage_chart(positions: Vector) -> go.Figure:
    """Share of the observations that lie inside the central interval of every level."""
    levels = np.linspace(0, 1, 101)
    inside = (2 * np.abs(positions - 0.5)[:, None] <= levels).mean(0)
    figure = blank_figure("level of the interval", "observations inside")
    figure.add_trace(
        go.Scatter(
            x=levels,
            y=inside,
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
    """Share of the power in every wave, one stem each.

    Args:
        frequency: in cycles per unit.
        power: share of the total, in per cent.
        unit: of time, in words.
        periods: of the waves, in words.
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
