"""``deeplfm benchmark``: forecasts of public series beside those of other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from deeplfm.cli.options import OutputOptions, option
from deeplfm.cli.terminal import Terminal, table

EXAMPLES = (
    "deeplfm benchmark forecasting --set public",
    "deeplfm benchmark forecasting --set report --models 'deeplfm fast,AutoETS' --out records.jsonl",
)


def benchmark(
    topic: Annotated[Literal["forecasting"], typer.Argument(help="Topic of the comparison.")],
    *,
    set_name: Annotated[
        str, option(None, "NAME", "Series: choose, report or public.", "--set")
    ] = "public",
    models: Annotated[
        str, option(None, "NAMES", "Models, separated by commas.", "--models")
    ] = "deeplfm fast,AutoARIMA,AutoETS,AutoTheta,SeasonalNaive",
    out: Annotated[
        Path,
        option(
            "Results", "FILE", "Records, one JSON line each; kept and continued.", "--out", "-o"
        ),
    ] = Path("benchmark.jsonl"),
    first: Annotated[
        int | None, option(None, "N", "Only the first series of each frequency.", min=1)
    ] = None,
    document: Annotated[
        Path | None, option("Results", "FILE", "Write the tables as Markdown.")
    ] = None,
    output: OutputOptions,
) -> None:
    """Forecast the end of public series with deeplfm and its peers; print scores and CPU seconds.

    Peers are given the season, and deeplfm timestamps. An interrupted run continues.
    """
    from deeplfm.experiments.forecasting.page import INTRODUCTION, markdown, overview
    from deeplfm.experiments.forecasting.runner import run_benchmark
    from deeplfm.experiments.forecasting.series import load_series
    from deeplfm.io.files import write_whole, writing

    del topic
    terminal = Terminal(output)
    series = load_series(set_name)
    if first is not None:
        counts: dict[str, int] = {}
        chosen = []
        for item in series:
            counts[item.frequency] = counts.get(item.frequency, 0) + 1
            if counts[item.frequency] <= first:
                chosen.append(item)
        series = chosen
    names = [name.strip() for name in models.split(",") if name.strip()]
    records = run_benchmark(series, names, out)
    records = records[records["series"].isin([item.name for item in series])]
    records = records[records["failed"].isna()] if "failed" in records else records
    found = overview(records)
    shown = found.drop(columns=["series", "median_MASE", "sMAPE"])
    rows = [[str(name), *(f"{value:.3g}" for value in row)] for name, row in shown.iterrows()]
    headers = ["model", *(str(name).replace("_", " ") for name in shown.columns)]
    terminal.print(table(headers, rows, f"{len(series)} series of {set_name!r}"))
    terminal.print_json({"set": set_name, "scores": found.to_dict("index")})
    if document is not None:
        text = f"{INTRODUCTION}\n" + markdown(records, f"Set {set_name!r}")
        with writing(document):
            write_whole(document, lambda temporary: temporary.write_text(text))
