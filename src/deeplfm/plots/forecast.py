"""Forecasts: fans over time, with training data, held-out data and gaps; and the figure of the toy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from deeplfm.data.simulated import ToyData
from deeplfm.errors import InputError
from deeplfm.plots.dense import gaps_of, plot_observations
from deeplfm.plots.fan import Fan, fans_of, plot_fan
from deeplfm.plots.style import (
    DARK,
    GREEN,
    ORANGE,
    SMALL,
    VERMILION,
    Marks,
    column,
    entitle,
    finished,
    limit_y,
    lowest,
    mark_end,
    panels,
    tidy,
)
from deeplfm.plots.timeaxis import TimeAxis
from deeplfm.predictive.mixture import Predictive

HELD_OUT = "held-out data"

Points = tuple[Float64[ndarray, " n"], Float64[ndarray, " n"]]

_TRAINING = Marks("training data", "#707070", "o", 3.0)
_LATER = (
    Marks(HELD_OUT, VERMILION, "x", 3.6),
    Marks("more held-out data", ORANGE, "^", 3.6),
    Marks("yet more held-out data", GREEN, "s", 3.2),
)


def plot_forecast(
    ax: Axes,
    time: Any,
    fan: Fan,
    *,
    training: pd.Series | None = None,
    later: Mapping[str, pd.Series] | None = None,
    since: Any = None,
    axis: TimeAxis | None = None,
    time_label: str | None = None,
) -> Axes:
    """Draw the fan of one output over time, its observations, their gaps and where they end.

    Args:
        ax: where to draw.
        time: of each predicted row, increasing: numbers, timestamps or durations.
        fan: prediction of those rows.
        training: values that the model was fitted to, indexed by time; NaN where missing. Gaps are
            hatched and the last row is marked.
        later: other values, indexed by time, by their name in the legend.
        since: first time to show; everything if ``None``.
        axis: of all panels together; found from the times of this one if ``None``.
        time_label: of the horizontal axis.
    """
    named = {_TRAINING.label: training} if training is not None else {}
    named |= later or {}
    axis = axis or TimeAxis(time, *(series.index for series in named.values()))
    position = axis.positions(time)
    if len(position) != len(fan.mean):
        raise InputError(
            f"time: {len(position)} rows, but the prediction has {len(fan.mean)}. "
            "Give the times that were predicted."
        )
    first = -np.inf if since is None else axis.positions(since)[0]
    data = {name: _observed(axis, series, first) for name, series in named.items()}
    keep = position >= first
    position, fan = position[keep], fan.rows(keep)

    tidy(ax)
    plot_fan(ax, position, fan)
    marks = cycle(_LATER)
    for name, points in data.items():
        is_training = name == _TRAINING.label
        style = _TRAINING if is_training else replace(next(marks), label=name)
        plot_observations(ax, *points, style, zorder=2.0 if is_training else 3.0)
    if training is not None:
        seen, _ = data[_TRAINING.label]
        _mark_gaps(ax, *data[_TRAINING.label])
        if len(seen) and seen[-1] < ax.dataLim.x1:
            mark_end(ax, float(seen[-1]))
    _limit_x([ax])
    axis.dress(ax, time_label)
    return limit_y(ax, [value for _, value in data.values()], fan.mean)


def forecast_figure(
    time: Any,
    predictions: Mapping[str, Fan],
    training: pd.DataFrame | None = None,
    later: pd.DataFrame | None = None,
    *,
    later_label: str = HELD_OUT,
    time_label: str = "time",
    since: Any = None,
    title: str | None = None,
) -> Figure:
    """A panel for each output: its fan, training data with gaps, and held-out data.

    Panels share the time axis: one column up to four outputs, two up to eight, three beyond.

    Args:
        time: of each predicted row, increasing: numbers, timestamps (any zone) or durations.
        predictions: fan of each output by its name; see ``fans_of``.
        training: values that the model was fitted to, indexed by time in order, with a column for each
            output; NaN where missing. Other columns are left out; outputs without one have no points.
        later: other values, likewise.
        later_label: their name in the legend.
        time_label: of the horizontal axis; zone or unit are added to it.
        since: first time to show, to look at the end of a long series; everything if ``None``.
        title: of the whole figure.

    Example:
        >>> import numpy as np
        >>> time = np.linspace(0, 1, 5)
        >>> fan = Fan(time**2, {0.95: (time**2 - 1, time**2 + 1)})
        >>> len(forecast_figure(time, {"pressure": fan}).axes)
        1
    """
    frames = [frame for frame in (training, later) if frame is not None]
    axis = TimeAxis(time, *(frame.index for frame in frames))
    figure, axes = panels(len(predictions))
    for ax, (name, fan) in zip(axes, predictions.items(), strict=True):
        held_out = column(later, name)
        plot_forecast(
            ax,
            time,
            fan,
            training=column(training, name),
            later={} if held_out is None else {later_label: held_out},
            since=since,
            axis=axis,
        )
        entitle(ax, name)
    _limit_x(axes)
    for ax in lowest(axes):
        axis.dress(ax, time_label)
    return finished(figure, title)


def _observed(axis: TimeAxis, series: pd.Series, first: float) -> Points:
    """Positions and values of a series from a position on, in order."""
    position = axis.positions(series.index)
    order = np.argsort(position, kind="stable")
    order = order[position[order] >= first]
    return position[order], series.to_numpy(dtype=np.float64)[order]


def _limit_x(axes: Sequence[Axes]) -> None:
    """Show all that is drawn in any panel, with a margin: points on the edge would be cut."""
    start, end = min(ax.dataLim.x0 for ax in axes), max(ax.dataLim.x1 for ax in axes)
    if np.isfinite([start, end]).all():
        margin = 0.015 * (end - start) or 0.5
        for ax in axes:
            ax.set_xlim(start - margin, end + margin)


def _mark_gaps(ax: Axes, position: Float64[ndarray, " n"], value: Float64[ndarray, " n"]) -> None:
    hatching: dict[str, Any] = {"facecolor": "none", "edgecolor": "#b0b0b0", "hatch": "////"}
    label = "gap in the training data"
    for start, end in gaps_of(position, value):
        ax.axvspan(start, end, **hatching, linewidth=0, label=label, zorder=1.9)
        label = "_"


def toy_figure(
    data: ToyData, posteriors: Mapping[str, Predictive], titles: Mapping[str, str]
) -> Figure:
    """The paper's figure of the toy: one panel for each model, with a title such as its scores."""
    series = pd.Series(data.standardised(data.value), index=data.time)
    parts = {f"{name} test": getattr(data, name) for name in ("extrapolation", "interpolation")}
    n_models = len(posteriors)
    n_columns = n_models if n_models < 4 else 2
    figure, axes = panels(n_models, n_columns=n_columns, width=4.2 * n_columns, height=2.2)
    for ax, (name, posterior) in zip(axes, posteriors.items(), strict=True):
        plot_forecast(
            ax,
            data.time,
            fans_of(posterior, [name])[name],
            training=series.iloc[data.train],
            later={label: series.iloc[rows] for label, rows in parts.items()},
            time_label="time",
        )
        ax.set_title(titles[name], loc="left", fontsize=SMALL, color=DARK, linespacing=1.4)
        above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        ax.annotate(name, (0, 1), (0, 34), fontsize=12, fontweight="bold", **above)
    for number, ax in enumerate(axes):
        if number:
            ax.sharey(axes[0])
        if number % n_columns:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel("y, standardised")
    return finished(figure)
