"""Calibration: probability integral transforms, and observed coverage of intervals.

The probability integral transform (PIT) of an observation is the predicted probability of a value at or
below it. Under calibration it is uniform between 0 and 1. The bands are for independent observations:
errors of neighbouring rows of a series are correlated, and leave them more often.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy import ndarray
from scipy.stats import binom, kstwo

from deeplfm.errors import InputError
from deeplfm.plots.style import (
    BLUE,
    DARK,
    GREY,
    NORMAL,
    SMALL,
    entitle,
    finished,
    lowest,
    panels,
    tidy,
    tint,
)

_BAND = tint(GREY, 0.35)


def pit_band(n_values: int, n_bins: int, coverage: float = 0.95) -> tuple[float, float]:
    """Heights between which all bars of a calibrated model's PIT histogram stay.

    The count of a bar is binomial; each tail of each bar has an equal share of 1 − coverage (Bonferroni).

    Returns:
        Lowest and highest height, as a density: 1 is uniform.
    """
    tail = (1 - coverage) / (2 * n_bins)
    count = binom(n_values, 1 / n_bins)
    return float(count.ppf(tail)) * n_bins / n_values, float(count.isf(tail)) * n_bins / n_values


def coverage_band(n_values: int, coverage: float = 0.95) -> float:
    """Distance from the diagonal that a calibrated model's whole coverage curve keeps.

    Observed coverage against nominal is the distribution function of |2 PIT − 1|, which is uniform under
    calibration: the distance is a quantile of the Kolmogorov–Smirnov statistic.
    """
    return float(kstwo.ppf(coverage, n_values))


def plot_pit(
    ax: Axes, pit: Float64[ndarray, " N"], *, n_bins: int | None = None, coverage: float = 0.95
) -> Axes:
    """Draw a histogram of PIT values over the band that a calibrated model stays in.

    A hump: intervals too wide; a valley: too narrow; a slope: predictions too high or too low.

    Args:
        ax: where to draw.
        pit: values between 0 and 1; NaN are left out.
        n_bins: bars; from 5 for few values to 20 for thousands if ``None``.
        coverage: probability that every bar of a calibrated model is inside the band.
    """
    pit = _known(pit)
    n_bins = n_bins or (5 if len(pit) < 100 else 10 if len(pit) < 1000 else 20)
    low, high = pit_band(len(pit), n_bins, coverage)
    tidy(ax).axhspan(low, high, color=_BAND, linewidth=0, label=_band_label(coverage), zorder=1)
    bins = np.linspace(0, 1, n_bins + 1).tolist()
    look: dict[str, Any] = {
        "facecolor": (*tint(BLUE, 1.0), 0.25),
        "edgecolor": BLUE,
        "linewidth": 1.2,
    }
    ax.hist(pit, bins=bins, density=True, **look, label="observed", zorder=2)
    ax.axhline(1, color=DARK, linewidth=1.0, linestyle="--", label="calibrated", zorder=3)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, max(2.0, 1.05 * ax.dataLim.y1))
    return ax


def plot_coverage(ax: Axes, pit: Float64[ndarray, " N"], *, coverage: float = 0.95) -> Axes:
    """Draw observed against nominal coverage of all central intervals, with a band.

    Below the diagonal: intervals too narrow; above: too wide.

    Args:
        ax: where to draw.
        pit: values between 0 and 1; NaN are left out.
        coverage: probability that the whole curve of a calibrated model is inside the band.
    """
    pit = _known(pit)
    nominal = np.linspace(0, 1, 201)
    observed = np.searchsorted(np.sort(np.abs(2 * pit - 1)), nominal, side="right") / len(pit)
    reach = coverage_band(len(pit), coverage)
    low, high = (np.clip(nominal + sign * reach, 0, 1) for sign in (-1, 1))
    band: dict[str, Any] = {"color": _BAND, "linewidth": 0, "label": _band_label(coverage)}
    tidy(ax).fill_between(nominal, low, high, **band, zorder=1)
    ax.plot([0, 1], [0, 1], color=DARK, linewidth=1.0, linestyle="--", label="calibrated", zorder=2)
    ax.plot(nominal, observed, color=BLUE, linewidth=1.6, label="observed", zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1))
    return ax


def calibration_figure(
    pit: Mapping[str, Any] | pd.DataFrame, *, coverage: float = 0.95, title: str | None = None
) -> Figure:
    """Two panels for each output: histogram of PIT values, and observed against nominal coverage.

    Args:
        pit: values of each output by its name, such as the columns of ``Predictive.cdf``: a mapping or a
            DataFrame; NaN are left out, and so are outputs without any value.
        coverage: probability that a calibrated model stays inside the bands of a panel.
        title: of the whole figure.
    """
    columns = {name: values for name, values in pit.items() if not np.isnan(values).all()}
    if not columns:
        raise InputError("pit: no output has a known value. Give rows whose targets are known.")
    n_pairs = min(3, -(-len(columns) // 4))
    figure, axes = panels(2 * len(columns), n_columns=2 * n_pairs, height=2.1, share_x=False)
    for (name, values), left, right in zip(columns.items(), axes[::2], axes[1::2], strict=True):
        values = np.asarray(values, dtype=np.float64)
        plot_pit(left, values, coverage=coverage)
        plot_coverage(right, values, coverage=coverage)
        left.set_ylabel("density", fontsize=NORMAL)
        right.set_ylabel("observed coverage", fontsize=NORMAL)
        entitle(left, name, n_wide=2)
        share = float(np.mean(np.abs(2 * _known(values) - 1) <= 0.95))
        text = f"95 % interval\nholds {100 * share:.1f} %"
        where: dict[str, Any] = {"transform": right.transAxes, "horizontalalignment": "right"}
        right.text(0.97, 0.05, text, **where, fontsize=SMALL, color=DARK)
    for number, ax in enumerate(lowest(axes)):
        ax.set_xlabel("nominal coverage" if number % 2 else "PIT", fontsize=NORMAL)
    return finished(figure, title)


def _band_label(coverage: float) -> str:
    return f"{100 * coverage:g} % of calibrated models"


def _known(pit: Float64[ndarray, " N"]) -> Float64[ndarray, " n"]:
    known = pit[~np.isnan(pit)]
    if not len(known) or known.min() < 0 or known.max() > 1:
        found = f"{known.min():g} to {known.max():g}" if len(known) else "none"
        raise InputError(
            f"pit: values between 0 and 1 are needed, {found} found. "
            "Give the predicted distribution functions at the observations."
        )
    return known
