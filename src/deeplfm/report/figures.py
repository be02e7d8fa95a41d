"""What all figures have in common; their colours are names that the style sheet defines."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go


def blank_figure(x_title: str, y_title: str) -> go.Figure:
    """A figure with nothing in it yet, in the manner of all figures of the page."""
    axis = {
        "gridcolor": "var(--rule)",
        "zerolinecolor": "var(--rule)",
        "linecolor": "var(--rule)",
        "automargin": True,
        "ticklabeloverflow": "allow",
        "title": {"font": {"size": 12}, "standoff": 8},
    }
    figure = go.Figure(
        layout={
            "template": "none",
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": "var(--text)"},
            "margin": {"l": 8, "r": 18, "t": 8, "b": 8},
            "showlegend": False,
            "xaxis": axis | {"showgrid": False, "zeroline": False},
            "yaxis": axis,
            "hoverlabel": {
                "bgcolor": "var(--hover)",
                "bordercolor": "var(--rule)",
                "font": {"color": "var(--text)", "size": 12},
            },
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": "var(--quiet)",
                "activecolor": "var(--text)",
            },
        }
    )
    figure.update_layout(xaxis_title_text=literal(x_title), yaxis_title_text=literal(y_title))
    return figure


def literal(text: str) -> str:
    """User's text that a chart shows as it is: neither markup nor placeholders."""
    return html.escape(text).replace("%", "&#37;").replace("$", "&#36;")


def rectangle(
    x: Sequence[Any], y: tuple[float, float], colour: str, yref: str = "paper"
) -> dict[str, Any]:
    """A shaded stretch behind the data."""
    return {
        "type": "rect",
        "x0": x[0],
        "x1": x[1],
        "y0": y[0],
        "y1": y[1],
        "yref": yref,
        "fillcolor": colour,
        "line": {"width": 0},
        "layer": "below",
    }


def line(x: tuple[Any, Any], y: tuple[float, float], dash: str = "dot") -> dict[str, Any]:
    """A line to compare with."""
    return {
        "type": "line",
        "x0": x[0],
        "x1": x[1],
        "y0": y[0],
        "y1": y[1],
        "line": {"color": "var(--quiet)", "width": 1.2, "dash": dash},
    }
