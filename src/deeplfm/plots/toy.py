"""The figure of the demo: models of the paper's toy side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from deeplfm.data.toy import ToyData
from deeplfm.plots.fan import fans_of
from deeplfm.plots.forecast import plot_forecast
from deeplfm.plots.style import DARK, SMALL, finished, panels
from deeplfm.predictive.mixture import Predictive


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
