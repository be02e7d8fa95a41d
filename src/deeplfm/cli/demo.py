"""``deeplfm demo``: fit four models to the paper's toy series, print scores and draw a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deeplfm.cli.options import flag, option
from deeplfm.cli.outputs import check_file
from deeplfm.cli.terminal import console

if TYPE_CHECKING:
    from rich.table import Table

    from deeplfm.experiments.demo import DemoResult

EXAMPLES = ("deeplfm demo --quick", "deeplfm demo --seed 1 --out toy --json toy/scores.json")
_COLUMNS = ("gap\nMNLL", "extrapolation\nNMSE", "\nMNLL", "95 %\ncoverage", "seconds\nto fit")


def demo(
    seed: Annotated[int, option(None, "N", "Seed of noise and models.", min=0)] = 0,
    variant: Annotated[
        Literal["published", "text"],
        typer.Option(help="Toy series of the authors' code, or of the paper's text."),
    ] = "published",
    out: Annotated[Path, option(None, "FOLDER", "Folder of the figure.")] = Path("deeplfm-demo"),
    json: Annotated[Path | None, option(None, "FILE", "Write the scores to this file.")] = None,
    quick: Annotated[
        bool, flag(None, "--quick", "Train less: seconds instead of minutes.")
    ] = False,
    debug: Annotated[bool, flag(None, "--debug", "Show the traceback of an error.")] = False,
) -> None:
    """Compare a GP, a deep GP, a DLFM and the ensemble on the paper's toy series."""
    path = check_file(out / "toy.png", "--out")
    for place in filter(None, (path, json and check_file(json, "--json"))):
        place.parent.mkdir(parents=True, exist_ok=True)
    from deeplfm.experiments.demo import run_demo
    from deeplfm.experiments.scores import plain, write_document
    from deeplfm.io.files import versions, write_whole, writing
    from deeplfm.plots import toy_figure

    result = run_demo(variant, seed, quick)
    output = console()
    output.print(_table(result, quick))
    titles = {name: _title(result, name) for name in result.posteriors}
    figure = toy_figure(result.data, result.posteriors, titles)
    with writing(path):
        write_whole(path, lambda place: figure.savefig(place, format="png"))
    output.print(f"Figure: {path}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        settings = {"variant": variant, "seed": seed, "quick": quick, "models": result.settings}
        content = {"rows": plain(result.rows), "versions": versions(), "settings": settings}
        write_document(json, content)
        output.print(f"Scores: {json}", markup=False, highlight=False, soft_wrap=True)


def _title(result: DemoResult, name: str) -> str:
    """Scores of a model, as the title of its panel."""
    gap, ahead = (result.scores[name, part] for part in ("interpolation", "extrapolation"))
    return (
        f"gap: MNLL {gap['mnll']:.2f}, coverage {gap['coverage95']:.0%}\n"
        f"extrapolation: NMSE {ahead['nmse']:.2f}, MNLL {ahead['mnll']:.2f}, "
        f"coverage {ahead['coverage95']:.0%}"
    )


def _table(result: DemoResult, quick: bool) -> Table:
    from rich import box
    from rich.table import Table

    from deeplfm.experiments.demo import PAPER

    data = result.data
    published = PAPER if data.variant == "published" else {}
    table = Table(
        title=f"Toy ({data.variant} variant), seed {data.seed}{', quick: not fully trained' * quick}",
        caption="Lower NMSE and MNLL are better; NMSE 1 is no better than the mean of the test rows.",
        box=box.SIMPLE_HEAVY,
    )
    table.add_column("\nmodel", no_wrap=True)
    for header in (*_COLUMNS, "paper, extrap.\nNMSE / MNLL"):
        table.add_column(header, justify="right", no_wrap=True)
    for name, seconds in result.seconds.items():
        gap, ahead = (result.scores[name, part] for part in ("interpolation", "extrapolation"))
        scores = (f"{score:.2f}" for score in (gap["mnll"], ahead["nmse"], ahead["mnll"]))
        paper = " / ".join(map(str, published.get(name, "-")))
        table.add_row(name, *scores, f"{ahead['coverage95']:.0%}", f"{seconds:.1f}", paper)
    return table
