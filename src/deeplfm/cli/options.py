"""Arguments and options that several commands share, each declared here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplfm.cli.completion import complete_models
from deeplfm.cli.configuration import use_config
from deeplfm.errors import InputError

_data, _model, _training, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Data", "Model", "Training", "Run")
)

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Table with a row per time: CSV, TSV or Parquet, also compressed (.gz); "
        "- reads standard input.",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Folder that deeplfm fit made.",
        autocompletion=complete_models,
        show_default=False,
    ),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Future of the covariates, for a model that was fitted with some."
    ),
]
Coverage = Annotated[
    float,
    typer.Option(min=0.01, max=0.999, metavar="SHARE", help="Of the intervals; 0.95 is 95 %."),
]


@dataclass(frozen=True)
class Reading:
    """How text files are written; by default they are looked at."""

    delimiter: Annotated[
        str | None,
        _data(metavar="SIGN", help="What separates columns; found by itself, as a rule."),
    ] = None
    decimal: Annotated[
        str | None,
        _data(metavar="SIGN", help="Decimal point or comma; found by itself, as a rule."),
    ] = None


class Duplicates(StrEnum):
    """What becomes of rows of the same time."""

    REFUSE = "refuse"
    MEAN = "mean"


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    time: Annotated[
        str | None,
        _data(
            metavar="COLUMN",
            help="Numbers, dates or durations; Date,Time for a date and a clock in two columns. "
            "Default: the first column, if it looks like time.",
        ),
    ] = None
    target: Annotated[
        list[str] | None,
        _data(
            metavar="COLUMN",
            help="What to model; repeat it, or separate by commas. Default: all other numbers.",
        ),
    ] = None
    covariate: Annotated[
        list[str] | None,
        _data(
            metavar="COLUMN",
            help="What is known in advance, in future too; repeat it, or separate by commas.",
        ),
    ] = None
    duplicates: Annotated[
        Duplicates,
        _data(help="Refuse rows of the same time, or take their mean."),
    ] = Duplicates.REFUSE
    zone: Annotated[
        str | None,
        _data(metavar="ZONE", help="Time zone of dates that have none, such as Europe/Berlin."),
    ] = None


class Preset(StrEnum):
    """Presets of the deep latent force model."""

    DEFAULT = "default"
    PAPER = "paper"


class System(StrEnum):
    """Systems of the layers."""

    ODE1 = "ode1"
    EQ = "eq"
    ARC0 = "arc0"
    ARC1 = "arc1"
    ARC2 = "arc2"


class Start(StrEnum):
    """Starts of the training."""

    RACE = "race"
    PURSUIT = "pursuit"
    RHYTHM = "rhythm"
    PHASE = "phase"
    DEEP = "deep"
    SPECTRUM = "spectrum"
    COMPOSITION = "composition"
    FEEDBACK = "feedback"
    MEMORY = "memory"
    LFM = "lfm"
    TABLE = "table"
    NEIGHBOURS = "neighbours"
    DENSITY = "density"
    PAPER = "paper"


class Precision(StrEnum):
    """Numbers to compute with."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


@dataclass(frozen=True)
class Settings:
    """What a user may choose about the model; the defaults are the best we know."""

    preset: Annotated[
        Preset,
        _model(help="The best we know, or the paper letter by letter."),
    ] = Preset.DEFAULT
    start: Annotated[
        Start | None,
        _model(help="One start alone instead of the race; pursuit is the quickest."),
    ] = None
    system: Annotated[System, _model(help="What the deep layers are made of.")] = System.ODE1
    hidden: Annotated[
        str,
        _model(metavar="WIDTHS", help="Widths of the hidden layers, separated by commas."),
    ] = "3"
    n_forces: Annotated[
        int,
        _model(metavar="N", min=1, help="Latent forces of a deep block."),
    ] = 1
    n_features: Annotated[int, _model(metavar="N", min=1, help="Frequencies per force.")] = 100
    input_dependent_noise: Annotated[
        bool,
        _model("--input-dependent-noise", metavar="", help="Noise that changes with time."),
    ] = False
    log_targets: Annotated[
        bool | None,
        _model(
            "--log-targets/--no-log-targets",
            metavar="",
            help="Model logarithms of the targets. Default: where they suit the rows better.",
        ),
    ] = None
    n_steps: Annotated[
        int | None,
        _training(metavar="N", min=0, help="Training steps of each fit."),
    ] = None
    batch_size: Annotated[
        int | None,
        _training(metavar="N", min=1, help="Rows in each step."),
    ] = None
    time_limit: Annotated[
        float | None,
        _training(metavar="N", min=0, help="Seconds for the fit, shared by its starts."),
    ] = None
    patience: Annotated[
        int | None,
        _training(metavar="N", min=1, help="Stop after this many steps without progress."),
    ] = None
    seed: Annotated[
        int,
        _training(metavar="N", min=0, help="The same seed, jobs and threads: the same bits."),
    ] = 0
    jobs: Annotated[
        int | None,
        _training(metavar="N", min=1, help="Fits of a race at a time. Default: one for each core."),
    ] = None
    device: Annotated[str, _training(metavar="DEVICE", help="cpu, cuda, ...")] = "cpu"
    dtype: Annotated[Precision | None, _training(help="Numbers to compute with.")] = None
    compile: Annotated[
        bool,
        _training(
            "--compile", metavar="", help="Kernels compiled for this machine; needs a C++ compiler."
        ),
    ] = False

    def parameters(self) -> dict[str, Any]:
        """The same for an estimator."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {"hidden": self._widths(), "random_state": values.pop("seed")}
        values["n_jobs"] = values.pop("jobs") or -1
        return {name: str(v) if isinstance(v, StrEnum) else v for name, v in values.items()}

    def _widths(self) -> tuple[int, ...]:
        try:
            return tuple(int(width) for width in self.hidden.split(","))
        except ValueError:
            raise InputError(
                f"--hidden: {self.hidden!r} is not a list of widths. Write 3, or 3,2 for two layers."
            ) from None


@dataclass(frozen=True)
class Asking:
    """How a command answers."""

    json: Annotated[
        bool,
        _run("--json", metavar="", help="Answer with one JSON object on standard output."),
    ] = False
    debug: Annotated[
        bool,
        _run("--debug", metavar="", help="Show the traceback of an error."),
    ] = False


@dataclass(frozen=True)
class Running(Asking):
    """How a command that does some work goes about it."""

    quiet: Annotated[
        bool,
        _run("--quiet", "-q", metavar="", help="Say nothing unless something is wrong."),
    ] = False
    config: Annotated[
        Path | None,
        _run(
            metavar="FILE",
            callback=use_config,
            is_eager=True,
            help="TOML file with any of these options; the command line wins.",
        ),
    ] = None
