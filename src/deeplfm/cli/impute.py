"""``deeplfm impute``: a table with its gaps filled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplfm.cli.completion import complete_models
from deeplfm.cli.fitting import Overwrite, end_if_interrupted, fit_series, save_model
from deeplfm.cli.models import load_forecaster, read_like
from deeplfm.cli.options import Columns, Coverage, Data, Reading, Running, Settings
from deeplfm.cli.paths import model_folder
from deeplfm.cli.results import Results, Table
from deeplfm.cli.series import Series, read_series
from deeplfm.cli.summary import about
from deeplfm.errors import InputError

EXAMPLES = (
    "deeplfm impute vitals.csv --time t -o filled.csv",
    "deeplfm impute vitals.csv --start pursuit --intervals --model-out gap-model -o filled.csv",
    "deeplfm impute vitals.csv --model vitals-model > filled.csv",
)


def impute(
    context: typer.Context,
    data: Data,
    *,
    out: Table = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            metavar="",
            help="Add the standard deviation and interval of what was filled.",
        ),
    ] = False,
    coverage: Coverage = 0.95,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            autocompletion=complete_models,
            help="Fill with a fitted model instead of fitting one to these data.",
        ),
    ] = None,
    model_out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Save the model that was fitted.")
    ] = None,
    overwrite: Overwrite = False,
    columns: Columns,
    reading: Reading,
    settings: Settings,
    running: Running,
) -> None:
    """Fill the gaps of a table: fit a model to it, and put what it expects where fields are empty.

    Everything else stays as it is. The table goes to standard output where no file is asked for.
    """
    from deeplfm.data.fields import FIELDS

    results = Results.with_table(running, out)
    if model is not None and model_out is not None:
        raise InputError("--model, --model-out: a model is fitted or given. Leave one of them out.")
    if model_out is not None:
        model_folder(model_out, "--model-out", overwrite)
    terminal = results.terminal()
    if model is not None:
        forecaster = load_forecaster(model)
        frame = read_like(forecaster, data, reading)
    else:
        series = read_series(data, reading, columns)
        if intervals:
            _check_room(series, data)
        terminal.say(*about(series, data))
        forecaster, frame = fit_series(series, settings, running), series.frame
    filled = forecaster.impute(frame, intervals=intervals, coverage=coverage)
    if forecaster.timeline_.name is None and frame.index.name is not None:  # a column of the file
        filled = filled.set_axis(frame.index).reset_index()
    if model_out is not None:
        save_model(forecaster, model_out, context, series)
    is_gap = {str(name): frame[name].isna().to_numpy() for name in forecaster.targets_}
    fields = frame.attrs.get(FIELDS)
    if fields is None or str(out).lower().endswith(".parquet"):
        results.write(filled, with_index=False)
    else:  # all that was not filled stays as it is written
        written = fields.filled(filled, is_gap)
        results.write(written, with_index=False, delimiter=fields.delimiter)
    gaps = {name: int(missing.sum()) for name, missing in is_gap.items()}
    terminal.say(f"Filled: {', '.join(f'{n} of {name}' for name, n in gaps.items())}")
    results.say({"data": data, "rows": len(filled), "filled": gaps, "model": model_out}, filled)
    if model_out is not None:
        terminal.say(f"Model: {model_out}")
    end_if_interrupted(forecaster, terminal, f"{out or 'the table'} comes from")


def _check_room(series: Series, source: str) -> None:
    """See before the fit that the columns of intervals have names of their own."""
    from deeplfm.estimators.columns import SUFFIXES

    for column in (f"{name}{suffix}" for name in series.targets for suffix in SUFFIXES):
        if column in series.frame.columns:
            raise InputError(
                f"--intervals: {source} has a column {column!r} already. Rename it, or leave the "
                "intervals out."
            )
