"""The report: one HTML page about a forecast, which needs no network."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from sklearn.utils.validation import check_is_fitted

import deeplfm
from deeplfm.errors import InputError
from deeplfm.estimators.columns import Name
from deeplfm.estimators.predictions import SUFFIXES
from deeplfm.inspection.depth import kind_of
from deeplfm.io.files import versions, write_whole, writing
from deeplfm.report import tables
from deeplfm.report.cautions import cautions, looks_clinical
from deeplfm.report.charts import MOST_POINTS
from deeplfm.report.clock import Clock
from deeplfm.report.content import Content, Evaluation, gather
from deeplfm.report.panels import Panels
from deeplfm.report.prediction import LEVELS, RECORD_ROWS, thinned
from deeplfm.report.wording import amount, count, listed

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

_CITATION = """\
T. M. McDonald and M. A. Álvarez. Compositional Modeling of Nonlinear Dynamical Systems with
ODE-based Random Features. Advances in Neural Information Processing Systems, 2021.

The deeplfm developers. deeplfm: deep latent force models. Version {version}."""


def write_report(
    path: str | os.PathLike[str],
    forecaster: DeepLFMForecaster,
    *,
    forecast: pd.DataFrame | None = None,
    evaluation: pd.DataFrame | None = None,
    title: str | None = None,
) -> None:
    """Write a report about a forecaster as one HTML file: charts, tables and cautions.

    Args:
        path: file to write; its folder must exist.
        forecaster: fitted.
        forecast: returned by ``forecaster.forecast``; without it the page shows the fit.
        evaluation: later observations, as ``forecaster.evaluate`` takes them.
        title: of the page; by default it names the targets.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"report: the folder {path.parent} does not exist. Create it first.")
    check_is_fitted(forecaster)
    if forecast is not None:
        _check_forecast(forecast, forecaster.targets_)
        forecast = forecast.set_axis(forecaster.timeline_.read(forecast.index), axis=0)
    text = _render(gather(forecaster, forecast, evaluation), forecaster, forecast, title)
    with writing(path):
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _check_forecast(forecast: pd.DataFrame, targets: list[Name]) -> None:
    wanted = [*targets, *(f"{name}{end}" for name in targets for end in SUFFIXES)]
    absent = [name for name in wanted if name not in forecast.columns]
    if absent:
        raise InputError(
            f"report: forecast has no column {absent[0]!r}, one of {len(absent)} missing columns. "
            "Give the table that forecaster.forecast(...) returned."
        )
    if not len(forecast):
        raise InputError(
            "report: forecast has 0 rows. Forecast at least one time, or leave it out."
        )


def _render(
    content: Content,
    forecaster: DeepLFMForecaster,
    forecast: pd.DataFrame | None,
    title: str | None,
) -> str:
    """The page as text; the template escapes text of the user."""
    home = files("deeplfm.report")
    style, chart_script, page_script, template = (
        (home / name).read_text(encoding="utf-8")
        for name in ("style.css", "chart.js", "page.js", "template.html")
    )
    targets = [target.name for target in content.record.targets]
    what = "Fit" if forecast is None else "Forecast"
    title = title or f"{what} of {listed(targets)}"
    panels, evaluation = Panels(content), content.evaluation
    components, components_note = panels.components(forecaster)
    forces, forces_note = panels.forces(forecaster)
    spectra = panels.spectra()
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(template).render(
        title=title,
        summary=_summary(content, targets, forecast),
        people=looks_clinical([*targets, *map(str, forecaster.covariates_)], title),
        forecast_heading=what,
        levels=LEVELS,
        is_evaluated=evaluation is not None,
        has_gaps=any(target.gaps for target in content.record.targets),
        notes=_notes(content, forecaster, forecast),
        buttons=_buttons(panels, forecast is not None or evaluation is not None),
        forecasts=panels.forecasts(),
        forecast_tables=[
            tables.forecast_table(forecast, name, content.clock)
            for name in (forecaster.targets_ if forecast is not None else ())
        ],
        cautions=cautions(content),
        data_summary=_data_summary(content),
        target_table=tables.target_table(content.record, content.clock),
        evaluation_summary=evaluation and _evaluation_summary(evaluation, content.clock),
        score_table=evaluation and tables.score_table(evaluation),
        coverage_table=evaluation and tables.coverage_table(evaluation, targets),
        calibration=panels.calibration(),
        selection_table=tables.selection_table(content.selection, targets),
        components=components,
        components_note=components_note,
        forces=forces,
        forces_note=forces_note,
        force_unit=forecaster.timeline_.unit or f"unit of {content.clock.name}",
        spectra=spectra,
        peak_table=spectra and tables.peak_table(content.peaks, content.clock),
        fit_summary=_fit_summary(content, forecaster),
        settings_table=tables.settings_table(forecaster.get_params()),
        version_table=tables.version_table(versions()),
        citation=_CITATION.format(version=deeplfm.__version__),
        version=deeplfm.__version__,
        made_on=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        style=style,
        script=f"{chart_script}\n{page_script}",
    )


