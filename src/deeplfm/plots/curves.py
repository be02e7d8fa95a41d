"""Functions of time with a band: components of a forecast, latent forces, hidden layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray
from scipy.stats import norm

from deeplfm.plots.dense import envelope, outline
from deeplfm.plots.style import (
    entitle,
    finished,
    grouped,
    layer_and_part,
    limit_y,
    line_style,
    lowest,
    mark_end,
    panels,
    tidy,
)
from deeplfm.plots.timeaxis import TimeAxis

if TYPE_CHECKING:
    from deeplfm.inspection.forces import Curve

Band = tuple[Float64[ndarray, " N"], Float64[ndarray, " N"], Float64[ndarray, " N"]]


def plot_band(
    ax: Axes, position: Float64[ndarray, " N"], band: Band, label: str, look: dict[str, Any]
) -> Axes:
    """Draw a mean and the band around it."""
    mean, low, high = band
    tidy(ax).fill_between(
        *envelope(position, low, high),
        color=look["color"],
        alpha=0.18,
        linewidth=0,
        label=label,
        zorder=1,
    )
    ax.plot(*outline(position, mean), **look, linewidth=1.3, zorder=3)
    ax.set_xlim(position[0], position[-1])
    return ax


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
    look = line_style(style) | {"label": curve.label if label is None else label}
    band = _band(curve, coverage)
    return axis.dress(plot_band(ax, axis.positions(time), band, _band_label(coverage), look))


def components_figure(
    table: pd.DataFrame,
    *,
    end: Any = None,
    coverage: float = 0.95,
    time_label: str = "time",
    title: str | None = None,
) -> Figure:
    """A panel for each component of a forecast, a column of panels for each target.

    Args:
        table: such as ``DeepLFMForecaster.components`` returns, times increasing.
        end: last time of the training data, which is marked; not if ``None``.
        coverage: of the bands in the table, for the legend.
        time_label: of the horizontal axis; zone or unit are added to it.
        title: of the whole figure.
    """
    axis = TimeAxis(table.index)
    position = axis.positions(table.index)
    targets, names = (table.columns.unique(level) for level in ("target", "component"))
    figure, axes = panels(len(targets) * len(names), n_columns=len(targets))
    keys = [(target, name) for name in names for target in targets]
    for ax, (target, name) in zip(axes, keys, strict=True):
        part = table[target][name]
        band = tuple(part[value].to_numpy() for value in ("mean", "low", "high"))
        plot_band(ax, position, band, _band_label(coverage), line_style(0) | {"label": "mean"})
        if end is not None and (at := axis.positions(end)[0]) < position[-1]:
            mark_end(ax, at)
        _limit_to_bands(ax, [band])
        entitle(ax, name if len(targets) == 1 else f"{target}: {name}")
    return _over_time(figure, axes, axis, time_label, title)


def forces_figure(
    time: Any,
    curves: Sequence[Curve],
    *,
    time_label: str = "time",
    coverage: float = 0.95,
    title: str | None = None,
) -> Figure:
    """A panel for each force, with a line and a band for each model that has it.

    Args:
        time: of each row of the curves, increasing: numbers, timestamps or durations.
        curves: such as ``DeepLFMRegressor.forces`` returns.
        time_label: of the horizontal axis; zone or unit are added to it.
        coverage: of the bands.
        title: of the whole figure.
    """
    axis = TimeAxis(time)
    forces = grouped(curves, lambda curve: curve.label)
    figure, axes = _curve_panels(axis, time, forces, lambda curve: curve.member, coverage)
    return _over_time(figure, axes, axis, time_label, title)


def hidden_figure(
    time: Any,
    curves: Sequence[Curve],
    *,
    time_label: str = "time",
    coverage: float = 0.95,
    title: str | None = None,
) -> Figure:
    """Hidden layers as functions of time: a panel for each layer of each model, a line for each unit.

    A layer that only passed time on would be the straight line that is drawn for comparison.

    Args:
        time: of each row of the curves, increasing: numbers, timestamps or durations.
        curves: such as ``DeepLFMRegressor.hidden_layers`` returns, labelled "layer 1, unit 2".
        time_label: of the horizontal axis; zone or unit are added to it.
        coverage: of the bands.
        title: of the whole figure.
    """
    axis = TimeAxis(time)
    layers = grouped(curves, lambda curve: f"{curve.member}: {layer_and_part(curve.label)[0]}")
    figure, axes = _curve_panels(
        axis, time, layers, lambda curve: layer_and_part(curve.label)[1], coverage
    )
    ends = axis.positions(time)[[0, -1]]
    for ax, group in zip(axes, layers.values(), strict=True):
        means = np.concatenate([curve.mean for curve in group])  # units have scales of their own
        line = [means.min(), means.max()]
        ax.plot(ends, line, color="#a8a8a8", linewidth=0.7, label="time itself, scaled", zorder=2)
    return _over_time(figure, axes, axis, time_label, title)


def _curve_panels(
    axis: TimeAxis,
    time: Any,
    groups: Mapping[str, Sequence[Curve]],
    legend: Callable[[Curve], str],
    coverage: float,
) -> tuple[Figure, list[Axes]]:
    """A panel for each group of curves; curves with the same name in the legend look the same."""
    names = list(dict.fromkeys(legend(curve) for group in groups.values() for curve in group))
    figure, axes = panels(len(groups))
    for ax, (title, group) in zip(axes, groups.items(), strict=True):
        for curve in group:
            name = legend(curve)
            style = names.index(name)
            plot_curve(ax, time, curve, style=style, label=name, coverage=coverage, axis=axis)
        _limit_to_bands(ax, [_band(curve, coverage) for curve in group])
        entitle(ax, title)
    return figure, axes


def _over_time(
    figure: Figure, axes: Sequence[Axes], axis: TimeAxis, time_label: str, title: str | None
) -> Figure:
    for ax in axes:
        axis.dress(ax)
    for ax in lowest(axes):
        axis.dress(ax, time_label)
    return finished(figure, title)


def _band(curve: Curve, coverage: float) -> Band:
    reach = norm.isf((1 - coverage) / 2) * curve.std
    return curve.mean, curve.mean - reach, curve.mean + reach


def _band_label(coverage: float) -> str:
    return f"{100 * coverage:g} % band"


def _limit_to_bands(ax: Axes, bands: Sequence[Band]) -> None:
    """Show every mean with a band of its usual width; where it is much wider it is cut."""
    seen = []
    for mean, low, high in bands:
        width = float(np.median(high - low)) / 2
        seen.append(np.array([mean.min() - width, mean.max() + width]))
    limit_y(ax, seen)
