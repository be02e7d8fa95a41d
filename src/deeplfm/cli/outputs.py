"""Output files: checked before the work begins, and written together at its end."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplfm.cli.options import RunOptions
from deeplfm.cli.terminal import Terminal
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from deeplfm.estimators import DeepLFMForecaster

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
FIGURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")
_INPUTS, _OUTPUTS = ("data", "times", "covariates", "config"), ("out", "plot", "report")
_MOST_DECIMALS = 15
_LABELS = {"table": "Table", "plot": "Figure", "report": "Report"}


def check_folder(path: Path, option: str) -> Path:
    """Raise an error if files cannot be written to a folder, which need not exist yet."""
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{option}: {path} is an existing file. Give a folder, or a new name.")
        existing = next(place for place in (path, *path.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise InputError(
            f"{option}: cannot write to folder {path} ({error.strerror or error}). "
            "Give a folder in which you may create files."
        ) from error
    return path


def check_file(path: Path, option: str, suffixes: tuple[str, ...] = ()) -> Path:
    """Raise an error if a file cannot be written, or has none of the suffixes."""
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder. Give the name of a file.")
    if suffixes and not path.name.lower().endswith(suffixes):
        raise InputError(
            f"{option}: the format of {path} is not known from its name. Use a name that ends in "
            f"{' or '.join(suffixes)}."
        )
    return check_folder(path.parent, option) / path.name


def check_model_folder(path: Path, option: str, overwrite: bool) -> Path:
    """Raise an error if a model cannot be saved, or would replace another one without consent."""
    from deeplfm.io.storage import DESCRIPTION, check_target

    check_folder(path, option)
    check_target(path, option)
    if (path / DESCRIPTION).exists() and not overwrite:
        raise InputError(
            f"{option}: {path} already holds a model. Give another name, or --overwrite."
        )
    return path


def check_no_input_is_replaced(values: Mapping[str, Any]) -> None:
    """Raise an error if a file that a command would write is one that it reads."""
    for option, source in product(_OUTPUTS, _INPUTS):
        written, read = values.get(option), values.get(source)
        with suppress(OSError):
            if written and read and Path(written).samefile(read):
                raise InputError(
                    f"--{option}: {written} is a file that the command reads. Give another name."
                )


@contextmanager
def written_together() -> Iterator[Callable[[Path | None, Callable[[Path], object]], None]]:
    """Write several files that appear together at the end, or not at all after an error.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "a.txt"
    ...     with written_together() as add:
    ...         add(place, lambda path: path.write_text("complete"))
    ...         print(place.exists())
    ...     print(place.read_text())
    False
    complete
    """
    from deeplfm.io.files import flush_folder, remove_unfinished, unfinished, writing

    with ExitStack() as stack:
        staged: list[tuple[Path, Path]] = []

        def add(path: Path | None, write: Callable[[Path], object]) -> None:
            if path is None:
                return
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                # beside its final place, so that a rename suffices, and with its suffix
                remove_unfinished(path.parent, lambda name: name == path.name)
                scratch = unfinished(path)
                scratch.mkdir()
                stack.callback(shutil.rmtree, scratch, ignore_errors=True)
                write(scratch / path.name)
            staged.append((scratch / path.name, path))

        yield add
        for temporary, path in staged:
            with writing(path):
                temporary.replace(path)
            flush_folder(path.parent)


class Results:
    """The table, figure and report of a command; creating one checks their paths."""

    def __init__(
        self,
        run: RunOptions,
        table: str | None = None,
        plot: Path | None = None,
        report: Path | None = None,
        has_table: bool = False,
    ) -> None:
        if has_table and not (table or plot or report or run.json):
            table = "-"
        if table == "-" and run.json:
            raise InputError(
                "--json, --out -: both write to standard output. Give a file to --out."
            )
        self._on_stdout = table == "-"
        paths = {"table": None if table in (None, "-") else Path(table)}
        paths |= {"plot": plot, "report": report}
        self._files = {name: path for name, path in paths.items() if path is not None}
        suffixes = {"table": TABLES, "plot": FIGURES, "report": PAGES}
        for name, path in self._files.items():
            check_file(path, "--out" if name == "table" else f"--{name}", suffixes[name])
        if str(table).lower().endswith(".parquet") and find_spec("pyarrow") is None:
            raise InputError(
                f"--out: {table} needs pyarrow, which is not installed. Run pip install "
                '"deeplfm[parquet]", or write .csv.'
            )
        self.terminal = Terminal(run, table_on_stdout=self._on_stdout)

    def write(
        self,
        frame: pd.DataFrame,
        draw: Callable[[], Figure] | None = None,
        write_page: Callable[[Path], None] | None = None,
        with_index: bool = True,
        delimiter: str = ",",
    ) -> None:
        """Write the requested files, all or none, then standard output."""
        from deeplfm.data.tables import write_table

        def write(place: Path | str) -> None:
            write_table(frame, place, index=with_index, delimiter=delimiter)

        with written_together() as add:
            add(self._files.get("table"), write)
            if draw is not None:
                add(self._files.get("plot"), lambda path: draw().savefig(path))
            if write_page is not None:
                add(self._files.get("report"), write_page)
        if self._on_stdout:
            write("-")

    def print(self, content: dict[str, Any], frame: pd.DataFrame | None = None) -> None:
        """Print the JSON object, with the table if no file holds it, and the names of the files."""
        if frame is not None and "table" not in self._files and not self._on_stdout:
            content = {**content, "table": columns_of(frame)}
        self.terminal.print_json({**content, "files": self._files})
        self.terminal.print(*(f"{_LABELS[name]}: {path}" for name, path in self._files.items()))


def rounded(values: pd.DataFrame, scale: float) -> pd.DataFrame:
    """Numbers with as many decimals as five digits of their scale need.

    >>> import pandas as pd
    >>> rounded(pd.DataFrame({"co2": [421.0391442177]}), scale=0.3).iloc[0, 0].item()
    421.03914
    """
    if not (scale > 0 and math.isfinite(scale)):
        return values
    return values.round(min(_MOST_DECIMALS, max(0, 4 - math.floor(math.log10(scale)))))


def by_time(forecaster: DeepLFMForecaster, frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose first columns are the times of its index, as the user wrote them."""
    import pandas as pd

    times = forecaster.timeline_.written(frame.index)
    return pd.concat([times, frame.reset_index(drop=True)], axis=1)


def report_writer(forecaster: DeepLFMForecaster, **content: Any) -> Callable[[Path], None]:
    """A function that writes the report of a forecaster to a path."""

    def write(path: Path) -> None:
        from deeplfm.report import write_report

        write_report(path, forecaster, **content)

    return write


def columns_of(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """The columns of a table as lists, with None for missing values of any type."""
    return {
        str(name): column.astype(object).where(column.notna(), None).tolist()
        for name, column in frame.items()
    }
