"""Learning curves: the loss of each candidate, step by step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deeplfm.plots.dense import outline
from deeplfm.plots.style import NORMAL, finished, line_style, panels, tidy

_SETTLING = 0.05  # of the steps of a fit, in which the loss may fall from anywhere
_WINDOWS = 50  # of the running mean in a fit; shorter than twice that it is not smoothed


def plot_learning(ax: Axes, history: pd.DataFrame) -> Axes:
    """Draw a line for each candidate.

    The loss of a batch of rows is noisy: the pale line is every step, the strong one its running mean.
    The first few steps, which may fall from anywhere, are cut off at the top.

    Args:
        ax: where to draw.
        history: one row for each step, with the columns ``candidate``, ``step`` and ``loss``, such as
            ``DeepLFMRegressor.history_``.
    """
    tidy(ax)
    settled, ends, is_smoothed = [], [], False
    known = history[np.isfinite(history["loss"].astype(np.float64))]
    for number, (name, rows) in enumerate(known.groupby("candidate", sort=False)):
        step, loss = (rows[key].to_numpy(dtype=np.float64) for key in ("step", "loss"))
        look, half = line_style(number), len(loss) // (2 * _WINDOWS)
        if half:
            is_smoothed = True
            ax.plot(*outline(step, loss), color=look["color"], alpha=0.25, linewidth=0.6)
            loss = rows["loss"].rolling(2 * half + 1, center=True, min_periods=1).mean().to_numpy()
        marker = "o" if len(step) == 1 else ""
        ax.plot(*outline(step, loss), **look, linewidth=1.4, marker=marker, label=str(name))
        tail = loss[int(_SETTLING * len(loss)) :]
        settled.append((float(tail.min()), float(tail.max())))
        ends.append(float(loss[-1]))
    ax.set_ylim(*_visible(settled, ends))
    detail = " (pale: every step, strong: running mean)" if is_smoothed else ""
    ax.set_xlabel(f"step{detail}", fontsize=NORMAL)
    ax.set_ylabel("loss (nats per row)", fontsize=NORMAL)
    return ax


def learning_figure(history: pd.DataFrame, *, title: str | None = None) -> Figure:
    """The learning curves of all candidates in one panel.

    Args:
        history: one row for each step, with the columns ``candidate``, ``step`` and ``loss``.
        title: of the whole figure.
    """
    figure, (ax,) = panels(1)
    plot_learning(ax, history)
    return finished(figure, title)


def _visible(settled: list[tuple[float, float]], ends: list[float]) -> tuple[float, float]:
    """Limits that show most candidates, and the ends of all that are not far above the others."""
    if not settled:
        return 0.0, 1.0
    low, tops = min(least for least, _ in settled), sorted(most for _, most in settled)
    upper_half = tops[(len(tops) - 1) // 2 :]
    usual = next((top - low for top in upper_half if top > low), 0.0)
    near = [top for top in tops if top - low <= 3 * usual]
    high = max(near + [end for end in ends if end - low <= 10 * usual])
    margin = 0.08 * (high - low) or 0.5
    return low - margin, high + margin
