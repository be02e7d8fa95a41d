"""``deeplfm data``: data sets that are known by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplfm.cli.completion import complete_datasets
from deeplfm.cli.options import Asking
from deeplfm.cli.paths import output_folder
from deeplfm.cli.terminal import Terminal, table

LIST_EXAMPLES = ("deeplfm data list", "deeplfm data list --json")
FETCH_EXAMPLES = ("deeplfm data fetch toy -o .", "deeplfm data fetch toy --json")


def list_data(asking: Asking) -> None:
    """List the data sets, and where each would be read from."""
    from deeplfm.data.catalogue import available

    sets = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "licence": entry.licence,
            "source": entry.source,
            "where": entry.where(),
        }
        for entry in available()
    ]
    terminal = Terminal(asking)
    columns = ("name", "summary", "licence", "where")
    terminal.say(table(columns, [[entry[key] for key in columns] for entry in sets], words=4))
    terminal.say("Fetch one: deeplfm data fetch toy -o .")
    terminal.answer({"datasets": sets})


def fetch_data(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="As deeplfm data list names it.",
            autocompletion=complete_datasets,
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Where to put copies. Default: leave the files where they are kept.",
        ),
    ] = None,
    record: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of charis: charis1 to charis13.")
    ] = None,
    first: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Of charis: row to begin with.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of charis: number of rows.")
    ] = None,
    asking: Asking,
) -> None:
    """Get the files of a data set: from the folder DEEPLFM_DATA, the cache, or the internet."""
    from deeplfm.data.catalogue import fetch

    if out is not None:
        output_folder(out, "--out")
    wishes = {"record": record, "first": first, "length": length}
    paths = fetch(name, out, **{key: value for key, value in wishes.items() if value is not None})
    terminal = Terminal(asking)
    terminal.say(*map(str, paths))
    terminal.answer({"name": name, "files": paths})
