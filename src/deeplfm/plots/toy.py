"""The figure of the demo: models of the paper's toy side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.figure import Figure

from deeplfm.plots.fan import fans_of
from deeplfm.plots.forecast import plot_forecast
from deeplfm.plots.style import DARK, SMALL, finished, panels

if TYPE_CHECKING:
    from deeplfm.experiments.demo import DemoResult


def toy_figure(result: DemoResult) -> Figure:
    """The paper's figure of the toy: one panel for each model, its scores in the title."""
    data = result.data
    series = pd.Series(data.standardised(data.value), index=data.time)
    parts = {f"{name} test": getattr(data, name) for name in ("extrapolation", "interpolation")}
    n_models = len(result.posteriors)
    n_columns = n_models if n_models < 4 else 2
    figure, axes = panels(n_models, n_columns=n_columns, width=4.2 * n_columns, height=2.2)
    for ax, (name, posterior) in zip(axes, result.posteriors.items(), strict=True):
        plot_forecast(
            ax,
            data.time,
            fans_of(posterior, [name])[name],
            training=series.iloc[data.train],
            later={label: series.iloc[rows] for label, rows in parts.items()},
            time_label="time",
        )
        gap, ahead = (result.row(name, split) for split in ("interpolation", "extrapolation"))
        scores = (
            f"gap: MNLL {gap.mnll:.2f}, coverage {gap.coverage95:.0%}\n"
            f"extrapolation: NMSE {ahead.nmse:.2f}, MNLL {ahead.mnll:.2f}, "
            f"coverage {ahead.coverage95:.0%}"
        )
        ax.set_title(scores, loc="left", fontsize=SMALL, color=DARK, linespacing=1.4)
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
