"""How training went: the loss of each start, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from deeplfm.plots.dense import outline
from deeplfm.plots.style import (
    NORMAL,
    SMALL,
    escaped,
    inches,
    line_style,
    panels,
    shortened,
    tidy,
)

_SETTLING = 0.05  # of the steps of a start, in which the loss may fall from anywhere
_WINDOWS = 50  # of the running mean in a run; a run shorter than twice that is not smoothed
_LINE = 0.16  # inches that one label takes


def plot_learning(ax: Axes, history: pd.DataFrame) -> Axes:
    """Draw a line for each start, with its name at its end.

    Where the loss is drawn from few rows at a time it is noisy: the pale line is every step, the strong
    one its running mean. The first few steps, which may fall from anywhere, are cut off at the top.

    Args:
        ax: where to draw.
        history: one row for each step, with the columns ``start``, ``step`` and ``loss``, such as
            ``DeepLFMRegressor.history_``.
    """
    tidy(ax)
    ends, ranges = {}, []
    for number, (start, rows) in enumerate(history.groupby("start", sort=False)):
        rows = rows[np.isfinite(rows["loss"])]
        if rows.empty:
            continue
        step, loss = (rows[name].to_numpy(dtype=np.float64) for name in ("step", "loss"))
        look, smooth = line_style(number), _running_mean(loss)
        if smooth is not loss:
            ax.plot(*outline(step, loss), color=look["color"], alpha=0.25, linewidth=0.6)
        marker = "o" if len(step) == 1 else ""
        ax.plot(*outline(step, smooth), **look, linewidth=1.4, marker=marker, label=str(start))
        ends[str(start)] = _End(step[-1], smooth[-1], look["color"])
        settled = smooth[int(_SETTLING * len(smooth)) :]
        ranges.append((settled.min(), settled.max()))
    ax.set_ylim(*_visible(ranges, [end.loss for end in ends.values()]))
    smoothed = any(line.get_alpha() for line in ax.lines)
    ax.set_xlabel("step" + smoothed * " (pale: every step, strong: running mean)", fontsize=NORMAL)
    ax.set_ylabel("loss (nats per row)", fontsize=NORMAL)
    _label_ends(ax, ends)
    return ax


def learning_figure(history: pd.DataFrame, *, title: str | None = None) -> Figure:
    """The learning curves of all starts in one panel.

    Args:
        history: one row for each step, with the columns ``start``, ``step`` and ``loss``.
        title: of the whole figure.
    """
    figure, (ax,) = panels(1)
    plot_learning(ax, history)
    if title:
        figure.suptitle(escaped(title), fontsize=11)
    return figure  # the lines carry their names: no legend


@dataclass(frozen=True)
class _End:
    """Where the line of a start ends."""

    step: float
    loss: float
    color: str


def _running_mean(loss: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Mean over the window around each step, shorter at both ends."""
    half = len(loss) // (2 * _WINDOWS)
    if not half:
        return loss
    total = np.concatenate([[0.0], np.cumsum(loss)])
    index = np.arange(len(loss))
    first, last = np.maximum(index - half, 0), np.minimum(index + half + 1, len(loss))
    return (total[last] - total[first]) / (last - first)


def _visible(ranges: list[tuple[float, float]], ends: list[float]) -> tuple[float, float]:
    """Limits that show what most starts did, and where all ended that are not far above the rest."""
    if not ranges:
        return 0.0, 1.0
    low, tops = min(least for least, _ in ranges), sorted(most for _, most in ranges)
    upper_half = tops[(len(tops) - 1) // 2 :]
    usual = next((top - low for top in upper_half if top > low), 0.0)
    high = max(
        *(top for top in tops if top - low <= 3 * usual),
        *(end for end in ends if end - low <= 10 * usual),
    )
    margin = 0.08 * (high - low) or 0.5
    return low - margin, high + margin


def _label_ends(ax: Axes, ends: dict[str, _End]) -> None:
    """Names beside the ends of their lines, pushed apart where they would overlap."""
    low, high = ax.get_ylim()
    _, height = inches(ax)
    names = sorted(ends, key=lambda name: ends[name].loss)
    wanted = np.clip([(ends[name].loss - low) / (high - low) for name in names], 0, 1)
    for name, place in zip(names, _spread(wanted, _LINE / height), strict=True):
        end = ends[name]
        ax.annotate(
            escaped(shortened(name, 30)) + (" ↑" if end.loss > high else ""),
            (end.step, min(end.loss, high)),
            (1.02, place),
            textcoords="axes fraction",
            fontsize=SMALL,
            color=end.color,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": end.color, "linewidth": 0.5, "alpha": 0.6},
        )


def _spread(wanted: Float64[ndarray, " n"], distance: float) -> Float64[ndarray, " n"]:
    """Increasing places at least a distance apart, upwards, then back down from the upper end."""
    places = wanted.copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + distance)
    ceiling = 1.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - distance
    return places
