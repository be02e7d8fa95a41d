"""``deeplfm forecast`` and ``deeplfm evaluate``: forecasts, and their scores on later rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deeplfm.cli import panels
from deeplfm.cli.inputs import load_forecaster, pit_values, read_like, times_in
from deeplfm.cli.options import (
    Covariates,
    Coverage,
    Data,
    FileOptions,
    Fitted,
    Plot,
    Report,
    RunOptions,
    Table,
    flag,
    option,
)
from deeplfm.cli.outputs import Results, by_time, report_writer, rounded
from deeplfm.cli.summary import SCORES_EXPLAINED, score_table
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from deeplfm.estimators import DeepLFMForecaster

FORECAST_EXAMPLES = (
    "deeplfm forecast vitals-model --horizon 300 -o forecast.csv --plot forecast.png",
    "deeplfm forecast vitals-model --until 12.5 --level 80,95 --report forecast.html",
    "deeplfm forecast vitals-model --horizon 10 --json",
)
EVALUATE_EXAMPLES = (
    "deeplfm evaluate vitals-model later.csv",
    "deeplfm evaluate vitals-model later.csv --plot calibration.png --report later.html",
    "deeplfm evaluate vitals-model later.csv --json",
)


def forecast(
    model: Fitted,
    *,
    horizon: Annotated[
        int | None, option(None, "STEPS", "Number of steps after the last row.", min=1)
    ] = None,
    until: Annotated[
        str | None, option(None, "TIME", "Last time: 120.5, 2024-03-01, 00:30:00.")
    ] = None,
    times: Annotated[
        str | None, option(None, "FILE", "Table with a column of the times to forecast.")
    ] = None,
    covariates: Covariates = None,
    coverage: Coverage = 0.95,
    level: Annotated[
        str | None, option(None, "PERCENT", "Several intervals, such as 80,95.", "--level")
    ] = None,
    quantiles: Annotated[
        str | None, option(None, "LEVELS", "Quantiles between 0 and 1, such as 0.1,0.5,0.9.")
    ] = None,
    conformal: Annotated[
        int | None,
        option(None, "ORIGINS", "Set widths by fits at this many earlier origins.", min=1),
    ] = None,
    fallback: Annotated[
        bool,
        flag(None, "--fallback", "Repeat the last season of series that could not be fitted."),
    ] = False,
    only: Annotated[
        str | None,
        option(None, "NAME", "Forecast one of many series alone; figures and reports show one."),
    ] = None,
    new: Annotated[
        str | None,
        option(None, "FILE", "Forecast the series in this table by what a panel learned."),
    ] = None,
    static: Annotated[
        str | None, option(None, "FILE", "Features of new series that do not change.")
    ] = None,
    out: Table = None,
    plot: Plot = None,
    report: Report = None,
    file: FileOptions,
    run: RunOptions,
) -> None:
    """Forecast every target, with standard deviation and interval.

    Without --horizon, --until and --times, the times of --covariates after the last row are forecast,
    or where there are none, a tenth of the number of rows. The table goes to standard output if no
    other output is requested.
    """
    if [horizon, until, times].count(None) < 2:
        raise InputError("--horizon, --until, --times: give only one, the extent of a forecast.")
    if static is not None and new is None:
        raise InputError("--static: features are given with the series of --new. Add them.")
    results = Results(run, out, plot, report, has_table=True)
    forecaster = load_forecaster(model, may_be_panel=True)
    if only is not None and new is not None:
        raise InputError("--only, --new: give one, a series of the panel or the table of new ones.")
    if only is not None:
        forecaster = panels.one_of(forecaster, only)
    chosen: dict[str, Any] = {
        "level": _numbers(level, "--level"),
        "quantiles": _numbers(quantiles, "--quantiles"),
    }
    if conformal is not None:
        if new is not None:
            raise InputError("--conformal: not possible with --new, whose models have no fit.")
        chosen["conformal"] = conformal
    if forecaster.panel_ is not None:
        panels.refuse_pages(plot, report)
        if times is not None:
            raise InputError("--times: not possible with a panel. Give --horizon or --until.")
        extent = {"horizon": horizon, "until": until, "coverage": coverage, "fallback": fallback}
        if covariates is not None:
            extent["covariates"] = panels.read_long(forecaster, covariates, file)
        rows = None if new is None else panels.read_long(forecaster, new, file)
        if static is not None:
            extent["static"] = panels.read_static(static, file, forecaster._panel.columns.series)
        panels.write_forecast(forecaster, results, model, extent | chosen, rows)
        return
    if new is not None:
        raise InputError(
            f"--new: {model} is no panel. Fit the rows of a new series with deeplfm fit."
        )
    needed = forecaster.covariates_
    future = None if covariates is None else read_like(forecaster, covariates, file, needed)
    given = None
    if times is not None:  # the file may hold the covariates too
        given = read_like(forecaster, times, file, [] if covariates is not None else needed)
        future = given if needed and future is None else future
    found = forecaster.forecast(
        horizon,
        until,
        None if given is None else times_in(given, forecaster),
        covariates=future,
        coverage=coverage,
        **chosen,
    )
    table = by_time(forecaster, _rounded(found, forecaster))
    results.write(
        table,
        lambda: forecaster._figure(forecaster._with_rows_before(found.index), future),
        lambda path: _write_report(path, forecaster, found, future, coverage),
        with_index=False,
    )
    first, last = forecaster.timeline_.texts(found.index[[0, -1]])
    intervals = f"{level or f'{100 * coverage:g}'} % intervals" if not quantiles else "quantiles"
    results.terminal.print(
        f"Forecast of {', '.join(map(str, forecaster.targets_))}: {len(found)} times from "
        f"{first} to {last}, {intervals}"
    )
    content = {"model": model, "rows": len(found), "coverage": coverage} | chosen
    results.print({name: value for name, value in content.items() if value is not None}, table)


def evaluate(
    model: Fitted,
    data: Data,
    *,
    plot: Plot = None,
    report: Report = None,
    file: FileOptions,
    run: RunOptions,
) -> None:
    """Score the forecasts of a model on later rows: error, log density and coverage.

    Values known in training are left out, with a warning. The figure shows the calibration of the
    predictive distributions.
    """
    results = Results(run, None, plot, report)
    forecaster = load_forecaster(model, may_be_panel=True)
    if forecaster.panel_ is not None:
        panels.refuse_pages(plot, report)
        scores = forecaster.evaluate(panels.read_long(forecaster, data, file))
        panels.write_scores(forecaster, results, scores, {"model": model, "data": data})
        return
    later = read_like(forecaster, data, file)
    scores = forecaster.evaluate(later)

    def draw() -> Figure:
        from deeplfm.plots import calibration_figure

        return calibration_figure(pit_values(forecaster, later))

    results.write(scores, draw, report_writer(forecaster, evaluation=later))
    results.terminal.print(score_table(scores), SCORES_EXPLAINED)
    results.print({"model": model, "data": data, "scores": scores.to_dict("index")})


def _numbers(text: str | None, option: str) -> list[float] | None:
    """Numbers that are separated by commas."""
    try:
        return None if text is None else [float(item) for item in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option}: {text!r} found. Give numbers, separated by commas.") from error


def _rounded(found: pd.DataFrame, forecaster: DeepLFMForecaster) -> pd.DataFrame:
    """A forecast without digits that its uncertainty makes meaningless."""
    import pandas as pd

    size = len(found.columns) // len(forecaster.targets_)
    parts = [found.iloc[:, i : i + size] for i in range(0, len(found.columns), size)]
    return pd.concat([rounded(part, float(part.iloc[:, 1].min())) for part in parts], axis=1)


def _write_report(
    path: Path,
    forecaster: DeepLFMForecaster,
    found: pd.DataFrame,
    covariates: pd.DataFrame | None,
    coverage: float,
) -> None:
    """The report, which needs the columns of one interval."""
    if not {f"{name}_low" for name in forecaster.targets_} <= set(found.columns):
        found = forecaster.forecast(times=found.index, covariates=covariates, coverage=coverage)
    report_writer(forecaster, forecast=found)(path)
