"""Fitting a forecaster to a file and saving it: what ``fit`` and ``impute`` share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli.configuration import FILE_NAME, save_config
from deeplfm.cli.options import Running, Settings
from deeplfm.cli.reporting import INTERRUPTED
from deeplfm.cli.series import Series
from deeplfm.cli.terminal import Terminal

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        metavar="",
        help="Replace a model that is already there.",
        rich_help_panel="Results",
    ),
]


def fit_series(series: Series, settings: Settings, running: Running) -> DeepLFMForecaster:
    """A forecaster of what a user has chosen."""
    from deeplfm.estimators import DeepLFMForecaster

    progress = False if running.quiet else None
    forecaster = DeepLFMForecaster(**settings.parameters(), progress=progress)
    return forecaster.fit(
        series.frame,
        time=series.time,
        targets=[*series.targets],
        covariates=[*series.covariates],
        duplicates=series.duplicates,
        zone=series.zone,
    )


def save_model(
    forecaster: DeepLFMForecaster,
    folder: Path,
    context: typer.Context,
    series: Series,
    **resolved: Any,
) -> None:
    """Save a forecaster and the configuration that repeats it; a new folder is whole or not there.

    Args:
        forecaster: fitted.
        folder: where.
        context: of the command.
        series: what it was fitted to, whose columns the user may have left open.
        resolved: other options that the user left open.
    """
    is_new = not folder.exists()
    resolved |= {"time": series.time, "target": series.targets, "covariate": series.covariates}
    try:
        forecaster.save(folder)
        save_config(folder / FILE_NAME, context, resolved)
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def end_if_interrupted(forecaster: DeepLFMForecaster, terminal: Terminal, what: str) -> None:
    """Say what is left of a training that the user stopped, and end as one that was.

    Args:
        forecaster: fitted.
        terminal: of the command.
        what: what holds or comes from the best model so far, in words.
    """
    if forecaster.regressor_.fit_result_.interrupted:
        terminal.say(f"Interrupted: {what} the best model so far.")
        raise typer.Exit(INTERRUPTED)
