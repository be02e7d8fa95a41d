"""``deeplfm forecast``: what comes after the data of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deeplfm.cli.models import load_forecaster, read_like, times_in
from deeplfm.cli.options import Covariates, Coverage, Model, Reading, Running
from deeplfm.cli.results import Plot, Report, Results, Table
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from deeplfm.estimators import DeepLFMForecaster

EXAMPLES = (
    "deeplfm forecast vitals-model --horizon 300 -o forecast.csv --plot forecast.png",
    "deeplfm forecast vitals-model --until 12.5 --coverage 0.8 --report forecast.html",
    "deeplfm forecast vitals-model --horizon 10 --json",
)
_ROWS_BEFORE = 2  # lengths of the forecast that a figure shows of the data before it


def forecast(
    model: Model,
    *,
    horizon: Annotated[
        int | None,
        typer.Option(min=1, metavar="STEPS", help="So many steps beyond the last row."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Every step up to a time: 120.5, 2024-03-01, 00:30:00."),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Times of your own: a table with a column of them."),
    ] = None,
    covariates: Covariates = None,
    coverage: Coverage = 0.95,
    out: Table = None,
    plot: Plot = None,
    report: Report = None,
    reading: Reading,
    running: Running,
) -> None:
    """Forecast every target, with its standard deviation and an interval.

    The table goes to standard output where no file is asked for.
    """
    if [horizon, until, times].count(None) != 2:
        raise InputError(
            "--horizon, --until, --times: give one of them, to say how far to forecast."
        )
    results = Results.with_table(running, out, plot, report)
    forecaster = load_forecaster(model)
    asked, future = _tables(forecaster, times, covariates, reading)
    found = forecaster.forecast(
        horizon,
        until,
        None if asked is None else times_in(asked, forecaster),
        covariates=future,
        coverage=coverage,
    )

    def write_page(path: Path) -> None:
        from deeplfm.report import write_report

        write_report(path, forecaster, forecast=found)

    results.write(found, lambda: _figure(forecaster, found, future), write_page)
    results.terminal().say(
        f"{len(found)} times from {found.index[0]} to {found.index[-1]}: "
        f"{', '.join(map(str, forecaster.targets_))} with {coverage:.0%} intervals"
    )
    results.say({"model": model, "rows": len(found), "coverage": coverage}, found.reset_index())


def _tables(
    forecaster: DeepLFMForecaster, times: str | None, covariates: str | None, reading: Reading
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Times that were asked for, and covariates, which may stand beside them in one file."""
    needed = forecaster.covariates_
    future = None if covariates is None else read_like(forecaster, covariates, reading, needed)
    if times is None:
        return None, future
    asked = read_like(forecaster, times, reading, [] if covariates is not None else needed)
    return asked, asked if needed and future is None else future


def _figure(
    forecaster: DeepLFMForecaster, found: pd.DataFrame, covariates: pd.DataFrame | None
) -> Figure:
    """The forecast, and as much of the data before it as lets one judge it."""
    from deeplfm.plots import fans_of, forecast_figure

    training, names = forecaster.training_, [str(name) for name in forecaster.targets_]
    shown = training.iloc[-_ROWS_BEFORE * len(found) :]
    index = shown.index.union(found.index)
    return forecast_figure(
        index,
        fans_of(forecaster.posterior(index, covariates), names),
        training[forecaster.targets_].set_axis(names, axis=1),
        time_label=str(forecaster.timeline_.name or "time"),
        since=index[0],
    )