def _summary(content: Content, targets: list[str], forecast: pd.DataFrame | None) -> str:
    clock, training = content.clock, content.training.index
    record = (
        f"{count(len(training))} rows from {clock.text(training[0])} to {clock.text(training[-1])}"
    )
    if forecast is None:
        text = f"A model of {listed(targets)}, fitted to {record}."
    else:
        first, last = forecast.index.min(), forecast.index.max()
        text = (
            f"A forecast of {listed(targets)} at {count(len(forecast))} times, from "
            f"{clock.text(first)} to {clock.text(last)}, based on {record}."
        )
    if content.evaluation is not None:
        text += f" It is scored on {count(len(content.evaluation.times))} later rows."
    return text


def _data_summary(content: Content) -> str:
    clock, record = content.clock, content.record
    if record.calendar in ("weekdays", "months", "month ends"):
        step = f"one for each of the {record.calendar}"
    elif record.is_regular:
        step = f"one every {clock.length(record.step).removeprefix('1 ')}"
    else:
        step = f"at irregular times, typically {clock.length(record.step)} apart"
    zone = f" Times are in {clock.zone}." if clock.zone else ""
    return f"{count(record.n_rows)} rows over {clock.length(record.span)}, {step}.{zone}"


def _evaluation_summary(evaluation: Evaluation, clock: Clock) -> str:
    times = evaluation.times
    return (
        f"Scored on {count(len(times))} rows from {clock.text(times[0])} to {clock.text(times[-1])}, "
        "which were not used in the fit."
    )


def _fit_summary(content: Content, forecaster: DeepLFMForecaster) -> str:
    histories, is_cut = content.selection.histories, content.selection.interrupted
    seconds = amount(sum(history.seconds for history in histories.values()), 3)
    names = listed([f"“{name}”" for name in content.selection.names])
    training = f"Training on all rows took {seconds} s, after the selection of the candidates. "
    if is_cut:
        training = f"Training was interrupted after {seconds} s. "
    elif not histories:  # solved, not trained
        training = ""
    kind = kind_of(forecaster.regressor_.model_, content.selection)
    return f"The model is {kind}: {names}. {training}Seed: {forecaster.random_state}."


def _notes(
    content: Content, forecaster: DeepLFMForecaster, forecast: pd.DataFrame | None
) -> list[str]:
    """Simplifications of the charts."""
    notes = []
    if forecaster.covariates_ and forecast is not None:
        notes.append(
            "The intervals of the forecast are drawn as those of Gaussians with its mean and standard "
            "deviation."
        )
    most = max(target.known for target in content.record.targets)
    if most > MOST_POINTS:
        notes.append(
            f"Of up to {count(most)} observations of a target, {count(MOST_POINTS)} are drawn: the "
            "lowest and highest of each segment."
        )
    if content.record.n_rows > RECORD_ROWS:
        notes.append(f"The prediction is drawn for the last {count(RECORD_ROWS)} rows of the data.")
    if forecast is not None and (drawn := len(thinned(forecast.index))) < len(forecast):
        notes.append(
            f"Of {count(len(forecast))} times of the forecast, {count(drawn)} evenly spaced ones are "
            "drawn; fast oscillations may look slow."
        )
    return notes


def _buttons(panels: Panels, has_more: bool) -> list[dict[str, Any]]:
    """Ranges of time to show."""
    window = panels.window
    buttons = [{"label": "All data", "range": json.dumps(window.range(window.whole))}]
    if has_more:
        end = {
            "label": "End of the data and forecast",
            "range": json.dumps(window.range(window.first)),
        }
        buttons.insert(0, end)
    return buttons
