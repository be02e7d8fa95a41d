"""``deeplfm demo``: trains on the paper's toy, prints a table, draws a figure."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deeplfm.cli.options import Preset
from deeplfm.cli.paths import output_file
from deeplfm.cli.terminal import console

if TYPE_CHECKING:
    from rich.table import Table

    from deeplfm.experiments.demo import DemoResult

EXAMPLES = ("deeplfm demo --quick", "deeplfm demo --seed 1 --out toy --json toy/scores.json")


class Variant(StrEnum):
    """Variants of the toy."""

    PUBLISHED = "published"
    TEXT = "text"


def demo(
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of noise and models.")] = 0,
    preset: Annotated[
        Preset, typer.Option(help="The best we know, or the paper letter by letter.")
    ] = Preset.DEFAULT,
    variant: Annotated[
        Variant, typer.Option(help="Toy of the authors' code, or of the paper's text.")
    ] = Variant.PUBLISHED,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the figure.")] = Path(
        "deeplfm-demo"
    ),
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the scores to this file.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", metavar="", help="Seconds instead of minutes, by training less."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Fit a GP, a deep GP and a deep latent force model to the paper's toy, and compare them."""
    figure_path = output_file(out / "toy.png", "--out")
    if json is not None:
        output_file(json, "--json")
    for path in filter(None, (figure_path, json)):
        path.parent.mkdir(parents=True, exist_ok=True)
    from deeplfm.experiments.demo import run_demo
    from deeplfm.experiments.scores import write_json
    from deeplfm.io.files import write_whole
    from deeplfm.plots import toy_figure

    result = run_demo(variant.value, seed, preset.value, quick)
    output = console()
    output.print(_table(result))
    write_whole(figure_path, lambda path: toy_figure(result).savefig(path, format="png"))
    output.print(f"Figure: {figure_path}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        write_json(json, result.rows, result.settings)
        output.print(f"Scores: {json}", markup=False, highlight=False, soft_wrap=True)


def _table(result: DemoResult) -> Table:
    from rich import box
    from rich.table import Table

    note = ", quick: not fully trained" if result.settings["quick"] else ""
    table = Table(
        title=f"Toy ({result.data.variant} variant), seed {result.data.seed}{note}",
        caption="NMSE 1: no better than the mean of the test rows. Lower NMSE and MNLL are better.\n"
        "In the gap of the published variant nothing happens: there NMSE 1 is the noise.",
        box=box.SIMPLE_HEAVY,
    )
    table.add_column("\nmodel", no_wrap=True)
    for header in (
        "interpolation\nNMSE",
        "\nMNLL",
        "extrapolation\nNMSE",
        "\nMNLL",
        "95 %\ncoverage",
        "seconds\nto fit",
        "paper, extrap.\nNMSE / MNLL",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for model in result.posteriors:
        inside, beyond = (result.row(model, split) for split in ("interpolation", "extrapolation"))
        paper = result.paper(model)
        table.add_row(
            model,
            f"{inside.nmse:.2f}",
            f"{inside.mnll:.2f}",
            f"{beyond.nmse:.2f}",
            f"{beyond.mnll:.2f}",
            f"{beyond.coverage95:.0%}",
            f"{beyond.seconds:.1f}",
            f"{paper[0]} / {paper[1]}" if paper else "-",
        )
    return table
