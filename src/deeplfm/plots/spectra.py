"""Spectra: learned sinusoids over the periodogram of the data, and gains of the systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.plots.style import (
    GREY,
    NORMAL,
    column,
    entitle,
    escaped,
    finished,
    grouped,
    layer_and_part,
    line_style,
    lowest,
    panels,
    tidy,
)
from deeplfm.terms.spectrum import periodogram

if TYPE_CHECKING:
    from deeplfm.inspection.spectra import Spectrum

_DECADES = 6  # of power that are shown below the strongest sinusoid
_BINS_PER_DECADE = 250
_MARKERS = "ovsD^"


def power_spectrum(
    time: Float64[ndarray, " N"], value: Float64[ndarray, " N"]
) -> tuple[Float64[ndarray, " F"], Float64[ndarray, " F"]]:
    """Periodogram of a series, in the power of a sinusoid: a²/2 at the frequency of a sin 2πft.

    Times may be irregular and in any order. Reaches to the Nyquist frequency of the usual step, in
    time N log N; the Lomb–Scargle periodogram, which differs by a few percent at the peaks, takes N². Of
    every narrow bin of a logarithmic axis the highest value is kept, since no other can be seen.

    Returns:
        Frequencies in cycles per unit of time, increasing, and the power at each.
    """
    known = np.isfinite(value)
    if known.sum() < 4 or np.ptp(time[known]) == 0:
        return np.zeros(0), np.zeros(0)
    found = periodogram(time[known], value[known])
    frequency, power = found.frequency / (2 * np.pi), 2 * found.power / known.sum() ** 2
    bins = np.floor(_BINS_PER_DECADE * np.log10(frequency)).astype(np.int64)
    first = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
    highest = np.lexsort((-power, bins))[first]  # the strongest of each bin comes first
    return frequency[highest], power[highest]


def plot_spectrum(
    ax: Axes,
    spectra: Sequence[Spectrum],
    data: pd.Series | None = None,
    *,
    styles: Sequence[int] | None = None,
) -> Axes:
    """Draw the learned sinusoids of one output over the periodogram of its data.

    Both are in the power of a sinusoid, a²/2. Sinusoids nearer to each other than the data can resolve
    add up to one peak. Those without a frequency are left out: axes are logarithmic.

    Args:
        ax: where to draw.
        spectra: sinusoids of one output, by each model that is to be shown.
        data: values of the output, indexed by time as the numbers that the model was given; steps may be
            irregular, and NaN marks what is missing.
        styles: number of the colour and marker of each; one after the other if ``None``.
    """
    tidy(ax).set(xscale="log", yscale="log")
    strongest = []
    if data is not None:
        found = power_spectrum(*(part.to_numpy(np.float64) for part in (data.index, data)))
        ax.plot(*found, color=GREY, linewidth=0.7, label="periodogram of the data", zorder=1)
        strongest += found[1].tolist()
    for style, spectrum in zip(styles or range(len(spectra)), spectra, strict=True):
        frequency, power = _positive(spectrum)
        color, marker = line_style(style)["color"], _MARKERS[style % len(_MARKERS)]
        ax.vlines(frequency, np.finfo(float).tiny, power, color=color, linewidth=0.8, alpha=0.35)
        dots: dict[str, Any] = {"linestyle": "", "markersize": 3.5, "markeredgewidth": 0}
        label = f"learned sinusoids: {spectrum.member}"
        ax.plot(frequency, power, marker=marker, color=color, **dots, label=label, zorder=3)
        strongest += power.tolist()
    top = max(strongest, default=1.0)
    ax.set_ylim(top * 10.0**-_DECADES, 3 * top)
    return ax


def spectrum_figure(
    spectra: Sequence[Spectrum],
    data: pd.DataFrame | None = None,
    *,
    time_unit: str = "unit of time",
    title: str | None = None,
) -> Figure:
    """A panel for each output: the learned sinusoids over the periodogram of the data.

    Args:
        spectra: such as ``DeepLFMRegressor.spectrum`` returns.
        data: a column for each output by its name, indexed as in :func:`plot_spectrum`.
        time_unit: of the frequencies' label.
        title: of the whole figure.
    """
    if data is not None and not pd.api.types.is_numeric_dtype(data.index.dtype):
        raise InputError(
            f"data: an index of type {data.index.dtype} found. Index the data by time as the numbers "
            "that the model was given, since its frequencies are cycles per unit of those."
        )
    members = list(grouped(spectra, lambda spectrum: spectrum.member))
    outputs = grouped(spectra, lambda spectrum: spectrum.label)
    figure, axes = panels(len(outputs))
    for ax, (name, group) in zip(axes, outputs.items(), strict=True):
        styles = [members.index(spectrum.member) for spectrum in group]
        plot_spectrum(ax, group, column(data, name), styles=styles)
        entitle(ax, name, unit="power")
    return _over_frequency(figure, axes, time_unit, title)


def plot_filter(ax: Axes, spectrum: Spectrum, *, style: int = 0, label: str | None = None) -> Axes:
    """Draw the gain of a system against frequency, both logarithmic.

    Args:
        ax: where to draw.
        spectrum: the gain |H|.
        style: number of its colour and dashes.
        label: for the legend; the system's own if ``None``.
    """
    tidy(ax).set(xscale="log", yscale="log")
    label = spectrum.label if label is None else label
    ax.plot(*_positive(spectrum), **line_style(style), linewidth=1.3, label=label)
    return ax


def filters_figure(
    spectra: Sequence[Spectrum], *, time_unit: str = "unit of time", title: str | None = None
) -> Figure:
    """Gains of the differential equations of each layer: a panel for each layer of each model.

    Args:
        spectra: such as ``DeepLFMRegressor.filters`` returns, labelled "layer 1" or "layer 1, abp".
        time_unit: of the frequencies' label; a gain has this unit to the order of its equation.
        title: of the whole figure.
    """
    parts = list(grouped(spectra, lambda spectrum: layer_and_part(spectrum.label)[1]))
    layers = grouped(
        spectra, lambda spectrum: f"{spectrum.member}: {layer_and_part(spectrum.label)[0]}"
    )
    figure, axes = panels(len(layers))
    for ax, (name, group) in zip(axes, layers.items(), strict=True):
        for spectrum in group:
            part = layer_and_part(spectrum.label)[1]
            plot_filter(ax, spectrum, style=parts.index(part), label=part)
        entitle(ax, name, unit="gain")
    return _over_frequency(figure, axes, time_unit, title)


def _positive(spectrum: Spectrum) -> tuple[Float64[ndarray, " F"], Float64[ndarray, " F"]]:
    """Points that logarithmic axes can show."""
    which = (spectrum.frequency > 0) & (spectrum.value > 0)
    return spectrum.frequency[which], spectrum.value[which]


def _over_frequency(
    figure: Figure, axes: Sequence[Axes], time_unit: str, title: str | None
) -> Figure:
    for ax in lowest(axes):
        ax.set_xlabel(escaped(f"frequency (cycles per {time_unit})"), fontsize=NORMAL)
    return finished(figure, title)
