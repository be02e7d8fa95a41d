"""Figures: functions that draw on the axes they are given, and builders of whole figures.

Functions ``plot_*`` take axes first, draw one output or layer, and return the axes. Those called
``*_figure`` return a ``matplotlib.figure.Figure`` with a panel for each output or layer. None uses
pyplot and its global state: save a figure with ``figure.savefig(path)``.
"""

from deeplfm.plots.calibration import calibration_figure, plot_coverage, plot_pit
from deeplfm.plots.curves import components_figure, forces_figure, hidden_figure, plot_curve
from deeplfm.plots.fan import COVERAGES, Fan, fans_from, fans_of, interval_levels, plot_fan
from deeplfm.plots.forecast import forecast_figure, plot_forecast, toy_figure
from deeplfm.plots.learning import learning_figure, plot_learning
from deeplfm.plots.spectra import filters_figure, plot_filter, plot_spectrum, spectrum_figure
from deeplfm.plots.timeaxis import TimeAxis

__all__ = [
    "COVERAGES",
    "Fan",
    "TimeAxis",
    "calibration_figure",
    "components_figure",
    "fans_from",
    "fans_of",
    "filters_figure",
    "forces_figure",
    "forecast_figure",
    "hidden_figure",
    "interval_levels",
    "learning_figure",
    "plot_coverage",
    "plot_curve",
    "plot_fan",
    "plot_filter",
    "plot_forecast",
    "plot_learning",
    "plot_pit",
    "plot_spectrum",
    "spectrum_figure",
    "toy_figure",
]
