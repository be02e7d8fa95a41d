"""One page that shows a forecast, what it rests on and what to distrust, and needs no network."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from plotly.offline import get_plotlyjs
from sklearn.utils.validation import check_is_fitted

import deeplfm
from deeplfm.errors import InputError
from deeplfm.estimators.columns import SUFFIXES, Name
from deeplfm.io.files import versions, write_whole
from deeplfm.report import tables
from deeplfm.report.cautions import cautions, looks_clinical
from deeplfm.report.charts import MOST_POINTS
from deeplfm.report.clock import Clock
from deeplfm.report.evidence import Case, Score, gather
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
    """Write one HTML page about a forecaster: charts, tables and cautions, all in one file.

    Args:
        path: file to write; its folder must exist.
        forecaster: fitted.
        forecast: what ``forecaster.forecast`` returned; without it the page shows the fit.
        evaluation: later observations, as ``forecaster.evaluate`` takes them, to judge it by.
        title: of the page; by default it names the targets.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"report: the folder {path.parent} does not exist. Create it first.")
    check_is_fitted(forecaster)
    if forecast is not None:
        _check_forecast(forecast, forecaster.targets_)
    text = _render(gather(forecaster, forecast, evaluation), forecaster, forecast, title)
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _check_forecast(forecast: pd.DataFrame, targets: list[Name]) -> None:
    wanted = [*targets, *(f"{name}{end}" for name in targets for end in SUFFIXES)]
    absent = [name for name in wanted if name not in forecast.columns]
    if absent:
        raise InputError(
            f"report: forecast has no column {absent[0]!r}, of {len(absent)} that are missing. Give "
            "what forecaster.forecast(...) returned."
        )
    if not len(forecast):
        raise InputError(
            "report: forecast has 0 rows. Forecast at least one time, or leave it out."
        )


def _render(
    case: Case, forecaster: DeepLFMForecaster, forecast: pd.DataFrame | None, title: str | None
) -> str:
    """The page as text; the template escapes whatever comes from the user."""
    home = files("deeplfm.report")
    style, script, template = (
        (home / name).read_text(encoding="utf-8")
        for name in ("style.css", "page.js", "template.html")
    )
    targets = [target.name for target in case.record.targets]
    what = "Fit" if forecast is None else "Forecast"
    title = title or f"{what} of {listed(targets)}"
    panels = Panels(case)
    forces, forces_note = panels.forces(forecaster)
    spectra = panels.spectra()
    judgement = case.judgement
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(template).render(
        title=title,
        summary=_summary(case, targets, forecast),
        people=looks_clinical([*targets, *map(str, forecaster.covariates_)], title),
        forecast_heading=what,
        levels=LEVELS,
        is_judged=judgement is not None,
        has_gaps=any(target.gaps for target in case.record.targets),
        notes=_notes(case, forecaster, forecast),
        buttons=_buttons(panels, forecast is not None or judgement is not None),
        forecasts=panels.forecasts(),
        forecast_table=forecast is not None
        and tables.forecast_table(forecast, forecaster.targets_, case.clock),
        cautions=cautions(case),
        data_summary=_data_summary(case),
        target_table=tables.target_table(case.record, case.clock),
        judged_summary=judgement and _judged_summary(judgement, case.clock),
        score_table=judgement and tables.score_table(judgement),
        coverage_table=judgement and tables.coverage_table(judgement, targets),
        calibration=panels.calibration(),
        start_table=tables.start_table(case.report, targets),
        forces=forces,
        forces_note=forces_note,
        force_unit=forecaster.timeline_.unit or f"unit of {case.clock.name}",
        spectra=spectra,
        line_table=spectra and tables.line_table(case.lines, case.clock),
        fit_summary=_fit_summary(case, forecaster),
        settings_table=tables.settings_table(forecaster.get_params()),
        version_table=tables.version_table(versions()),
        citation=_CITATION.format(version=deeplfm.__version__),
        version=deeplfm.__version__,
        made_on=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        style=style,
        script=script,
        plotly=get_plotlyjs(),
    )


def _summary(case: Case, targets: list[str], forecast: pd.DataFrame | None) -> str:
    """What was asked."""
    clock, training = case.clock, case.training.index
    record = (
        f"{count(len(training))} rows from {clock.text(training[0])} to {clock.text(training[-1])}"
    )
    if forecast is None:
        text = f"A model of {listed(targets)}, fitted to {record}."
    else:
        first, last = forecast.index.min(), forecast.index.max()
        text = (
            f"A forecast of {listed(targets)} at {count(len(forecast))} times, from "
            f"{clock.text(first)} to {clock.text(last)}, made from {record}."
        )
    if case.judgement is not None:
        text += f" {count(len(case.judgement.times))} later rows, which it has not seen, judge it."
    return text


def _data_summary(case: Case) -> str:
    clock, record = case.clock, case.record
    if record.calendar in ("weekdays", "months", "month ends"):
        step = f"one for each of the {record.calendar}"
    elif record.is_regular:
        step = f"one every {clock.length(record.step).removeprefix('1 ')}"
    else:
        step = f"at irregular times, typically {clock.length(record.step)} apart"
    zone = f" Times are in {clock.zone}." if clock.zone else ""
    return f"{count(record.n_rows)} rows over {clock.length(record.span)}, {step}.{zone}"


def _judged_summary(judgement: Score, clock: Clock) -> str:
    times = judgement.times
    return (
        f"Judged by {count(len(times))} rows from {clock.text(times[0])} to {clock.text(times[-1])} "
        "that the model has not seen."
    )


def _fit_summary(case: Case, forecaster: DeepLFMForecaster) -> str:
    histories = case.report.histories
    seconds = sum(history.seconds for history in histories.values())
    names = listed([f"“{name}”" for name in histories])
    rows = (
        "Training, until it was interrupted," if case.report.interrupted else "Training on all rows"
    )
    return (
        f"The model is {'a stack of ' * (len(histories) > 1)}{names}. {rows} took "
        f"{amount(seconds, 3)} s, without the race between the starts before it. The seed was "
        f"{forecaster.random_state}."
    )


def _notes(case: Case, forecaster: DeepLFMForecaster, forecast: pd.DataFrame | None) -> list[str]:
    """What the charts leave out or simplify."""
    notes = []
    if forecaster.covariates_ and forecast is not None:
        notes.append(
            "The covariates of the forecast are not part of it, so its intervals are drawn as those "
            "of Gaussians with its mean and standard deviation."
        )
    most = max(target.known for target in case.record.targets)
    if most > MOST_POINTS:
        notes.append(
            f"Of up to {count(most)} observations of a target, {count(MOST_POINTS)} are drawn: the "
            "lowest and highest of each neighbourhood."
        )
    if case.record.n_rows > RECORD_ROWS:
        notes.append(
            f"Inside the record the model is drawn for the last {count(RECORD_ROWS)} rows."
        )
    if forecast is not None and (drawn := len(thinned(forecast.index))) < len(forecast):
        notes.append(
            f"Of {count(len(forecast))} times of the forecast, {count(drawn)} evenly spaced ones are "
            "drawn; faster waves may look slow."
        )
    return notes


def _buttons(panels: Panels, has_more: bool) -> list[dict[str, Any]]:
    """Stretches of time to jump to."""
    window = panels.window
    buttons = [{"label": "Everything", "range": json.dumps(window.range(window.whole))}]
    if has_more:
        end = {"label": "What follows the record", "range": json.dumps(window.range(window.first))}
        buttons.insert(0, end)
    return buttons
