"""Figures: functions that draw on the axes they are given, without pyplot and its global state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from deeplfm.predictive import Predictive

if TYPE_CHECKING:
    from deeplfm.experiments.demo import DemoResult

Points = tuple[Float64[ndarray, " n"], Float64[ndarray, " n"]]

# Okabe and Ito's colours; the markers tell the points apart in grey as well.
_BLUE = "#0072B2"
_TRAIN = {"color": "#808080", "marker": ".", "s": 12}
_TESTS = {
    "interpolation": {"color": "#E69F00", "marker": "^", "s": 13, "label": "interpolation test"},
    "extrapolation": {"color": "#D55E00", "marker": "x", "s": 13, "label": "extrapolation test"},
}
_OTHER = {"color": "#009E73", "marker": "s", "s": 12}


def plot_forecast(
    ax: Axes,
    time: Float64[ndarray, " N"],
    posterior: Predictive,
    *,
    train: Points | None = None,
    tests: Mapping[str, Points] | None = None,
    output: int = 0,
) -> Axes:
    """Draw mean and 95 % interval of one output over time, with the observations.

    Args:
        ax: where to draw.
        time: time of each predicted row, increasing.
        posterior: prediction of those rows.
        train: times and values the model has seen.
        tests: times and values it has not, by name; "interpolation" and "extrapolation" have
            their own colours.
        output: which output.
    """
    low, high = (end[:, output].numpy() for end in posterior.interval(0.95))
    ax.fill_between(time, low, high, color=_BLUE, alpha=0.2, lw=0, label="95 % interval", zorder=1)
    if train is not None:
        _scatter(ax, train, {"label": "training data", **_TRAIN}, zorder=2)
    for name, points in (tests or {}).items():
        _scatter(ax, points, {"label": name, **_TESTS.get(name, _OTHER)}, zorder=3)
    mean = posterior.mean[:, output].numpy()
    ax.plot(time, mean, color="white", lw=2.8, alpha=0.7, zorder=4)  # lifts the line off the points
    ax.plot(time, mean, color=_BLUE, lw=1.6, label="predictive mean", zorder=5)
    ax.set_xlim(float(np.min(time)), float(np.max(time)))
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def toy_figure(result: DemoResult) -> Figure:
    """The paper's figure of the toy: one panel for each model, its scores in the title."""
    data = result.data
    time, value = data.time, data.standardised(data.value)
    figure = Figure(figsize=(4.2 * len(result.posteriors), 3.7), dpi=150, layout="constrained")
    axes = figure.subplots(1, len(result.posteriors), sharex=True, sharey=True, squeeze=False)[0]
    for ax, (name, posterior) in zip(axes, result.posteriors.items(), strict=True):
        plot_forecast(
            ax,
            time,
            posterior,
            train=(time[data.train], value[data.train]),
            tests={
                split: (time[index], value[index])
                for split, index in (
                    ("interpolation", data.interpolation),
                    ("extrapolation", data.extrapolation),
                )
            },
        )
        _title(ax, result, name)
        ax.set_xlabel("time")
    axes[0].set_ylabel("y, standardised")
    _limit(axes[0], value)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9
    )
    return figure


def _scatter(ax: Axes, points: Points, style: dict[str, Any], zorder: float) -> None:
    ax.scatter(*points, linewidths=0.8, zorder=zorder, **style)


def _title(ax: Axes, result: DemoResult, model: str) -> None:
    scores = "\n".join(
        f"{row.split}: NMSE {row.nmse:.2f}, MNLL {row.mnll:.2f}, coverage {row.coverage95:.0%}"
        for row in result.rows
        if row.model == model
    )
    ax.set_title(scores, loc="left", fontsize=8.5, color="#444444", linespacing=1.4)
    ax.annotate(
        model,
        (0, 1),
        (0, 34),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=12,
        fontweight="bold",
    )


def _limit(ax: Axes, value: Float64[ndarray, " N"]) -> None:
    """Show all data and at most as much again on either side: an interval may be enormous."""
    room = np.ptp(value)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, value.min() - room), min(high, value.max() + room))
