"""``deeplfm fit``: fit a model to a table and save it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli import panels, summary
from deeplfm.cli.configuration import FILE_NAME, save_config
from deeplfm.cli.inputs import Series, read_series
from deeplfm.cli.messages import INTERRUPTED
from deeplfm.cli.options import (
    ColumnOptions,
    Data,
    FileOptions,
    FitOptions,
    Overwrite,
    Report,
    RunOptions,
    option,
)
from deeplfm.cli.outputs import Results, check_model_folder, report_writer, written_together
from deeplfm.cli.terminal import Terminal
from deeplfm.errors import InputError

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

EXAMPLES = (
    "deeplfm fit vitals.csv --time t --target abp --target ecg -o vitals-model",
    "deeplfm fit vitals.csv --model dlfm --report vitals.html -o quick-model",
    "deeplfm fit --config quick-model/run.toml --seed 1 -o again-model",
)


def fit(
    context: typer.Context,
    data: Data,
    *,
    out: Annotated[
        Path | None,
        option(
            "Results", "FOLDER", "Folder of the model. Default: named after DATA.", "--out", "-o"
        ),
    ] = None,
    overwrite: Overwrite = False,
    report: Report = None,
    columns: ColumnOptions,
    file: FileOptions,
    settings: FitOptions,
    run: RunOptions,
) -> None:
    """Fit a model to a table with one row per time, and save it in a folder.

    A table in long form, with a column that names the series of each row, is fitted series by series.
    Empty fields are gaps, in any target. The folder also holds all options as run.toml; --config
    repeats the fit with them.
    """
    from deeplfm.training.interruption import graceful_interrupts

    folder = check_model_folder(out or _default_folder(data), "--out", overwrite)
    results = Results(run, report=report)
    series = read_series(data, file, columns)
    results.terminal.print(*summary.of_series(series, data))
    if series.n_series:
        panels.refuse_pages(None, report)
    with graceful_interrupts():  # the first one ends the fit, and not what saves its result
        forecaster = fit_series(series, settings, run, results.terminal)
        with written_together() as add:
            add(report, report_writer(forecaster))
            save_model(forecaster, folder, context, series, out=folder)
    if not series.n_series:
        results.terminal.print(summary.target_table(forecaster))
    if run.verbose and not series.n_series:
        results.terminal.print(summary.selection_table(forecaster))
    results.terminal.print(f"Model: {folder}")
    described = panels.of_panel(forecaster) if series.n_series else summary.of_model(forecaster)
    results.print({"model": folder, **described})
    exit_if_interrupted(forecaster, results.terminal, f"{folder} holds")
    results.terminal.print(f"Next: deeplfm forecast {folder}{summary.next_options(series)}")


def fit_series(
    series: Series, settings: FitOptions, run: RunOptions, terminal: Terminal
) -> DeepLFMForecaster:
    """Fit a forecaster with the options of the command."""
    from deeplfm.estimators import DeepLFMForecaster
    from deeplfm.training.progress import announce

    started = time.monotonic()
    forecaster = DeepLFMForecaster(**settings.parameters(), progress=False if run.quiet else None)
    announce.set(None if run.quiet else terminal.print)
    forecaster.fit(series.frame, **series.arguments)
    seconds = time.monotonic() - started
    if series.n_series:
        panels.print_fit(forecaster, terminal, seconds)
    else:
        terminal.print(summary.of_fit(forecaster, seconds))
    return forecaster


def save_model(
    forecaster: DeepLFMForecaster,
    folder: Path,
    context: typer.Context,
    series: Series,
    **resolved: Any,
) -> None:
    """Save a forecaster and the options that repeat its fit; a new folder is complete or absent."""
    is_new = not folder.exists()
    time = ",".join(series.time) if isinstance(series.time, list) else series.time
    resolved |= {"time": time, "target": series.targets, "covariate": series.covariates}
    try:
        forecaster.save(folder)
        save_config(folder / FILE_NAME, context, resolved)
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def exit_if_interrupted(forecaster: DeepLFMForecaster, terminal: Terminal, what: str) -> None:
    """Print what an interrupted fit has left, and exit with code 130."""
    is_cut = (
        (forecaster.series_["status"] == "left out").any()
        if forecaster.panel_ is not None
        else forecaster.regressor_.fit_result_.interrupted
    )
    if is_cut:
        terminal.print(f"Interrupted: {what} the best model so far.")
        raise typer.Exit(INTERRUPTED)


def _default_folder(data: str) -> Path:
    if data == "-":
        raise InputError("--out: standard input has no name. Name the folder of the model with -o.")
    return Path(f"{Path(data).name.partition('.')[0]}-model")
