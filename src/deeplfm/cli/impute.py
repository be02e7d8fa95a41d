"""``deeplfm impute``: fill the gaps of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplfm.cli import summary
from deeplfm.cli.fit import exit_if_interrupted, fit_series, save_model
from deeplfm.cli.inputs import Series, load_forecaster, read_like, read_series
from deeplfm.cli.options import (
    ColumnOptions,
    Coverage,
    Data,
    FileOptions,
    FitOptions,
    Overwrite,
    RunOptions,
    Table,
    complete_models,
    flag,
    option,
)
from deeplfm.cli.outputs import Results, check_model_folder
from deeplfm.errors import InputError

EXAMPLES = (
    "deeplfm impute vitals.csv --time t -o filled.csv",
    "deeplfm impute vitals.csv --model dlfm --intervals --model-out gap-model -o filled.csv",
    "deeplfm impute vitals.csv --fitted vitals-model > filled.csv",
)


def impute(
    context: typer.Context,
    data: Data,
    *,
    out: Table = None,
    intervals: Annotated[
        bool,
        flag("Results", "--intervals", "Add standard deviation and interval of filled values."),
    ] = False,
    coverage: Coverage = 0.95,
    fitted: Annotated[
        Path | None,
        option(
            None,
            "FOLDER",
            "Use a model saved by deeplfm fit instead of fitting one to these data.",
            autocompletion=complete_models,
        ),
    ] = None,
    model_out: Annotated[
        Path | None, option("Results", "FOLDER", "Save the fitted model in this folder.")
    ] = None,
    overwrite: Overwrite = False,
    columns: ColumnOptions,
    file: FileOptions,
    settings: FitOptions,
    run: RunOptions,
) -> None:
    """Fill the gaps of a table: fit a model, and write its mean into the empty fields.

    All other fields stay as they are. The table goes to standard output if no file is given.
    """
    from deeplfm.data.text import FIELDS

    results = Results(run, out, has_table=True)
    terminal = results.terminal
    if fitted is not None and model_out is not None:
        raise InputError("--fitted, --model-out: --fitted fits no model. Leave one of them out.")
    if model_out is not None:
        check_model_folder(model_out, "--model-out", overwrite)
    if fitted is not None:
        forecaster = load_forecaster(fitted)
        frame = read_like(forecaster, data, file)
    else:
        series = read_series(data, file, columns)
        if intervals:
            _check_names(series, data)
        terminal.print(*summary.of_series(series, data))
        forecaster, frame = fit_series(series, settings, run, terminal), series.frame
    filled = forecaster.impute(frame, intervals=intervals, coverage=coverage)
    if forecaster.timeline_.name is None and frame.index.name is not None:  # a column of the file
        filled = filled.set_axis(frame.index).reset_index()
    if model_out is not None:
        save_model(forecaster, model_out, context, series)
    is_gap = {str(name): frame[name].isna().to_numpy() for name in forecaster.targets_}
    fields = frame.attrs.get(FIELDS)
    if fields is None or str(out).lower().endswith(".parquet"):
        results.write(filled, with_index=False)
    else:  # fields that were not filled keep their text
        written = fields.filled(filled, is_gap)
        results.write(written, with_index=False, delimiter=fields.delimiter)
    gaps = {name: int(missing.sum()) for name, missing in is_gap.items()}
    terminal.print(f"Filled: {', '.join(f'{n} of {name}' for name, n in gaps.items())}")
    results.print({"data": data, "rows": len(filled), "filled": gaps, "model": model_out}, filled)
    if model_out is not None:
        terminal.print(f"Model: {model_out}")
    exit_if_interrupted(forecaster, terminal, f"{out or 'the table'} comes from")


def _check_names(series: Series, source: str) -> None:
    """Raise an error before the fit if the names of new columns are taken."""
    from deeplfm.estimators.predictions import SUFFIXES

    for column in (f"{name}{suffix}" for name in series.targets for suffix in SUFFIXES):
        if column in series.frame.columns:
            raise InputError(
                f"--intervals: {source} has a column {column!r} already. Rename it, or leave the "
                "intervals out."
            )
