"""The figure of the demo: three models of the paper's toy side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deeplfm.plots.fan import Fan
from deeplfm.plots.forecast import plot_forecast
from deeplfm.plots.style import DARK, SMALL, finished, panels

if TYPE_CHECKING:
    from deeplfm.experiments.demo import DemoResult


def toy_figure(result: DemoResult) -> Figure:
    """The paper's figure of the toy: one panel for each model, its scores in the title."""
    data = result.data
    series = pd.Series(data.standardised(data.value), index=data.time)
    n_models = len(result.posteriors)
    figure, axes = panels(n_models, n_columns=n_models, width=4.2 * n_models, height=2.2)
    for ax, (name, posterior) in zip(axes, result.posteriors.items(), strict=True):
        plot_forecast(
            ax,
            data.time,
            Fan.of(posterior),
            training=series.iloc[data.train],
            later={
                "extrapolation test": series.iloc[data.extrapolation],
                "interpolation test": series.iloc[data.interpolation],
            },
            time_label="time",
        )
        _entitle(ax, result, name)
    for ax in axes[1:]:
        ax.sharey(axes[0])
        ax.tick_params(labelleft=False)
    axes[0].set_ylabel("y, standardised")
    return finished(figure)


def _entitle(ax: Axes, result: DemoResult, model: str) -> None:
    scores = "\n".join(
        f"{row.split}: NMSE {row.nmse:.2f}, MNLL {row.mnll:.2f}, coverage {row.coverage95:.0%}"
        for row in result.rows
        if row.model == model
    )
    ax.set_title(scores, loc="left", fontsize=SMALL, color=DARK, linespacing=1.4)
    ax.annotate(
        model,
        (0, 1),
        (0, 34),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=12,
        fontweight="bold",
    )
