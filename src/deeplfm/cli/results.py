"""Where results go: a table, a figure and a page, looked at first and written together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli.options import Running
from deeplfm.cli.paths import FIGURES, PAGES, TABLES, Outputs, output_file
from deeplfm.cli.terminal import Terminal
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_PANEL = "Results"
_LABELS = {"table": "Table", "plot": "Figure", "report": "Report"}

Table = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="TABLE",
        help="Write the table: .csv, .tsv, .csv.gz, .tsv.gz or .parquet; - is standard output, the "
        "default where no file is asked for.",
        rich_help_panel=_PANEL,
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FIGURE", help="Draw: .png, .pdf or .svg.", rich_help_panel=_PANEL),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="PAGE",
        help="Write a page to read and to share: .html.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Results:
    """Places for the results of a command; making one sees that they can be written to.

    Attributes:
        running: how the user wants to be answered.
        table: file for a table, ``-`` for standard output.
        plot: file for a figure.
        report: file for a page.
    """

    running: Running
    table: str | None = None
    plot: Path | None = None
    report: Path | None = None

    def __post_init__(self) -> None:
        if self.table == "-" and self.running.json:
            raise InputError("--json, --out -: both want standard output. Give a file to --out.")
        for path, option, suffixes in (
            (self._table_file, "--out", TABLES),
            (self.plot, "--plot", FIGURES),
            (self.report, "--report", PAGES),
        ):
            if path is not None:
                output_file(path, option, suffixes)
        if str(self.table).lower().endswith(".parquet") and find_spec("pyarrow") is None:
            raise InputError(
                f"--out: {self.table} needs pyarrow, which is not installed. Run pip install "
                '"deeplfm[parquet]", or write .csv.'
            )

    @classmethod
    def with_table(
        cls,
        running: Running,
        table: str | None,
        plot: Path | None = None,
        report: Path | None = None,
    ) -> Results:
        """Places of a command whose table goes to standard output if nothing else is asked for."""
        return cls(
            running, table or (None if plot or report or running.json else "-"), plot, report
        )

    def terminal(self) -> Terminal:
        """The command's voice, which leaves standard output alone where a table goes there."""
        return Terminal(self.running, results_on_stdout=self.table == "-")

    def write(
        self,
        frame: pd.DataFrame,
        draw: Callable[[], Figure] | None = None,
        write_page: Callable[[Path], None] | None = None,
        with_index: bool = True,
        delimiter: str = ",",
    ) -> None:
        """Write what was asked for: files all or none, then standard output.

        Args:
            frame: the table.
            draw: makes the figure.
            write_page: writes the page to a path.
            with_index: whether the index of the table is written too.
            delimiter: between the fields of CSV.
        """
        from deeplfm.data.tables import write_table

        def write(place: Path | str) -> None:
            write_table(frame, place, index=with_index, delimiter=delimiter)

        with Outputs() as outputs:
            outputs.add(self._table_file, write)
            if draw is not None:
                outputs.add(self.plot, lambda path: draw().savefig(path))
            if write_page is not None:
                outputs.add(self.report, write_page)
        if self.table == "-":
            write("-")

    def files(self) -> dict[str, str]:
        """Files that were written, by what they are."""
        found = {"table": self._table_file, "plot": self.plot, "report": self.report}
        return {what: str(path) for what, path in found.items() if path is not None}

    def say(self, content: dict[str, Any], frame: pd.DataFrame | None = None) -> None:
        """Answer a program, with the table where no file has it; tell people where the files are."""
        terminal = self.terminal()
        if frame is not None and self.table is None:
            content = {**content, "table": records(frame)}
        terminal.answer({**content, "files": self.files()})
        terminal.say(*(f"{_LABELS[what]}: {path}" for what, path in self.files().items()))

    @property
    def _table_file(self) -> Path | None:
        return None if self.table in (None, "-") else Path(self.table)


def records(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """A table as plain columns; what is missing is None, of whatever type it is."""
    return {
        str(name): column.astype(object).where(column.notna(), None).tolist()
        for name, column in frame.items()
    }
