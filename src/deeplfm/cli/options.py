"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from deeplfm.cli.completion import complete_model, complete_models
from deeplfm.cli.configuration import use_config
from deeplfm.errors import InputError


def option(panel: str | None, metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option with a value, in a panel of the help."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


def flag(panel: str | None, name: str, help: str, *short: str) -> Any:
    """An option without a value."""
    return typer.Option(name, *short, metavar="", help=help, rich_help_panel=panel)


_result, _data, _model, _training, _run = (
    partial(option, panel) for panel in ("Results", "Data", "Model", "Training", "Run")
)

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Table with one row per time: CSV, TSV or Parquet, also compressed (.gz); "
        "- reads standard input.",
        show_default=False,
    ),
]
Fitted = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Folder written by deeplfm fit.",
        autocompletion=complete_models,
        show_default=False,
    ),
]
Covariates = Annotated[
    str | None,
    option(None, "FILE", "Future values of the covariates, for a model that has some."),
]
Coverage = Annotated[
    float,
    option(None, "SHARE", "Coverage of the intervals; 0.95 is 95 %.", min=0.01, max=0.999),
]
Table = Annotated[
    str | None,
    _result(
        "TABLE",
        "Write the table: .csv, .tsv, .csv.gz, .tsv.gz or .parquet; - is standard output, the "
        "default if no other output is requested.",
        "--out",
        "-o",
    ),
]
Plot = Annotated[Path | None, _result("FIGURE", "Write a figure: .png, .pdf or .svg.")]
Report = Annotated[Path | None, _result("PAGE", "Write a report as one page: .html.")]
Overwrite = Annotated[bool, flag("Results", "--overwrite", "Replace an existing model.")]
Since = Annotated[str | None, option(None, "TIME", "First time.", "--from")]
Until = Annotated[str | None, option(None, "TIME", "Last time.", "--until")]
Points = Annotated[int | None, option(None, "N", "Number of evenly spaced times.", min=2)]


@dataclass(frozen=True)
class FileOptions:
    """The format of text files."""

    delimiter: Annotated[
        str | None, _data("SIGN", "Separator of the columns. Default: detected.")
    ] = None
    decimal: Annotated[str | None, _data("SIGN", "Decimal point or comma. Default: detected.")] = (
        None
    )


Backend = Literal["loky", "dask", "ray"]
Duplicates = Literal["refuse", "mean"]


