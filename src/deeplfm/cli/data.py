"""``deeplfm data``: list and fetch example data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplfm.cli.options import OutputOptions, option
from deeplfm.cli.outputs import check_folder
from deeplfm.cli.terminal import Terminal, table

LIST_EXAMPLES = ("deeplfm data list", "deeplfm data list --json")
FETCH_EXAMPLES = ("deeplfm data fetch toy -o .", "deeplfm data fetch toy --json")


def list_data(output: OutputOptions) -> None:
    """List the data sets and their locations."""
    from deeplfm.data.catalogue import available

    columns = ("name", "summary", "licence", "where")
    sets = [
        {key: getattr(entry, key) for key in (*columns[:-1], "source")} | {"where": entry.where()}
        for entry in available()
    ]
    terminal = Terminal(output)
    terminal.print(table(columns, [[entry[key] for key in columns] for entry in sets], words=4))
    terminal.print("Fetch one: deeplfm data fetch toy -o .")
    terminal.print_json({"datasets": sets})


def _complete(incomplete: str) -> list[str]:
    from deeplfm.data.catalogue import available

    return [entry.name for entry in available() if entry.name.startswith(incomplete)]


def fetch_data(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name in deeplfm data list.",
            autocompletion=_complete,
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        option(
            None, "FOLDER", "Folder for copies. Default: print the cached files.", "--out", "-o"
        ),
    ] = None,
    record: Annotated[str | None, option(None, "NAME", "Of charis: charis1 to charis13.")] = None,
    first: Annotated[int | None, option(None, "N", "Of charis: first row.", min=0)] = None,
    length: Annotated[int | None, option(None, "N", "Of charis: number of rows.", min=1)] = None,
    output: OutputOptions,
) -> None:
    """Fetch the files of a data set: from the folder DEEPLFM_DATA, the cache, or the internet."""
    from deeplfm.data.catalogue import fetch

    if out is not None:
        check_folder(out, "--out")
    part = {"record": record, "first": first, "length": length}
    paths = fetch(name, out, **{key: value for key, value in part.items() if value is not None})
    terminal = Terminal(output)
    terminal.print(*map(str, paths))
    terminal.print_json({"name": name, "files": paths})
