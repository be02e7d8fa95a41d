"""Series of very many rows, reduced to what a figure can show."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from matplotlib.axes import Axes
from numpy import ndarray

from deeplfm.plots.style import Marks

MOST_POINTS = 1500  # drawn one by one; beyond, a line shows the shape of the data better
_N_BINS = 2000  # about the pixels of a figure's width
MOST_ROWS = 2 * _N_BINS  # drawn as they are

Vector = Float64[ndarray, " n"]
Thinned = Float64[ndarray, " b"]


def envelope(position: Vector, low: Vector, high: Vector) -> tuple[Thinned, Thinned, Thinned]:
    """Least of ``low`` and most of ``high`` in narrow bins of the horizontal axis.

    Few rows are returned unchanged. The figure looks the same either way, but takes the time and the
    file size of a few thousand rows.
    """
    if len(position) <= MOST_ROWS:
        return position, low, high
    first = _first_of_bins(position)
    return position[first], np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)


def outline(position: Vector, value: Vector) -> tuple[Thinned, Thinned]:
    """A line that looks like the one through all rows: the least and the most of every bin."""
    if len(position) <= MOST_ROWS:
        return position, value
    position, low, high = envelope(position, value, value)
    return np.repeat(position, 2), np.column_stack([low, high]).ravel()


def gaps_of(time: Vector, value: Vector) -> list[tuple[float, float]]:
    """Intervals without a known value that are much longer than the usual step, in order.

    Much longer is four times the 90 % quantile of the steps between known values: single missing values,
    or times drawn at random, make no gaps. The first and the last row are ends even if their values are
    missing.
    """
    known = time[np.isfinite(value)]
    if len(known) < 3:
        return []
    usual = float(np.quantile(np.diff(known), 0.9))
    ends = np.concatenate([time[:1], known, time[-1:]])
    steps = np.diff(ends)
    visible = 0.004 * (time[-1] - time[0])
    at = np.flatnonzero(steps > max(4 * usual, visible))
    return [(float(ends[i]), float(ends[i + 1])) for i in at]


def plot_observations(
    ax: Axes, position: Vector, value: Vector, marks: Marks, *, zorder: float = 2.0
) -> Axes:
    """Draw observations as points, or as a thin line broken at gaps where there are very many."""
    order = np.argsort(position, kind="stable")
    position, value = position[order], value[order]
    gaps = gaps_of(position, value)
    known = np.isfinite(value)
    position, value = position[known], value[known]
    look: dict[str, Any] = {"color": marks.color, "label": marks.label, "zorder": zorder}
    if len(position) <= MOST_POINTS:
        size = marks.size * (1 if len(position) < 400 else 0.7)
        edge = 0.8 if marks.marker in "x+" else 0
        look |= {"marker": marks.marker, "markersize": size, "markeredgewidth": edge}
        ax.plot(position, value, linestyle="", **look)
        return ax
    line, shape = outline(position, value)
    after = np.searchsorted(line, [end for _, end in gaps])
    line, shape = (np.insert(item, after, np.nan) for item in (line, shape))
    ax.plot(line, shape, linewidth=0.7, alpha=0.5, **look)  # opaque it would hide the intervals
    return ax


def _first_of_bins(position: Vector) -> Int64[ndarray, " b"]:
    """First row of every bin that holds any."""
    edges = np.linspace(position[0], position[-1], _N_BINS + 1)[:-1]
    return np.unique(np.searchsorted(position, edges))