@dataclass(frozen=True)
class ColumnOptions:
    """The roles of the columns."""

    time: Annotated[
        str | None,
        _data(
            "COLUMN",
            "Numbers, dates or durations; Date,Time for a date and a time of day in two columns, "
            "year,quarter or year,month,day for parts of a date. Default: the first column, if it "
            "looks like time.",
        ),
    ] = None
    target: Annotated[
        list[str] | None,
        _data("COLUMN", "To model; repeat, or separate by commas. Default: all other numbers."),
    ] = None
    covariate: Annotated[
        list[str] | None,
        _data(
            "COLUMN",
            "Known in advance, also in the future: numbers, or texts as categories; repeat, or separate "
            "by commas.",
        ),
    ] = None
    measurement_error: Annotated[
        list[str] | None,
        _data(
            "COLUMN",
            "Standard deviations of the errors of the rows: one column for all targets, or one for each.",
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        _data("NUMBER", "Marks a missing target, such as -999; repeat, or separate by commas."),
    ] = None
    calendar: Annotated[
        list[str] | None,
        _data("PART", "Effect of hour, weekday, weekend, month or quarter; repeat for several."),
    ] = None
    holidays: Annotated[
        str | None, _data("COUNTRY", "Effect of public holidays, such as DE, or DE-BY for a part.")
    ] = None
    floor: Annotated[float | None, _data("NUMBER", "Least value that a target can have.")] = None
    cap: Annotated[float | None, _data("NUMBER", "Largest value that a target can have.")] = None
    duplicates: Annotated[
        Duplicates,
        typer.Option(
            help="Refuse rows with the same time, or average them.", rich_help_panel="Data"
        ),
    ] = "refuse"
    zone: Annotated[
        str | None, _data("ZONE", "Time zone of dates without one, such as Europe/Berlin.")
    ] = None
    series: Annotated[
        str | None,
        _data(
            "COLUMN",
            "Names the series of each row, in a table of many. Default: unique_id or item_id, if there.",
        ),
    ] = None
    pooled: Annotated[
        bool, flag("Data", "--pooled", "Learn from all series how wide forecasts need to be.")
    ] = False
    static: Annotated[
        str | None,
        _data("FILE", "Table of features that a series has at all times, a row for each."),
    ] = None

    def fit_options(self) -> dict[str, Any]:
        """Arguments of ``DeepLFMForecaster.fit`` that do not depend on the table."""
        missing = [item for text in self.missing or [] for item in text.split(",")]
        try:
            numbers = [float(item) for item in missing]
        except ValueError as error:
            raise InputError(
                f"--missing: {', '.join(missing)} found. Give numbers, such as --missing -999."
            ) from error
        return {
            "duplicates": self.duplicates,
            "zone": self.zone,
            "missing_values": numbers,
            "calendar": [item for text in self.calendar or [] for item in text.split(",")],
            "holidays": self.holidays,
            "floor": self.floor,
            "cap": self.cap,
        }


@dataclass(frozen=True)
class FitOptions:
    """Settings of the model and its training; defaults are the estimator's."""

    model: Annotated[
        str,
        _model(
            "MODEL",
            'Name such as auto, ensemble, dlfm or paper, or sum of terms such as "trend + season(12) + '
            'level"; deeplfm models lists all.',
            autocompletion=complete_model,
        ),
    ] = "auto"
    effort: Annotated[
        Literal["fast", "default", "thorough"],
        typer.Option(
            help="How much --model auto tries: seconds, tens of seconds, as long as it takes.",
            rich_help_panel="Model",
        ),
    ] = "default"
    input_dependent_noise: Annotated[
        bool, flag("Model", "--input-dependent-noise", "Noise that varies with time.")
    ] = False
    log_targets: Annotated[
        bool | None,
        flag(
            "Model",
            "--log-targets/--no-log-targets",
            "Model the logarithm of the targets. Default: if it fits the data better.",
        ),
    ] = None
    n_steps: Annotated[int | None, _training("N", "Training steps of each fit.", min=0)] = None
    batch_size: Annotated[int | None, _training("N", "Rows in each step.", min=1)] = None
    time_limit: Annotated[
        float | None, _training("SECONDS", "Limit for the whole fit, all candidates.", min=0)
    ] = None
    patience: Annotated[
        int | None, _training("N", "Stop after this many steps without improvement.", min=1)
    ] = None
    seed: Annotated[
        int, _training("N", "Random seed; the same seed, jobs and threads repeat the fit.", min=0)
    ] = 0
    jobs: Annotated[int | None, _training("N", "Parallel fits. Default: one per core.", min=1)] = (
        None
    )
    backend: Annotated[
        Backend | None,
        typer.Option(
            help="Where they run: this machine, or a cluster of Dask or Ray that is set up.",
            rich_help_panel="Training",
        ),
    ] = None
    device: Annotated[str, _training("DEVICE", "cpu, cuda, ...")] = "cpu"
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        typer.Option(help="Precision.", rich_help_panel="Training"),
    ] = None
    checkpoint: Annotated[
        Path | None,
        _training("FOLDER", "Keep the state of the fit; the same command continues a killed one."),
    ] = None
    compile: Annotated[
        bool, flag("Training", "--compile", "Compile kernels for this machine; needs C++.")
    ] = False

    def parameters(self) -> dict[str, Any]:
        """Arguments of the estimator."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.model.startswith("{"):  # candidates, from a table [model] of a file
            values["model"] = json.loads(self.model)
        values["random_state"] = values.pop("seed")
        jobs = values.pop("jobs")
        values["n_jobs"] = jobs if jobs or self.backend else -1
        return values


@dataclass(frozen=True)
class OutputOptions:
    """How a command prints its results."""

    json: Annotated[bool, flag("Run", "--json", "Print one JSON object to standard output.")] = (
        False
    )
    debug: Annotated[bool, flag("Run", "--debug", "Show the traceback of an error.")] = False


@dataclass(frozen=True)
class RunOptions(OutputOptions):
    """Options of commands that compute something."""

    quiet: Annotated[bool, flag("Run", "--quiet", "Print only warnings and errors.", "-q")] = False
    verbose: Annotated[
        bool, flag("Run", "--verbose", "Print the candidates with scores and weights.", "-v")
    ] = False
    config: Annotated[
        Path | None,
        _run(
            "FILE",
            "TOML file with any of these options; the command line takes precedence.",
            callback=use_config,
            is_eager=True,
        ),
    ] = None
