"""Charts with the words that belong to them: heading, caption and a description for those who hear it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count as numbered
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from deeplfm.errors import ConfigError
from deeplfm.report import charts
from deeplfm.report.diagnostics import coverage_chart, position_chart, spectrum_chart
from deeplfm.report.evidence import Case
from deeplfm.report.wording import amount, count, percent

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

_MOST_FORCES = 12
_MARGIN = 0.012
_RECORD_BEFORE = 2.0  # how much of the record is shown at first, in lengths of what follows it


@dataclass(frozen=True)
class Panel:
    """A chart on the page.

    Attributes:
        id: of its data on the page.
        heading: what it shows.
        description: the same to those who cannot see it.
        caption: what to know when reading it.
        json: the figure.
        size: class of its height.
        is_over_time: it moves with the other charts over time.
    """

    id: str
    heading: str
    description: str
    caption: str
    json: str
    size: str
    is_over_time: bool


class Panels:
    """Makes the panels of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.window = _window(case)
        self._number = numbered()

    def forecasts(self) -> list[Panel]:
        """One chart for each target."""
        case, clock = self.case, self.case.clock
        panels = []
        for index, facts in enumerate(case.record.targets):
            observed = (case.training.index, case.training.iloc[:, index].to_numpy(np.float64))
            held_out = None
            if case.judgement is not None:
                held_out = (case.judgement.times, case.judgement.values[:, index])
            figure = charts.forecast_chart(
                self.window, case.record, index, case.prediction, observed, held_out
            )
            last = case.prediction.times[-1]
            description = (
                f"{facts.name} over time: {count(facts.known)} observations, and the mean and "
                f"intervals of the model until {clock.text(last)}, where the mean is "
                f"{amount(case.prediction.mean[-1, index])} and the 95 % interval "
                f"{amount(case.prediction.low[95][-1, index])} to "
                f"{amount(case.prediction.high[95][-1, index])}."
            )
            panels.append(self._panel(figure, facts.name, description, size="tall"))
        return panels

    def calibration(self) -> list[Panel]:
        """Coverage of every level, and where the observations lie within their forecasts."""
        case = self.case
        if case.judgement is None:
            return []
        panels = []
        for index, facts in enumerate(case.record.targets):
            positions = case.judgement.positions(index)
            if not len(positions):
                continue
            held = percent(case.judgement.coverage(index, 0.95))
            panels += [
                self._panel(
                    coverage_chart(positions),
                    f"{facts.name}: coverage",
                    f"Share of the observations of {facts.name} inside the interval of each level; of "
                    f"95 %: {held}.",
                ),
                self._panel(
                    position_chart(positions),
                    f"{facts.name}: positions",
                    f"Histogram of the positions of {count(len(positions))} observations of "
                    f"{facts.name} within their forecasts, from 0 (below all of it) to 1 (above).",
                ),
            ]
        return panels

    def forces(self, forecaster: DeepLFMForecaster) -> tuple[list[Panel], str]:
        """What drives the equations, and a note on what is left out."""
        if forecaster.covariates_:
            return [], ""
        case = self.case
        times = case.prediction.times
        try:
            curves = forecaster.regressor_.forces(forecaster.timeline_.numbers(times)[:, None])
        except ConfigError:  # no equation in time, so no force
            return [], ""
        panels = [
            self._panel(
                charts.force_chart(self.window, times, curve.mean, curve.std, case.record.last),
                curve.label,
                f"Force of {curve.label} over time, between {amount(float(curve.mean.min()))} and "
                f"{amount(float(curve.mean.max()))}.",
                f"From the start “{curve.member}”.",
                is_over_time=True,
            )
            for curve in curves[:_MOST_FORCES]
        ]
        scales = zip(forecaster.targets_, forecaster.regressor_.scaling_.is_log, strict=True)
        notes = [
            f"{name} is modelled by its logarithm, and its forces are of that."
            for name, is_log in scales
            if is_log
        ]
        if len(curves) > len(panels):
            notes.append(f"The first {len(panels)} of {len(curves)} are shown.")
        return panels, " ".join(notes)

    def spectra(self) -> list[Panel]:
        """Power of the waves of each target."""
        case, clock = self.case, self.case.clock
        panels = []
        for spectrum in case.spectra:
            total = spectrum.value.sum()
            lines = case.lines.get(spectrum.label, [])
            if total <= 0:
                continue
            unit, size = clock.rate_unit(lines[0].period if lines else case.record.span)
            strongest = (
                f"; the strongest period is {clock.length(lines[0].period)}" if lines else ""
            )
            panels.append(
                self._panel(
                    spectrum_chart(
                        spectrum.frequency * size / case.model_unit,
                        100 * spectrum.value / total,
                        unit,
                        [clock.brief(case.model_unit / f) for f in spectrum.frequency],
                    ),
                    spectrum.label,
                    f"Power of {len(spectrum.value)} waves of {spectrum.label}{strongest}.",
                    f"From the start “{spectrum.member}”.",
                )
            )
        return panels

    def _panel(
        self,
        figure: go.Figure,
        heading: str,
        description: str,
        caption: str = "",
        size: str = "medium",
        is_over_time: bool | None = None,
    ) -> Panel:
        is_over_time = size == "tall" if is_over_time is None else is_over_time
        # text inside a script element ends at the first "<"
        text = figure.to_json().replace("<", "\\u003c")
        return Panel(
            f"figure-{next(self._number)}", heading, description, caption, text, size, is_over_time
        )


def _window(case: Case) -> charts.Window:
    """All times, and at first as much of the record as lets what follows be read."""
    last = max(case.clock.numbers(case.prediction.times)[-1], case.record.last)
    whole = (case.record.first, float(last))
    after = last - case.record.last
    begin = case.record.last - _RECORD_BEFORE * after if after > 0 else case.record.first
    first = (max(begin, case.record.first), float(last))
    return charts.Window(case.clock, _with_margin(first), _with_margin(whole))


def _with_margin(ends: tuple[float, float]) -> tuple[float, float]:
    """Room for the points at both ends."""
    margin = _MARGIN * (ends[1] - ends[0])
    return ends[0] - margin, ends[1] + margin
