"""Charts with heading, caption, and a description for screen readers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count as numbered
from typing import TYPE_CHECKING

import numpy as np

from deeplfm.errors import ConfigError
from deeplfm.report import charts
from deeplfm.report.content import Content
from deeplfm.report.wording import amount, count, listed, percent

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

_MOST_CURVES = 12
_BAND = ("mean", "low", "high")
_MARGIN = 0.012
_RECORD_BEFORE = 2.0  # data shown initially, in lengths of the forecast or evaluation


@dataclass(frozen=True)
class Panel:
    """A chart on the page."""

    id: str
    heading: str
    description: str
    caption: str
    json: str
    size: str
    is_over_time: bool


class Panels:
    """Makes the panels of one report."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.window = _window(content)
        self._number = numbered()

    def forecasts(self) -> list[Panel]:
        """One chart for each target."""
        content, prediction = self.content, self.content.prediction
        panels = []
        for index, target in enumerate(content.record.targets):
            values = content.training.iloc[:, index].to_numpy(np.float64)
            later = content.evaluation
            figure = charts.forecast_chart(
                self.window,
                content.record,
                index,
                prediction,
                (content.training.index, values),
                None if later is None else (later.times, later.values[:, index]),
            )
            mean, low, high = (
                amount(side[-1, index])
                for side in (prediction.mean, prediction.low[95], prediction.high[95])
            )
            description = (
                f"{target.name} over time: {count(target.known)} observations, and the predictive "
                f"mean and intervals until {content.clock.text(prediction.times[-1])}, where the mean "
                f"is {mean} and the 95 % interval {low} to {high}."
            )
            panels.append(self._panel(figure, target.name, description, size="tall"))
        return panels

    def calibration(self) -> list[Panel]:
        """Coverage of every level, and the PIT histogram of each target."""
        evaluation = self.content.evaluation
        if evaluation is None:
            return []
        panels = []
        for index, target in enumerate(self.content.record.targets):
            pit = evaluation.known_pit(index)
            if not len(pit):
                continue
            covered = percent(evaluation.coverage(index, 0.95))
            panels += [
                self._panel(
                    charts.coverage_chart(pit),
                    f"{target.name}: coverage",
                    f"Share of the observations of {target.name} inside the interval of each level; "
                    f"of 95 %: {covered}.",
                ),
                self._panel(
                    charts.pit_chart(pit),
                    f"{target.name}: PIT histogram",
                    f"Histogram of the predictive distribution function at {count(len(pit))} "
                    f"observations of {target.name}.",
                ),
            ]
        return panels

    def components(self, forecaster: DeepLFMForecaster) -> tuple[list[Panel], str]:
        """The terms of the model over time, and a note about them."""
        if forecaster.covariates_:
            return [], ""
        times, end = self.content.prediction.times, self.content.record.last
        table = forecaster.components(times=times)
        panels = []
        for target, name in dict.fromkeys((target, name) for target, name, _ in table.columns):
            mean, low, high = (table[target, name, value].to_numpy() for value in _BAND)
            if not np.ptp(mean) and not np.ptp(high):
                continue  # a constant
            panels.append(
                self._panel(
                    charts.curve_chart(self.window, times, mean, low, high, end),
                    f"{target}: {name}",
                    f"Component {name} of {target} over time, between {amount(float(mean.min()))} "
                    f"and {amount(float(mean.max()))}.",
                    is_over_time=True,
                )
            )
        logarithms = zip(forecaster.targets_, forecaster.regressor_.scaling_.is_log, strict=True)
        factors = [str(name) for name, is_log in logarithms if is_log]
        note = (
            f" Those of {listed(factors)} multiply, since logarithms are modelled."
            if factors
            else ""
        )
        return panels[:_MOST_CURVES], note

    def forces(self, forecaster: DeepLFMForecaster) -> tuple[list[Panel], str]:
        """The latent forces, and a note about them."""
        if forecaster.covariates_:
            return [], ""
        content, times = self.content, self.content.prediction.times
        try:
            curves = forecaster.forces(times)
        except ConfigError:  # no differential equation in time
            return [], ""
        panels = [
            self._panel(
                charts.curve_chart(
                    self.window,
                    times,
                    curve.mean,
                    curve.mean - 2 * curve.std,
                    curve.mean + 2 * curve.std,
                    content.record.last,
                ),
                curve.label,
                f"Force of {curve.label} over time, between {amount(float(curve.mean.min()))} and "
                f"{amount(float(curve.mean.max()))}.",
                f"Of the model “{curve.member}”.",
                is_over_time=True,
            )
            for curve in curves[:_MOST_CURVES]
        ]
        scales = zip(forecaster.targets_, forecaster.regressor_.scaling_.is_log, strict=True)
        notes = [
            f"The model describes the logarithm of {name}, and so do its forces."
            for name, is_log in scales
            if is_log
        ]
        if len(curves) > len(panels):
            notes.append(f"The first {len(panels)} of {len(curves)} are shown.")
        return panels, " ".join(notes)

    def spectra(self) -> list[Panel]:
        """The power spectrum of each target."""
        content, clock = self.content, self.content.clock
        panels = []
        for spectrum in content.spectra:
            total = spectrum.value.sum()
            if total <= 0:
                continue
            peaks = content.peaks.get(spectrum.label, [])
            unit, size = clock.rate_unit(peaks[0].period if peaks else content.record.span)
            strongest = f"; strongest period {clock.length(peaks[0].period)}" if peaks else ""
            figure = charts.spectrum_chart(
                spectrum.frequency * size / content.model_unit,
                100 * spectrum.value / total,
                unit,
                [clock.brief(content.model_unit / f) for f in spectrum.frequency],
            )
            description = (
                f"Power of {spectrum.label} at {len(spectrum.value)} frequencies{strongest}."
            )
            caption = f"Of the model “{spectrum.member}”."
            panels.append(self._panel(figure, spectrum.label, description, caption))
        return panels

    def _panel(
        self,
        figure: charts.Chart,
        heading: str,
        description: str,
        caption: str = "",
        size: str = "medium",
        is_over_time: bool | None = None,
    ) -> Panel:
        is_over_time = size == "tall" if is_over_time is None else is_over_time
        # "<" could end the script element that holds the figure
        text = json.dumps(figure, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        return Panel(
            f"figure-{next(self._number)}", heading, description, caption, text, size, is_over_time
        )


def _window(content: Content) -> charts.Window:
    """The full range of time, and initially the forecast and the end of the data."""
    record = content.record
    last = float(max(content.clock.numbers(content.prediction.times)[-1], record.last))
    ahead = last - record.last
    begin = max(record.last - _RECORD_BEFORE * ahead, record.first) if ahead > 0 else record.first
    first, whole = (
        (start - _MARGIN * (last - start), last + _MARGIN * (last - start))
        for start in (begin, record.first)
    )
    return charts.Window(content.clock, first, whole)
