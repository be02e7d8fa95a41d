"""What happens inside a model over time: forces and hidden layers, as lines with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray
from scipy.stats import norm

from deeplfm.plots.dense import envelope, outline
from deeplfm.plots.grouping import grouped, layer_and_part
from deeplfm.plots.style import (
    entitle,
    finished,
    limit_y,
    line_style,
    lowest,
    panels,
    tidy,
)
from deeplfm.plots.timeaxis import TimeAxis

if TYPE_CHECKING:
    from deeplfm.inspection.forces import Curve


def plot_curve(
    ax: Axes,
    time: Any,
    curve: Curve,
    *,
    style: int = 0,
    label: str | None = None,
    coverage: float = 0.95,
    axis: TimeAxis | None = None,
) -> Axes:
    """Draw a function of time with the band that holds it with a probability.

    Args:
        ax: where to draw.
        time: of each row of the curve, increasing: numbers, timestamps or durations.
        curve: the function.
        style: number of its colour and dashes.
        label: for the legend; the curve's own if ``None``.
        coverage: of the band.
        axis: of all panels together; found from the times if ``None``.
    """
    axis = axis or TimeAxis(time)
    position = axis.positions(time)
    reach = norm.isf((1 - coverage) / 2) * curve.std
    look = line_style(style)
    tidy(ax)
    ax.fill_between(
        *envelope(position, curve.mean - reach, curve.mean + reach),
        color=look["color"],
        alpha=0.18,
        linewidth=0,
        label=f"{100 * coverage:g} % band",
        zorder=1,
    )
    ax.plot(
        *outline(position, curve.mean),
        **look,
        linewidth=1.3,
        label=curve.label if label is None else label,
        zorder=3,
    )
    ax.set_xlim(position[0], position[-1])
    return axis.dress(ax)


def forces_figure(
    time: Any,
    curves: Sequence[Curve],
    *,
    time_label: str = "time",
    coverage: float = 0.95,
    title: str | None = None,
) -> Figure:
    """A panel for each force, with a line and a band for each model of the stack that has it.

    Args:
        time: of each row of the curves, increasing: numbers, timestamps or durations.
        curves: such as ``DeepLFMRegressor.forces`` returns.
        time_label: of the horizontal axis; zone or unit are added to it.
        coverage: of the bands.
        title: of the whole figure.
    """
    axis = TimeAxis(time)
    members = list(grouped(curves, lambda curve: curve.member))
    forces = grouped(curves, lambda curve: curve.label)
    figure, axes = panels(len(forces))
    for ax, (name, group) in zip(axes, forces.items(), strict=True):
        for curve in group:
            style, label = members.index(curve.member), curve.member
            plot_curve(ax, time, curve, style=style, label=label, coverage=coverage, axis=axis)
        _limit_to_bands(ax, group, coverage)
        entitle(ax, name)
    for ax in lowest(axes):
        axis.dress(ax, time_label)
    return finished(figure, title)


def hidden_figure(
    time: Any,
    curves: Sequence[Curve],
    *,
    time_label: str = "time",
    coverage: float = 0.95,
    title: str | None = None,
) -> Figure:
    """What each hidden layer does to time: a panel for each layer of each model, a line for each unit.

    A layer that only passed time on would be the straight line that is drawn for comparison.

    Args:
        time: of each row of the curves, increasing: numbers, timestamps or durations.
        curves: such as ``DeepLFMRegressor.hidden_layers`` returns, labelled "layer 1, unit 2".
        time_label: of the horizontal axis; zone or unit are added to it.
        coverage: of the bands.
        title: of the whole figure.
    """
    axis = TimeAxis(time)
    units = list(grouped(curves, lambda curve: layer_and_part(curve.label)[1]))
    layers = grouped(curves, lambda curve: f"{curve.member}: {layer_and_part(curve.label)[0]}")
    figure, axes = panels(len(layers))
    for ax, (name, group) in zip(axes, layers.items(), strict=True):
        for curve in group:
            unit = layer_and_part(curve.label)[1]
            style = units.index(unit)
            plot_curve(ax, time, curve, style=style, label=unit, coverage=coverage, axis=axis)
        _limit_to_bands(ax, group, coverage)
        _plot_identity(ax, axis.positions(time), group)
        entitle(ax, name)
    for ax in lowest(axes):
        axis.dress(ax, time_label)
    return finished(figure, title)


def _limit_to_bands(ax: Axes, curves: Sequence[Curve], coverage: float) -> None:
    """Show every mean within a band as wide as it usually is; where it is enormous it is cut."""
    reach = norm.isf((1 - coverage) / 2)
    usual = [reach * float(np.median(curve.std)) for curve in curves]
    limit_y(
        ax,
        [
            np.array([curve.mean.min() - width, curve.mean.max() + width])
            for curve, width in zip(curves, usual, strict=True)
        ],
    )


def _plot_identity(ax: Axes, position: Float64[ndarray, " N"], curves: Sequence[Curve]) -> None:
    """Time itself, stretched to the range of the curves: units have a scale of their own."""
    low = min(float(curve.mean.min()) for curve in curves)
    high = max(float(curve.mean.max()) for curve in curves)
    ax.plot(
        position[[0, -1]],
        [low, high],
        color="#a8a8a8",
        linewidth=0.7,
        label="time itself, scaled",
        zorder=2,
    )
