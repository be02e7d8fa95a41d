"""The common style of all figures: colours, lines, grids of panels, one legend per figure."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy import ndarray

from deeplfm.errors import InputError

T = TypeVar("T")

# Colours of Okabe and Ito, without yellow, which is hard to see on white.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
GREY, DARK = "#808080", "#444444"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))

SMALL, NORMAL = 8.0, 9.0  # points

_MOST_ROWS = 4  # of panels, before another column is begun
_MOST_COLUMNS = 3
_WIDTHS = {1: 8.0, 2: 11.0, 3: 14.0}  # inches, by number of columns
_CHARACTER, _BOLD_CHARACTER, _HANDLE = 0.065, 0.08, 0.55  # inches that each takes in a row of text
_LONGEST_LABEL, _LEGEND_ROW = 45, 0.17  # letters, inches


@dataclass(frozen=True)
class Marks:
    """How one kind of observations is drawn: as points, or as a line where there are very many."""

    label: str
    color: str
    marker: str
    size: float = 3.5


class Picture(Figure):
    """A figure that a notebook shows, whether or not pyplot is used there."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the line of this number; both change, for prints in grey."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def tint(color: str, strength: float) -> tuple[float, float, float]:
    """A colour mixed with white: opaque, so that legend and axes show the same."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(color))
    return red, green, blue


def panels(
    n_panels: int,
    *,
    n_columns: int | None = None,
    width: float | None = None,
    height: float = 1.9,
    share_x: bool = True,
) -> tuple[Figure, list[Axes]]:
    """An empty figure with this many panels, filled row by row; one column up to four panels."""
    if n_panels < 1:
        raise InputError("figure: there is nothing to draw. Give at least one output, or curve.")
    n_columns = n_columns or min(_MOST_COLUMNS, -(-n_panels // _MOST_ROWS))
    n_rows = -(-n_panels // n_columns)
    size = (
        width or _WIDTHS.get(n_columns, _WIDTHS[_MOST_COLUMNS]),
        0.8 + n_rows * height * (1.5 if n_rows == 1 else 1.0),
    )
    figure = Picture(figsize=size, dpi=150, layout=ConstrainedLayoutEngine(h_pad=0.07, w_pad=0.07))
    grid = figure.subplots(n_rows, n_columns, sharex=share_x, squeeze=False).ravel().tolist()
    for ax in grid[n_panels:]:
        ax.remove()
    axes = grid[:n_panels]
    for ax in axes[-n_columns:]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
    for ax in axes:
        tidy(ax)
    return figure, axes


def lowest(axes: Sequence[Axes]) -> list[Axes]:
    """Panels with no other below them: these have the label of the horizontal axis."""
    specs = [ax.get_subplotspec() for ax in axes]
    last = {spec.colspan.start: ax for ax, spec in zip(axes, specs, strict=True) if spec}
    return list(last.values())


def inches(ax: Axes) -> tuple[float, float]:
    """About the width and height of a panel, labels included."""
    return ax.bbox.width / ax.figure.dpi, ax.bbox.height / ax.figure.dpi


def tidy(ax: Axes) -> Axes:
    """Two spines, a light grid behind the data, small numbers."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(GREY)
    ax.grid(True, color="#e6e6e6", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL, color=GREY, labelcolor=DARK)
    return ax


def mark_end(ax: Axes, position: float) -> None:
    """A vertical line at the last row of the training data."""
    dashes = (0, (4, 2))
    label = "end of the training data"
    ax.axvline(position, color=DARK, linewidth=1.0, linestyle=dashes, label=label, zorder=3.5)


def entitle(ax: Axes, name: str, *, unit: str | None = None, n_wide: int = 1) -> Axes:
    """Name of a panel at its upper left, on at most two lines, and the unit beside the axis."""
    width = max(12, int(n_wide * inches(ax)[0] / _BOLD_CHARACTER))
    lines = textwrap.wrap(name, width)
    if len(lines) > 2:
        lines = textwrap.wrap(shortened(name, 2 * width - 12), width)[:2]
    ax.set_title(escaped("\n".join(lines)), loc="left", fontsize=NORMAL, fontweight="bold")
    if unit:
        ax.set_ylabel(escaped(unit), fontsize=NORMAL)
    return ax


def shortened(text: str, length: int) -> str:
    """A text with its middle left out if it is too long: names often differ at their end."""
    if len(text) <= length:
        return text
    half = (length - 3) // 2
    head, tail = text[:half], text[-half:]
    if " " in head.strip() and " " in tail.strip():  # whole words, where there are any
        head, tail = head.rsplit(" ", 1)[0], tail.split(" ", 1)[1]
    return f"{head.rstrip(' ,')} … {tail.lstrip()}"


def escaped(text: str) -> str:
    """A text without formulas: matplotlib reads them between two dollar signs."""
    return text.replace("$", r"\$")


def finished(figure: Figure, title: str | None = None) -> Figure:
    """The figure with its title, and one legend below all panels with every label once."""
    if title:
        figure.suptitle(escaped(title), fontsize=11)
    entries: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(escaped(shortened(label, _LONGEST_LABEL)), handle)
    if entries:
        widest = max(map(len, entries))
        fitting = int(0.95 * figure.get_figwidth() / (_HANDLE + _CHARACTER * widest))
        n_rows = -(-len(entries) // max(1, fitting))
        figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * max(0, n_rows - 2))
        legend = figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=-(-len(entries) // n_rows),
            frameon=False,
            fontsize=SMALL,
        )
        for line in legend.get_lines():
            line.set(linewidth=max(1.2, line.get_linewidth()), alpha=1)
        for patch in legend.get_patches():
            patch.set_linewidth(min(1.2, patch.get_linewidth()))
    return figure


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """Items by key, in the order of first appearance."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def layer_and_part(label: str) -> tuple[str, str]:
    """The two parts of a label such as "layer 1, unit 2"."""
    layer, _, part = label.partition(", ")
    return layer, part or "whole layer"


def column(frame: pd.DataFrame | None, name: str) -> pd.Series | None:
    """A column as numbers, if there is one; NaN where missing."""
    if frame is None or name not in frame:
        return None
    return pd.to_numeric(frame[name]).astype("float64")


def limit_y(
    ax: Axes,
    values: Iterable[Float64[ndarray, " _"]],
    line: Float64[ndarray, " _"] | None = None,
) -> Axes:
    """Show all of these values and at most as much again on either side: an interval may be enormous."""
    known = np.concatenate([np.ravel(part) for part in values] or [np.zeros(0)])
    known = known[np.isfinite(known)]
    if not len(known):
        return ax if line is None else limit_y(ax, [line])
    least, most, room = _extent(known)
    if line is not None:
        near = np.clip(line[np.isfinite(line)], least - room, most + room)
        least, most, room = _extent(np.append(near, known))
    low, high = ax.get_ylim()
    margin = 0.05 * room
    ax.set_ylim(
        min(max(low, least - room), least - margin), max(min(high, most + room), most + margin)
    )
    return ax


def _extent(values: Float64[ndarray, " N"]) -> tuple[float, float, float]:
    """The least and the most of some values, and their distance."""
    least, most = float(values.min()), float(values.max())
    return least, most, most - least or max(1e-3, 0.1 * abs(most))
