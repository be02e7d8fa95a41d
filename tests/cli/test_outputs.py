"""Places to write to, and groups of options: the parts that commands are made of."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from deeplfm.cli.app import add_command
from deeplfm.cli.configuration import _toml
from deeplfm.cli.outputs import TABLES, check_file, check_folder, columns_of, written_together
from deeplfm.cli.terminal import plain
from deeplfm.data.tables import write_table
from deeplfm.errors import InputError


def test_files_appear_together(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "new" / "b.txt"
    first.write_text("old")
    with written_together() as add:
        add(first, lambda path: path.write_text("one"))
        add(None, lambda path: pytest.fail("nobody asked for it"))
        add(second, lambda path: path.write_text("two"))
        assert first.read_text() == "old"
    assert (first.read_text(), second.read_text()) == ("one", "two")
    assert {path.name for path in tmp_path.rglob("*")} == {"a.txt", "new", "b.txt"}


def test_none_appears_where_one_fails(tmp_path):
    (tmp_path / "a.txt").write_text("old")

    def fail(path):
        path.write_text("half")
        raise OSError("disk full")

    wanted = r"b.txt: cannot be written \(disk full\)"
    with pytest.raises(InputError, match=wanted), written_together() as add:
        add(tmp_path / "a.txt", lambda path: path.write_text("new"))
        add(tmp_path / "b.txt", fail)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "old"}


def test_looking_at_a_place_makes_nothing(tmp_path):
    assert check_file(tmp_path / "a" / "b" / "c.csv", "-o", TABLES).name == "c.csv"
    assert check_folder(tmp_path / "a" / "b", "-o") == tmp_path / "a" / "b"
    assert not list(tmp_path.iterdir())


def test_the_tables_that_are_promised_can_be_written(tmp_path):
    import pandas as pd

    for suffix in TABLES:
        write_table(pd.DataFrame({"a": [1.0]}), tmp_path / f"table{suffix}")
    with pytest.raises(InputError, match=", ".join(TABLES)):
        write_table(pd.DataFrame({"a": [1.0]}), tmp_path / "table.xyz")


@dataclass(frozen=True)
class Group:
    width: Annotated[int, typer.Option(min=1)] = 3
    name: Annotated[list[str] | None, typer.Option("--name", "-n")] = None


def test_a_group_of_options_is_declared_once(capsys):
    seen = []

    def work(path: Annotated[Path, typer.Argument()], *, fast: bool = False, group: Group) -> None:
        """Do something."""
        seen.append((path, fast, group))

    app = typer.Typer()
    add_command(app, work, examples=["work here --fast"])
    app(["here", "--width", "5", "-n", "a", "-n", "b"], standalone_mode=False)
    app(["there", "--fast"], standalone_mode=False)
    assert seen == [
        (Path("here"), False, Group(5, ["a", "b"])),
        (Path("there"), True, Group()),
    ]
    app(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "--width" in shown
    assert "work here --fast" in shown


@pytest.mark.parametrize(
    "value", ['"quoted" \\ back', "tab\tline\n", "ünï→😀", "\x7f", 3, 2.5, True, ["a", "b"], []]
)
def test_configurations_are_read_as_they_were_written(value):
    import tomllib

    assert tomllib.loads(f"key = {_toml(value)}")["key"] == value


def test_anything_is_plain_in_json():
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(
        {
            "when": pd.to_datetime(["2024-01-01", None]),
            "count": pd.array([1, None], dtype="Int64"),
            "value": [np.inf, 2.5],
            "word": ["a", None],
        }
    )
    assert plain(columns_of(frame)) == {
        "when": ["2024-01-01T00:00:00", None],
        "count": [1, None],
        "value": [None, 2.5],
        "word": ["a", None],
    }
    assert plain({1: (np.float64("nan"), Path("a/b"), np.arange(2))}) == {
        "1": [None, "a/b", [0, 1]]
    }


def test_messages_speak_of_options(tmp_path, call):
    path = tmp_path / "twice.csv"
    path.write_text("t,y\n0,1\n1,2\n1,3\n2,4\n")
    told = call("fit", path, "-o", tmp_path / "model").err
    assert "--duplicates mean" in told and "duplicates=" not in told
