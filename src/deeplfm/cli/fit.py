"""``deeplfm fit``: from a table to a model in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplfm.cli import summary
from deeplfm.cli.fitting import Overwrite, end_if_interrupted, fit_series, save_model
from deeplfm.cli.options import Columns, Data, Reading, Running, Settings
from deeplfm.cli.paths import Outputs, model_folder
from deeplfm.cli.results import Report, Results
from deeplfm.cli.series import read_series
from deeplfm.errors import InputError

EXAMPLES = (
    "deeplfm fit vitals.csv --time t --target abp --target ecg -o vitals-model",
    "deeplfm fit vitals.csv --start pursuit --report vitals.html -o quick-model",
    "deeplfm fit --config quick-model/run.toml --seed 1 -o again-model",
)


def fit(
    context: typer.Context,
    data: Data,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            rich_help_panel="Results",
            help="Where to save the model. Default: the name of the data, and -model.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    report: Report = None,
    columns: Columns,
    reading: Reading,
    settings: Settings,
    running: Running,
) -> None:
    """Fit a model to a table with a row per time, and save it in a folder.

    Empty fields are gaps, in any column of targets. The model folder also keeps the resolved options
    as run.toml, with which --config repeats the run.
    """
    folder = model_folder(out or _default_folder(data), "--out", overwrite)
    results = Results(running, report=report)
    terminal = results.terminal()
    series = read_series(data, reading, columns)
    terminal.say(*summary.about(series, data))
    forecaster = fit_series(series, settings, running)

    def write_page(path: Path) -> None:
        from deeplfm.report import write_report

        write_report(path, forecaster)

    with Outputs() as outputs:
        outputs.add(report, write_page)
        save_model(forecaster, folder, context, series, out=folder)
    terminal.say(summary.target_table(forecaster), summary.start_table(forecaster))
    terminal.say(f"Model: {folder}")
    results.say({"model": folder, **summary.of_model(forecaster)})
    end_if_interrupted(forecaster, terminal, f"{folder} holds")
    terminal.say(f"Next: deeplfm forecast {folder} --horizon 100 --plot forecast.png")


def _default_folder(data: str) -> Path:
    if data == "-":
        raise InputError("--out: data from standard input have no name. Give one with -o.")
    return Path(f"{Path(data).name.partition('.')[0]}-model")
