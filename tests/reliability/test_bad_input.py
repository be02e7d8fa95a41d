"""Bad input through the real command line: one line that helps, the right code, nothing written."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from deeplfm.cli import main

QUICK = ["--model", "sinusoids + broadband", "--n-steps", "2"]
FIT = ["fit", "data.csv", "-o", "new-model", *QUICK]
FORECAST = ["forecast", "model", "-o", "new.csv"]
ROWS = 40


def table(abp=None, time=None, **more) -> str:
    columns = {
        "t": [f"{0.5 * i:g}" for i in range(ROWS)] if time is None else time,
        "abp": [f"{80 + 9 * np.sin(i):.3f}" for i in range(ROWS)] if abp is None else abp,
        **more,
    }
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n"


def with_values(*values: str) -> str:
    """A good table whose first values are others."""
    return table(abp=[*values, *(f"{80 + 9 * np.sin(i):.3f}" for i in range(ROWS - len(values)))])


def with_times(*times: str) -> str:
    return table(time=[*times, *(f"{100 + i}" for i in range(ROWS - len(times)))])


def truncate(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (path,) = (folder / "model").glob(name)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def newer(folder: Path) -> None:
    path = folder / "model" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 99}))


@dataclass
class Case:
    """Arguments, what is in the folder, and what the message has to say."""

    arguments: list[str]
    says: list[str]
    data: str | bytes | None = None
    files: dict[str, str | bytes] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None
    code: int = 2

    def lay_out(self, folder: Path) -> None:
        files = self.files if self.data is None else {"data.csv": self.data, **self.files}
        for name, content in files.items():
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        if self.prepare is not None:
            self.prepare(folder)


NO_DATA = {
    "missing file": Case(["fit", "nothing.csv"], ["nothing.csv", "no such file", "Check the name"]),
    "folder in place of a file": Case(["fit", "model"], ["model", "is a folder", "Give a file"]),
    "no data": Case(["fit"], ["Missing argument", "DATA", "deeplfm fit --help"]),
    "standard input without a name": Case(["fit", "-"], ["--out", "standard input", "-o"]),
}
TEXTS = {
    "empty file": Case(FIT, ["data.csv", "empty", "Give a line"], ""),
    "header only": Case(FIT, ["data.csv", "no rows", "at least one row"], "t,abp\n"),
    "one column": Case(FIT, ["data.csv", "only one column", "--delimiter"], "t\n1\n2\n"),
    "wrong delimiter": Case(
        [*FIT, "--delimiter", ";"], ["only one column", "try --delimiter comma"], table()
    ),
    "delimiter that is none": Case([*FIT, "--delimiter", "abc"], ["delimiter", "abc"], table()),
    "decimal that is none": Case([*FIT, "--decimal", "x"], ["decimal", "x"], table()),
    "duplicate names": Case(FIT, ["'abp'", "Give each a name"], "t,abp,abp\n1,2,3\n2,3,4\n"),
    "numbers in place of names": Case(FIT, ["first line holds numbers"], "0,80\n1,81\n2,82\n"),
    "a line too long": Case(FIT, ["data.csv", "line 3", "Correct"], "t,abp\n1,2\n2,3,4\n"),
    "damaged gzip": Case(
        FIT, ["gzip file is damaged", "again"], gzip.compress(table().encode())[:-20]
    ),
    "binary file": Case(FIT, ["not a text file", "Give CSV"], bytes(range(256)) * 4),
    "spreadsheet": Case(FIT, ["Excel", "Save the table as CSV"], b"PK\x03\x04" + bytes(200)),
    "damaged Parquet": Case(FIT, ["Parquet"], b"PAR1" + bytes(range(100))),
}
VALUES = {
    "text in numbers": Case(
        [*FIT, "--target", "abp"],
        ["column 'abp' of data.csv", "1 of 40 values are not numbers", "'12a' in line 3"],
        with_values("80", "12a"),
    ),
    "text in numbers that nobody named": Case(
        FIT, ["'abp'", "'12a'", "leave"], with_values("80", "12a")
    ),
    "infinite values": Case(
        FIT, ["column 'abp' of data.csv", "infinite", "missing"], with_values("inf", "-inf")
    ),
    "huge values": Case(FIT, ["column 'abp'", "1e+150", "line 2"], with_values("1e300")),
    "column without values": Case(
        FIT, ["'icp'", "0 of 40 values are known", "Leave the column out"], table(icp=[""] * ROWS)
    ),
    "two rows": Case(FIT, ["2", "at least 3"], "t,abp\n0,1\n1,2\n"),
    "text target": Case(
        [*FIT, "--target", "note"],
        ["column 'note'", "not numbers", "'ok'"],
        table(note=["ok"] * ROWS),
    ),
    "only text": Case(FIT, ["no column of numbers", "at least one"], "t,note\n1,a\n2,b\n3,c\n"),
    "long form": Case(
        FIT,
        ["'name'", "several series", "its own column"],
        "t,name,value\n" + "".join(f"{t},{name},{t}\n" for t in range(20) for name in "ab"),
    ),
}
TIMES = {
    "no time": Case(
        FIT, ["first column 'abp'", "does not look like time", "--time"], "abp,ecg\n3,1\n1,2\n2,5\n"
    ),
    "duplicate stamps": Case(FIT, ["time 3.0", "2 rows", "mean"], with_times("1", "2", "3", "3")),
    "missing stamps": Case(
        FIT, ["'t'", "1 of 40 times are missing", "fill in"], with_times("1", "", "3")
    ),
    "infinite time": Case(FIT, ["'t'", "1 of 40 times are infinite"], with_times("1", "inf")),
    "text in times": Case(FIT, ["'t'", "'soon'", "is no time"], with_times("1", "soon")),
    "mixed zones": Case(
        FIT,
        ["'t'", "one time zone", "row 1"],
        table(
            time=[f"2024-01-01T{i // 2:02}:{30 * (i % 2):02}:00+0{i % 2}:00" for i in range(ROWS)]
        ),
    ),
    "unknown zone": Case(
        [*FIT, "--zone", "Mars/Olympus"],
        ["Mars/Olympus"],
        table(
            time=[f"2024-01-{1 + i:02}" for i in range(31)]
            + [f"2024-02-{i:02}" for i in range(1, 10)]
        ),
    ),
}
COLUMNS = {
    "unknown target": Case(
        [*FIT, "--target", "apb"], ["--target", "'apb'", "Did you mean 'abp'?"], table()
    ),
    "one unknown target of two": Case(
        [*FIT, "--target", "abp,xyz"], ["--target", "'xyz'", "It has t, abp"], table()
    ),
    "unknown time column": Case(
        [*FIT, "--time", "when"], ["--time", "'when'", "It has t, abp"], table()
    ),
    "target is time": Case([*FIT, "--target", "t"], ["--target", "'t'", "Name another"], table()),
    "covariate is target": Case(
        [*FIT, "--target", "abp", "--covariate", "abp"], ["--covariate", "'abp'", "either"], table()
    ),
    "covariate with gaps": Case(
        [*FIT, "--target", "abp", "--covariate", "dose"],
        ["'dose'", "covariate", "1 of 40"],
        table(dose=["1"] * (ROWS - 1) + [""]),
    ),
}
USAGE = {
    "unknown command": Case(["forcast", "model"], ["forcast", "Did you mean 'forecast'"]),
    "unknown option": Case([*FORECAST, "--horzon", "3"], ["--horzon", "Did you mean --horizon?"]),
    "option without value": Case(["forecast", "model", "--horizon"], ["--horizon", "argument"]),
    "bad number": Case([*FORECAST, "--horizon", "ten"], ["--horizon", "integer"]),
    "unknown model": Case([*FIT, "--model", "ensembel"], ["--model", "'ensemble'"], table()),
    "unknown term": Case(
        [*FIT, "--model", "sesaon(12) + level"], ["--model", "Did you mean 'season'?"], table()
    ),
    "bad kind of figure": Case(["plot", "model", "forcast", "-o", "f.png"], ["KIND", "forecast"]),
    "bad widths": Case([*FIT, "--model", "deep(0)"], ["deep: hidden", "0"], table()),
    "unknown device": Case([*FIT, "--device", "abacus"], ["device", "abacus", "cpu"], table()),
    "json and table on standard output": Case(
        ["forecast", "model", "--horizon", "3", "--json", "-o", "-"], ["--json", "Give a file"]
    ),
    "unknown data set": Case(["data", "fetch", "weather"], ["'weather'", "toy"]),
}
HORIZONS = {
    "negative horizon": Case([*FORECAST, "--horizon", "-5"], ["--horizon", "-5", "1"]),
    "zero horizon": Case([*FORECAST, "--horizon", "0"], ["--horizon", "0", "1"]),
    "horizon and until": Case(
        [*FORECAST, "--horizon", "3", "--until", "30"], ["--horizon", "--until", "give only one"]
    ),
    "until in the past": Case([*FORECAST, "--until", "3"], ["until", "3", "later"]),
    "until that is no time": Case([*FORECAST, "--until", "soon"], ["until", "'soon'", "numbers"]),
    "until of another kind": Case([*FORECAST, "--until", "2024-03-01"], ["until", "2024-03-01"]),
    "times without the column": Case(
        [*FORECAST, "--times", "data.csv"], ["data.csv", "'t'", "when"], "when,x\n1,2\n2,3\n"
    ),
    "coverage of one": Case([*FORECAST, "--horizon", "3", "--coverage", "1"], ["--coverage", "1"]),
    "coverage in per cent": Case(
        [*FORECAST, "--horizon", "3", "--coverage", "95"], ["--coverage", "95"]
    ),
    "covariates that are not known": Case(
        ["forecast", "driven-model", "--horizon", "3"],
        ["'dose'", "covariate", "3 of 3 values are missing"],
    ),
    "covariates that nobody asked for": Case(
        [*FORECAST, "--horizon", "3", "--covariates", "data.csv"],
        ["covariates", "without any", "Leave them out"],
        table(),
    ),
    "evaluation without the target": Case(
        ["evaluate", "model", "data.csv"], ["data.csv", "'abp'"], "t,ecg\n1,2\n2,3\n"
    ),
    "evaluation of what was seen": Case(
        ["evaluate", "model", "data.csv"], ["none of its 40", "new", "after"], table()
    ),
}
CONFIGS = {
    "unknown key in config": Case(
        [*FIT, "--config", "run.toml"],
        ["run.toml", "'n_stepps'", "Did you mean 'n_steps'?"],
        table(),
        {"run.toml": "n_stepps = 3\n"},
    ),
    "table in config": Case(
        [*FIT, "--config", "run.toml"],
        ["run.toml", "[training]", "flat"],
        table(),
        {"run.toml": "[training]\nn_steps = 3\n"},
    ),
    "candidates that are not text": Case(
        [*FIT[:-4], "--config", "run.toml"],
        ["run.toml", "[model]", "trend + season(12)"],
        table(),
        {"run.toml": "[model]\nn_steps = 3\n"},
    ),
    "candidate of an unknown term": Case(
        [*FIT[:-4], "--config", "run.toml"],
        ["--model", "'tren'", "Did you mean 'trend'?"],
        table(),
        {"run.toml": "[model]\na = 'level'\nb = 'tren + level'\n"},
    ),
    "bad value in config": Case(
        ["fit", "--config", "run.toml"],
        ["run.toml", "--n-steps", "integer"],
        table(),
        {"run.toml": 'data = "data.csv"\nn_steps = 2.5\n'},
    ),
    "broken TOML": Case(
        [*FIT, "--config", "run.toml"],
        ["run.toml", "not TOML", "line 1"],
        table(),
        {"run.toml": "n_steps 3\n"},
    ),
    "missing config": Case(
        [*FIT, "--config", "run.toml"], ["run.toml", "No such file", "Give a TOML file"], table()
    ),
}
OUTPUTS = {
    "a file as parent of the output": Case(
        ["fit", "data.csv", "-o", "data.csv/new-model", *QUICK],
        ["--out", "cannot write to folder"],
        table(),
    ),
    "a file in place of the model": Case(
        ["fit", "data.csv", "-o", "data.csv", *QUICK],
        ["--out", "data.csv is a file that the command reads"],
        table(),
    ),
    "existing model": Case(
        ["fit", "data.csv", "-o", "model", *QUICK],
        ["--out", "already holds", "--overwrite"],
        table(),
    ),
    "folder with other files": Case(
        ["fit", "data.csv", "-o", ".", "--overwrite", *QUICK],
        ["--out", "no deeplfm model", "new or empty"],
        table(),
    ),
    "output is a folder": Case(
        ["forecast", "model", "--horizon", "3", "--plot", "model"], ["--plot", "model is a folder"]
    ),
    "figure of an unknown kind": Case(
        [*FORECAST, "--horizon", "3", "--plot", "f.xyz"], ["--plot", "f.xyz", ".png"]
    ),
    "table of an unknown kind": Case(
        ["impute", "data.csv", "-o", "filled.xyz", *QUICK], ["--out", "filled.xyz", ".csv"], table()
    ),
    "no room for intervals": Case(
        ["impute", "data.csv", "--target", "abp", "--intervals", "--model-out", "new", *QUICK],
        ["--intervals", "'abp_std'", "Rename"],
        table(abp_std=["1"] * ROWS),
    ),
    "page of an unknown kind": Case([*FIT, "--report", "r.doc"], ["--report", ".html"], table()),
    "model fitted and given": Case(
        ["impute", "data.csv", "--fitted", "model", "--model-out", "new"],
        ["--fitted", "--model-out", "Leave one"],
        table(),
    ),
}
MODELS = {
    "missing model": Case(["info", "nothing"], ["nothing", "not a folder", "save"], code=4),
    "folder without a model": Case(["info", "."], ["no model.json", "not a deeplfm model"], code=4),
    "description cut off": Case(
        [*FORECAST, "--horizon", "3"],
        ["model.json", "damaged", "Restore"],
        prepare=truncate("model.json"),
        code=4,
    ),
    "tensors cut off": Case(
        [*FORECAST, "--horizon", "3"],
        ["tensors", "damaged", "Restore"],
        prepare=truncate("tensors-*"),
        code=4,
    ),
    "model of a newer version": Case(
        ["info", "model"], ["format version 99", "Update deeplfm"], prepare=newer, code=4
    ),
}
ALL = {
    **NO_DATA, **TEXTS, **VALUES, **TIMES, **COLUMNS, **USAGE, **HORIZONS, **CONFIGS, **OUTPUTS,
    **MODELS,
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of a series, and one with a covariate."""
    folder = tmp_path_factory.mktemp("models")
    dose = [f"{np.cos(i):.3f}" for i in range(ROWS)]
    (folder / "data.csv").write_text(table(dose=dose))
    for name, more in (("model", ["abp"]), ("driven-model", ["abp", "--covariate", "dose"])):
        arguments = ["fit", str(folder / "data.csv"), "-o", str(folder / name), "--quiet"]
        settings = QUICK if name == "model" else ["--model", "table", "--n-steps", "2"]
        assert exit_of([*arguments, *settings, "--target", *more]) == 0
    return folder


