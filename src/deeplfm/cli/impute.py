"""``deeplfm impute``: fill the gaps of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deeplfm.cli import panels, summary
from deeplfm.cli.completion import complete_models
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
    flag,
    option,
)
from deeplfm.cli.outputs import Results, check_model_folder, rounded
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy import ndarray

    from deeplfm.estimators import DeepLFMForecaster

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
    from deeplfm.estimators.targets import warn_of_outliers

    results = Results(run, out, has_table=True)
    terminal = results.terminal
    if fitted is not None and model_out is not None:
        raise InputError("--fitted, --model-out: --fitted fits no model. Leave one of them out.")
    if model_out is not None:
        check_model_folder(model_out, "--model-out", overwrite)
    if fitted is not None:
        forecaster = load_forecaster(fitted, may_be_panel=True)
        if forecaster.panel_ is not None:
            frame = panels.read_long(forecaster, data, file)
            _impute_panel(forecaster, frame, results, data, intervals, coverage)
            return
        frame = read_like(forecaster, data, file)
    else:
        series = read_series(data, file, columns)
        if series.n_series:
            forecaster = fit_series(series, settings, run, terminal)
            _impute_panel(forecaster, series.frame, results, data, intervals, coverage)
            if model_out is not None:
                save_model(forecaster, model_out, context, series)
            return
        if intervals:
            _check_names(series, data)
        terminal.print(*summary.of_series(series, data))
        if model_out is None and not _has_gaps(series):
            warn_of_outliers(series.frame[series.targets].to_numpy(), series.targets)
            terminal.print(
                f"Nothing to fill: no empty field in {', '.join(series.targets)} "
                f"({len(series.frame)} rows). If a number marks missing values, name it: --missing -999."
            )
            results.write(_as_written(series.frame), with_index=False)
            results.print({"data": data, "rows": len(series.frame), "filled": {}}, series.frame)
            return
        forecaster, frame = fit_series(series, settings, run, terminal), series.frame
    filled = forecaster.impute(frame, intervals=intervals, coverage=coverage)
    missing = forecaster.missing_values_
    is_gap = {
        str(name): (frame[name].isna() | frame[name].isin(missing)).to_numpy()
        for name in forecaster.targets_
    }
    filled = _rounded(filled, is_gap, intervals)
    if forecaster.timeline_.name is None and frame.index.name is not None:  # a column of the file
        filled = filled.set_axis(frame.index).reset_index()
    if model_out is not None:
        save_model(forecaster, model_out, context, series)
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


def _impute_panel(
    forecaster: DeepLFMForecaster,
    frame: pd.DataFrame,
    results: Results,
    data: str,
    intervals: bool,
    coverage: float,
) -> None:
    """Fill the gaps of many series; rows come series by series."""
    filled = forecaster.impute(frame, intervals=intervals, coverage=coverage)
    text = f"Filled the gaps of {panels.n_series(forecaster, filled)} series: {len(filled)} rows"
    panels.write_table(forecaster, results, filled, {"data": data}, text)


def _has_gaps(series: Series) -> bool:
    targets = series.frame[series.targets]
    return bool((targets.isna() | targets.isin(series.missing_values)).to_numpy().any())


def _as_written(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with all fields as they are in its file."""
    from deeplfm.data.text import FIELDS

    fields = frame.attrs.get(FIELDS)
    return frame if fields is None else fields.filled(frame, {})


def _rounded(filled: pd.DataFrame, is_gap: dict[str, ndarray], intervals: bool) -> pd.DataFrame:
    """The table whose filled values have no more digits than the spread of their column needs."""
    from deeplfm.estimators.predictions import SUFFIXES

    result = filled.copy()
    for name, gaps in is_gap.items():
        scale = float(filled[name][~gaps].std())
        new = rounded(filled[[name]], scale)[name]
        result[name] = filled[name].where(~gaps, new)
        for end in SUFFIXES if intervals else ():
            result[f"{name}{end}"] = rounded(filled[[f"{name}{end}"]], scale)
    return result


def _check_names(series: Series, source: str) -> None:
    """Raise an error before the fit if the names of new columns are taken."""
    from deeplfm.estimators.predictions import SUFFIXES

    for column in (f"{name}{suffix}" for name in series.targets for suffix in SUFFIXES):
        if column in series.frame.columns:
            raise InputError(
                f"--intervals: {source} has a column {column!r} already. Rename it, or leave the "
                "intervals out."
            )
