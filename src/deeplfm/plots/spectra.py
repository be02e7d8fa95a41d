"""Frequencies: what a model has learned of them, what the data hold, what each layer lets through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
from deeplfm.starts.spectrum import periodogram

if TYPE_CHECKING:
    from deeplfm.inspection.spectra import Spectrum

_DECADES = 6  # of power that are shown below the strongest wave
_BINS_PER_DECADE = 250
_MARKERS = "ovsD^"


def wave_power(
    time: Float64[ndarray, " N"], value: Float64[ndarray, " N"]
) -> tuple[Float64[ndarray, " F"], Float64[ndarray, " F"]]:
    """Periodogram of a series, in the power of a wave: a²/2 at the frequency of a sin 2πft.

    Times may be irregular and in any order. Reaches to the Nyquist frequency of the usual step, in
    time N log N; Lomb's and Scargle's, which differs by a few percent at the peaks, would take N². Of
    every narrow bin of a logarithmic axis the highest value is kept, since only that can be seen.

    Args:
        time: numbers.
        value: NaN where missing.

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
    """Draw the waves that a model has learned for one output over the periodogram of its data.

    Both are in the power of a wave, a²/2. Waves nearer to each other than the data can tell apart add up
    to one peak. Waves without a frequency are left out: axes are logarithmic.

    Args:
        ax: where to draw.
        spectra: waves of one output; one for each model of the stack that is to be shown.
        data: values of the output, indexed by time as the numbers that the model was given; steps may be
            irregular, and NaN marks what is missing.
        styles: number of the colour and marker of each; one after the other if ``None``.
    """
    tidy(ax).set(xscale="log", yscale="log")
    strongest = []
    if data is not None:
        frequency, power = wave_power(*(part.to_numpy(np.float64) for part in (data.index, data)))
        ax.plot(
            frequency, power, color=GREY, linewidth=0.7, label="periodogram of the data", zorder=1
        )
        strongest += power.tolist()
    for style, spectrum in zip(styles or range(len(spectra)), spectra, strict=True):
        frequency, power = _heard(spectrum)
        look = line_style(style)["color"]
        ax.vlines(frequency, np.finfo(float).tiny, power, color=look, linewidth=0.8, alpha=0.35)
        ax.plot(
            frequency,
            power,
            linestyle="",
            marker=_MARKERS[style % len(_MARKERS)],
            markersize=3.5,
            markeredgewidth=0,
            color=look,
            label=f"learned waves ({spectrum.member})",
            zorder=3,
        )
        strongest += power.tolist()
    top = max(strongest, default=1.0)
    ax.set_ylim(top * 10.0**-_DECADES, 3 * top)
    return ax


def spectrum_figure(
    spectra: Sequence[Spectrum],
    data: pd.DataFrame | None = None,
    *,
    time_unit: str = "unit of time",
    units: Mapping[str, str] | None = None,
    title: str | None = None,
) -> Figure:
    """A panel for each output: the waves that the model has learned over the periodogram of the data.

    Args:
        spectra: such as ``DeepLFMRegressor.spectrum`` returns.
        data: a column for each output by its name, indexed by time as the numbers that the model was
            given; steps may be irregular, and NaN marks what is missing.
        time_unit: in which time is counted, for the label of the frequencies.
        units: of the outputs that have one, by name.
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
        unit = (units or {}).get(name)
        entitle(ax, name, unit=f"power ({unit})²" if unit else "power")
    return _with_frequencies(figure, axes, time_unit, title)


def plot_filter(ax: Axes, spectrum: Spectrum, *, style: int = 0, label: str | None = None) -> Axes:
    """Draw what a filter lets through: gain against frequency, both logarithmic.

    Args:
        ax: where to draw.
        spectrum: the gain |G|.
        style: number of its colour and dashes.
        label: for the legend; the filter's own if ``None``.
    """
    tidy(ax).set(xscale="log", yscale="log")
    label = spectrum.label if label is None else label
    ax.plot(*_heard(spectrum), **line_style(style), linewidth=1.3, label=label)
    return ax


def filters_figure(
    spectra: Sequence[Spectrum], *, time_unit: str = "unit of time", title: str | None = None
) -> Figure:
    """What the equations of each layer let through: a panel for each layer of each model.

    Args:
        spectra: such as ``DeepLFMRegressor.filters`` returns, labelled "layer 1" or "layer 1, abp".
        time_unit: in which time is counted, for the label of the frequencies.
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
        entitle(ax, name, unit=f"gain ({time_unit})")
    return _with_frequencies(figure, axes, time_unit, title)


def _heard(spectrum: Spectrum) -> tuple[Float64[ndarray, " F"], Float64[ndarray, " F"]]:
    """What logarithmic axes can show."""
    which = (spectrum.frequency > 0) & (spectrum.value > 0)
    return spectrum.frequency[which], spectrum.value[which]


def _with_frequencies(
    figure: Figure, axes: Sequence[Axes], time_unit: str, title: str | None
) -> Figure:
    for ax in lowest(axes):
        ax.set_xlabel(escaped(f"frequency (cycles per {time_unit})"), fontsize=NORMAL)
    return finished(figure, title)
