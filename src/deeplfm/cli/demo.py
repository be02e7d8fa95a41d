"""``deeplfm demo``: fit three models to the paper's toy series, print scores and draw a figure."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deeplfm.cli.options import flag, option
from deeplfm.cli.outputs import check_file
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
    seed: Annotated[int, option(None, "N", "Seed of noise and models.", min=0)] = 0,
    variant: Annotated[
        Variant, typer.Option(help="Toy series of the authors' code, or of the paper's text.")
    ] = Variant.PUBLISHED,
    out: Annotated[Path, option(None, "FOLDER", "Folder of the figure.")] = Path("deeplfm-demo"),
    json: Annotated[Path | None, option(None, "FILE", "Write the scores to this file.")] = None,
    quick: Annotated[
        bool, flag(None, "--quick", "Train less: seconds instead of minutes.")
    ] = False,
    debug: Annotated[bool, flag(None, "--debug", "Show the traceback of an error.")] = False,
) -> None:
    """Compare a GP, a deep GP, a DLFM and the ensemble on the paper's toy series."""
    figure_path = check_file(out / "toy.png", "--out")
    if json is not None:
        check_file(json, "--json")
    for path in filter(None, (figure_path, json)):
        path.parent.mkdir(parents=True, exist_ok=True)
    from deeplfm.experiments.demo import run_demo
    from deeplfm.experiments.scores import write_json
    from deeplfm.io.files import write_whole
    from deeplfm.plots import toy_figure

    result = run_demo(variant.value, seed, quick)
    output = console()
    output.print(_table(result))
    titles = {name: _scores(result, name) for name in result.posteriors}
    figure = toy_figure(result.data, result.posteriors, titles)
    write_whole(figure_path, lambda path: figure.savefig(path, format="png"))
    output.print(f"Figure: {figure_path}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        write_json(json, result.rows, result.settings)
        output.print(f"Scores: {json}", markup=False, highlight=False, soft_wrap=True)


def _scores(result: DemoResult, name: str) -> str:
    """Scores of a model, as the title of its panel."""
    gap, ahead = (result.row(name, split) for split in ("interpolation", "extrapolation"))
    return (
        f"gap: MNLL {gap.mnll:.2f}, coverage {gap.coverage95:.0%}\n"
        f"extrapolation: NMSE {ahead.nmse:.2f}, MNLL {ahead.mnll:.2f}, coverage {ahead.coverage95:.0%}"
    )


def _table(result: DemoResult) -> Table:
    from rich import box
    from rich.table import Table

    note = ", quick: not fully trained" if result.settings["quick"] else ""
    table = Table(
        title=f"Toy ({result.data.variant} variant), seed {result.data.seed}{note}",
        caption="Lower NMSE and MNLL are better; NMSE 1 is no better than the mean of the test rows.",
        box=box.SIMPLE_HEAVY,
    )
    table.add_column("\nmodel", no_wrap=True)
    for header in (
        "gap\nMNLL",
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
        scores = (f"{score:.2f}" for score in (inside.mnll, beyond.nmse, beyond.mnll))
        table.add_row(
            model,
            *scores,
            f"{beyond.coverage95:.0%}",
            f"{beyond.seconds:.1f}",
            f"{paper[0]} / {paper[1]}" if paper else "-",
        )
    return table
