"""What ``deeplfm reproduce`` is asked for: how much of an experiment, on which data, in which form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer


class Substitute(StrEnum):
    """Data in place of CHARIS."""

    MIMIC = "mimic"


class Format(StrEnum):
    """How the table is printed."""

    MARKDOWN = "md"
    LATEX = "latex"


@dataclass(frozen=True)
class Effort:
    """How much is computed."""

    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many seeds. Default: the experiment's, five."),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="Only these models; repeat it, or separate by commas. Default: all.",
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Seconds for each fit, and each start of a race, of models that take a limit; those "
            "trained as the paper does take all their steps. Default: none.",
        ),
    ] = None
    quick: Annotated[
        bool,
        typer.Option("--quick", metavar="", help="A look at everything, by training little."),
    ] = False
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes of one thread each. Default: one for each core."
        ),
    ] = None
    retry: Annotated[
        bool, typer.Option("--retry", metavar="", help="Do again what failed in an earlier run.")
    ] = False
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", metavar="", help="Do again what was computed with other code than this."
        ),
    ] = False
    show: Annotated[
        bool,
        typer.Option("--show", metavar="", help="Compute nothing; tables of all that is there."),
    ] = False