@pytest.fixture
def place(models, tmp_path, monkeypatch):
    for name in ("model", "driven-model"):
        shutil.copytree(models / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exit_of(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    return exit_.value.code


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def check_line(text: str, says: list[str]) -> None:
    (line,) = text.splitlines()
    assert line.startswith("error: ")
    assert "bug" not in line
    assert len(line) < 500
    for words in says:
        assert words in line


def test_there_are_many_kinds():
    assert len(ALL) >= 60


@pytest.mark.parametrize("name", ALL)
def test_bad_input_is_refused_in_one_line_and_leaves_no_trace(name, place, capsys):
    case = ALL[name]
    case.lay_out(place)
    before = snapshot(place)
    code = exit_of(case.arguments)
    captured = capsys.readouterr()
    assert code == case.code, captured.err
    check_line(captured.err, case.says)
    assert snapshot(place) == before


@pytest.mark.parametrize(
    "name", ["empty file", "unknown option", "existing model", "tensors cut off", "broken TOML"]
)
def test_the_same_in_a_process_of_its_own(name, place):
    case = ALL[name]
    case.lay_out(place)
    before = snapshot(place)
    done = subprocess.run(
        [sys.executable, "-c", "from deeplfm.cli import main; main()", *case.arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == case.code
    assert "Traceback" not in done.stderr
    check_line(done.stderr, case.says)
    assert snapshot(place) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_files_and_folders_that_are_closed(place, capsys):
    (place / "data.csv").write_text(table())
    (place / "data.csv").chmod(0)
    assert exit_of(FIT) == 2
    check_line(capsys.readouterr().err, ["data.csv", "cannot be read"])
    (place / "data.csv").chmod(0o600)
    (place / "closed").mkdir(mode=0o500)
    assert exit_of(["fit", "data.csv", "-o", "closed/model", *QUICK]) == 2
    check_line(capsys.readouterr().err, ["--out", "cannot write"])


@pytest.mark.filterwarnings("default")
def test_a_constant_column_is_fitted_with_a_warning(place, capsys):
    (place / "data.csv").write_text(table(level=["7"] * ROWS))
    assert exit_of(FIT) == 0
    lines = capsys.readouterr().err.splitlines()
    (line,) = (line for line in lines if "'level'" in line)
    assert line.startswith("warning: ")
    assert (place / "new-model" / "model.json").exists()


def test_parquet_without_its_package_is_refused_before_the_fit(place, capsys, monkeypatch):
    monkeypatch.setattr("deeplfm.cli.outputs.find_spec", lambda _: None)
    (place / "data.csv").write_text(table())
    assert exit_of(["impute", "data.csv", "-o", "filled.parquet", *QUICK]) == 2
    check_line(capsys.readouterr().err, ["filled.parquet", "pyarrow", 'deeplfm[parquet]"'])


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("deeplfm.report.write_report", "f.html"),
        ("deeplfm.report.page.write_whole", "f.html"),
        ("deeplfm.data.tables.write_whole", "f.csv"),
        ("matplotlib.figure.Figure.savefig", "f.png"),
        ("pathlib.Path.replace", "f.csv"),
    ],
)
def test_a_full_disk_is_reported_with_the_file_and_changes_nothing(
    place, capsys, monkeypatch, target, name
):
    """It printed the system's number of the error, and the name of a scratch file or none."""

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    (place / name).write_text("of before")
    before = snapshot(place)
    arguments = ["forecast", "model", "--horizon", "3", "-o", "f.csv", "--plot", "f.png"]
    with monkeypatch.context() as patch:
        patch.setattr(target, fail)
        assert exit_of([*arguments, "--report", "f.html"]) == 2
    wanted = [f"error: {name}: cannot be written (No space left on device).", "that has space"]
    check_line(capsys.readouterr().err, wanted)
    assert snapshot(place) == before
