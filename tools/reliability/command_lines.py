"""Generated tables, configurations and arguments through the command line, in this process.

::

    python tools/reliability/command_lines.py --count 10000
    python tools/reliability/command_lines.py --count 40 --apart 1    # each in a process of its own

Three of five cases are careful: a command, options that it has, and a table with one thing wrong at most,
so that many reach a fit or a forecast. Only the exit codes 0, 2, 3, 4 and 130 are allowed, an error is
one line, and nothing may raise.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, arguments, python
from typer.main import get_command

from deeplfm.cli import app
from deeplfm.cli import main as command_line

RUN = "import sys; from deeplfm.cli import main; main(sys.argv[1:])"
CODES = (0, 2, 3, 4, 130)
HANGS_AFTER = 120  # seconds
NUMBERS = (
    "", "0", "-1", "1e308", "1e-308", "nan", "inf", "-inf", "NA", "1,5", "1 000", "0x1f", "٣", "1e999",
    "--", "true", "=1+1", "1_000", "9" * 400, "\u200b1", "2024-02-30", '"', "'", "<b>", "\t",
)  # fmt: skip
STAMPS = (
    "2024-01-{:02d}", "2024-03-31 {:02d}:30", "{}", "{}.5", "1970-01-{:02d}T00:00:00Z", "{:02d}:00:00",
    "{} days", "2024-W{:02d}", "31/{:02d}/2024", "2024-10-27T02:{:02d}:00+02:00", "1e{}",
    "99999-01-{:02d}",
)  # fmt: skip
NAMES = (
    "t", "time", "y", "ä", "", " ", "a b", "y_std", "index", "=x", "-", "1", "y", "\U0001f600",
    "a,b",
)  # fmt: skip
MODELS = (
    "trend", "trend + level", "season(5)", "sinusoids(1)", "level", "nothing", "trend +", "season(-1)",
    "season(1e999)", "()", "trend + trend", "paper(n_features=0)", "deep(system=none)", "season('1 day')",
)  # fmt: skip
VALUES = (
    "0", "1", "2", "-1", "1e9", "x", "", "nan", "1.5", "None", "99999999999999999999", "--help",
    "é",
)  # fmt: skip
OPTIONS = (
    "--time", "--target", "--covariate", "--zone", "--delimiter", "--decimal", "--duplicates", "--seed",
    "--batch-size", "--time-limit", "--patience", "--device", "--dtype", "--horizon", "--until",
    "--times", "--coverage", "--config", "--jobs", "--report", "--plot", "-o", "--nonsense", "--fitted",
    "--checkpoint",
    "--json", "--quiet", "--log-targets", "--input-dependent-noise", "--overwrite", "--covariates",
)  # fmt: skip
FLAGS = ("--json", "--quiet", "--log-targets", "--input-dependent-noise", "--overwrite")
COMMANDS = (
    "fit", "fit", "fit", "forecast", "evaluate", "impute", "components", "forces", "plot", "info",
)  # fmt: skip
PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "--time": ("t",), "--target": ("y", "c0", "c1"), "--covariate": ("c1",), "--missing": ("-999", "0"),
    "--floor": ("-5", "0"), "--cap": ("5", "100"), "--duplicates": ("mean", "first", "error"),
    "--measurement-error": ("y=c1",), "--holidays": ("DE",), "--series": ("c0",), "--effort": ("fast",),
    "--zone": ("UTC", "Europe/Berlin"), "--seed": ("0", "7"), "--dtype": ("float32", "float64"),
    "--batch-size": ("5", "100"), "--time-limit": ("0.01", "1"), "--patience": ("1",),
    "--checkpoint": ("run", "other-run"), "--horizon": ("1", "3", "40"), "--folds": ("1", "2"),
    "--until": ("45", "2024-02-20", "1e9"), "--from": ("5", "-1e6", "2024-01-05"),
    "--points": ("2", "50"),
    "--times": ("later.csv", "data.csv"), "--data": ("later.csv",), "--coverage": ("0.5", "0.999"),
    "--level": ("80", "50,95"), "--quantiles": ("0.1,0.9",), "--only": ("y",), "--decimal": (".", ","),
    "--plot": ("new.png",), "--report": ("new.html",), "--out": ("new.csv", "-", "new.parquet"),
    "--config": ("run.toml",), "--fitted": ("model", "out"), "--model-out": ("out",),
}  # fmt: skip
CHEAP = (
    "trend + level", "trend + season(5) + level", "sinusoids(1)", "trend + reversion", "auto",
    "warped(season) + level", "level(damped)", "trend + shared_forces(1)", "paper(n_features=3)",
)  # fmt: skip
CAREFUL = (
    ("fit", "data.csv"), ("fit", "data.csv"), ("fit", "good.csv"), ("impute", "data.csv"),
    ("forecast", "model"), ("forecast", "out"), ("evaluate", "model", "later.csv"),
    ("evaluate", "out", "data.csv"), ("update", "model", "later.csv"), ("update", "out", "data.csv"),
    ("components", "out"), ("plot", "out", "components"), ("backtest", "out"), ("info", "out"),
    ("compare", "data.csv", "trend"),
)  # fmt: skip
ZONES = ("Europe/Berlin", "UTC", "Mars/Base", "America/New_York", "")


OPTIONS_OF = {
    name: {
        option: bool(getattr(parameter, "is_flag", False))
        for parameter in command.params
        if (option := parameter.opts[0]) in PLAUSIBLE or getattr(parameter, "is_flag", False)
        if option not in ("--debug", "--compile")
    }
    for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
    if hasattr(command, "params")
}


class Cases:
    """A generator of files and command lines."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def one_of(self, items: Any) -> Any:
        """Any of some items."""
        return items[int(self.random.integers(len(items)))]

    def table(self, care: bool) -> bytes:
        """A table in text, with more or less wrong in it."""
        random, n_rows = self.random, int(self.random.integers(0, 30))
        n_columns = int(random.integers(1, 4))
        names = [
            "t",
            *(self.one_of(NAMES) if random.random() < 0.3 else f"c{i}" for i in range(n_columns)),
        ]
        stamp, sloppy = self.one_of(STAMPS), random.random() < 0.5
        delimiter = self.one_of((",", ";", "\t", "|", " "))
        if care:  # one thing wrong at most
            n_rows, names[1] = n_rows + 4, self.one_of(("y", "c0"))
            stamp, delimiter = self.one_of(STAMPS[:5]), ","
            sloppy = random.random() < 0.2
        lines = [delimiter.join(names)]
        for row in range(n_rows):
            fields = [stamp.format(row + 1 if random.random() < 0.97 else 1)]
            fields += [f"{np.sin(row) + i:.4g}" for i in range(n_columns)]
            if sloppy and random.random() < 0.2:
                fields[int(random.integers(len(fields)))] = self.one_of(NUMBERS)
            if sloppy and random.random() < 0.03:
                fields.append(self.one_of(NUMBERS))
            lines.append(delimiter.join(fields))
        text = self.one_of(("\n", "\n", "\r\n", "\r")).join(lines)
        content = text.encode(self.one_of(("utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig")))
        if random.random() < 0.1 and not care:
            place = int(random.integers(len(content) + 1))
            content = content[:place] + random.bytes(3) + content[place:]
        if random.random() < 0.1:
            content = gzip.compress(content)[: None if random.random() < 0.5 else -5]
        return content

    def configuration(self) -> str:
        """A file of options."""
        keys = (
            "n-steps", "model", "time", "target", "seed", "jobs", "nonsense", "data", "coverage",
            "[model]",
        )  # fmt: skip
        values = (
            "1", '"trend"', "[1, 2]", "true", "{a = 1}", "1e400", '"\\u0000"', "2024-01-01", "[]", "nan",
        )  # fmt: skip
        lines = [
            f"{self.one_of(keys)} = {self.one_of(values)}"
            for _ in range(self.random.integers(0, 4))
        ]
        return "\n".join(lines) + self.one_of(("", "\n", "=", "\x00"))

    def careful(self) -> list[str]:
        """The arguments of a command with options that it has, most of them with values that fit."""
        given = list(self.one_of(CAREFUL))
        name = given[0]
        if name in ("fit", "impute", "compare"):
            given += ["--model", self.one_of(CHEAP), "--n-steps", "1", "--jobs", "1"]
        if name in ("fit", "update", "impute"):
            given += ["--overwrite", "-o", "filled.csv" if name == "impute" else "out"]
        elif name == "plot":
            given += ["-o", "new.png"]
        options = OPTIONS_OF[name]
        for _ in range(int(self.random.integers(0, 4))):
            given.append(self.one_of(sorted(options)))
            if not options[given[-1]]:
                is_odd = self.random.random() < 0.1
                given.append(self.one_of(VALUES if is_odd else PLAUSIBLE[given[-1]]))
        return given

    def command(self) -> list[str]:
        """The arguments of a command."""
        name = self.one_of(COMMANDS)
        given = [name]
        is_fit = name in ("fit", "impute")
        given.append(self.one_of(("data.csv",) * 8 + ("nothing", "-", "model", "")) if is_fit else
                     self.one_of(("model",) * 6 + ("data.csv", "nothing", "")))  # fmt: skip
        if name == "evaluate":
            given.append(self.one_of(("data.csv", "later.csv", "nothing")))
        if name == "plot":
            given.append(self.one_of(("spectra", "components", "x")))
        if is_fit:
            model = self.one_of(MODELS[:4]) if self.random.random() < 0.7 else self.one_of(MODELS)
            steps = self.one_of(("0", "0", "1", "-1", "x"))
            given += ["--model", model, "--n-steps", steps, "--jobs", "1"]
            given += ["--overwrite"] if self.random.random() < 0.8 else []
        elif name == "forecast" and self.random.random() < 0.8:
            given += ["--horizon", self.one_of(("1", "3", "0", "x"))]
        for _ in range(int(self.random.integers(0, 3))):
            given.append(self.one_of(OPTIONS))
            if given[-1] not in FLAGS:
                places = (
                    "data.csv",
                    "later.csv",
                    "run.toml",
                    "new.csv",
                    "new.html",
                    "new.png",
                    "new",
                )
                pool = self.one_of((VALUES, places, ZONES, NAMES))
                given.append(str(self.one_of(pool)))
        if is_fit and "-o" not in given:
            given += ["-o", "out" if name == "fit" else "filled.csv"]
        return given


@contextlib.contextmanager
def silent() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Standard output and error as texts, and an empty standard input."""
    out, error, before = _Text(), _Text(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO())
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            yield out, error
    finally:
        sys.stdin = before


class _Text(io.StringIO):
    def isatty(self) -> bool:
        """A pipe."""
        return False


def outcome_of(given: list[str]) -> tuple[str, str | None]:
    """Exit code of a command line, and why it must not be."""
    with silent() as (_, error):
        signal.alarm(HANGS_AFTER)
        try:
            command_line(given)
            code: Any = "returned"
        except SystemExit as done:
            code = done.code
        except BaseException as raised:
            code = f"{type(raised).__name__}: {raised}"
        finally:
            signal.alarm(0)
    return judged(given, code, error.getvalue())


def outcome_apart(given: list[str]) -> tuple[str, str | None]:
    """The same, of a process of its own."""
    process = python(RUN, *given, stdin=subprocess.DEVNULL)
    try:
        error = process.communicate(timeout=HANGS_AFTER)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return "hang", f"{given}: no end after {HANGS_AFTER} s"
    return judged(given, process.returncode, error)


def judged(given: list[str], code: Any, text: str) -> tuple[str, str | None]:
    """An exit code and what was written to standard error."""
    lines = [line for line in text.splitlines() if line.startswith("error:")]
    if code not in CODES:
        return str(code)[:40], f"{given}: {code}: {text[-300:]}"
    if code in (2, 3, 4) and (len(lines) != 1 or "Traceback" in text):
        return f"code {code}", f"{given}: not one line: {text[-300:]}"
    return f"code {code}", None


def hangs(*_: object) -> None:
    """A command that does not end."""
    raise TimeoutError


def main() -> int:
    """Generate, run, count."""
    options = arguments(__doc__, 10_000, apart=(int, 0, "1 gives each case a process"))
    run = outcome_apart if options.apart else outcome_of
    signal.signal(signal.SIGALRM, hangs)
    warnings.simplefilter("ignore")
    report = Report("generated tables, configurations and arguments")
    random = np.random.default_rng(options.seed)
    cases = Cases(random)
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        rows = "\n".join(f"{i},{np.sin(i):.4f}" for i in range(40))
        Path("good.csv").write_text(f"t,y\n{rows}\n")
        Path("later.csv").write_text("t,y\n40,0.7\n41,-0.1\n")
        fit = "fit good.csv --n-steps 1 --jobs 1 --model".split()
        for folder in ("model", "out"):
            outcome_of([*fit, "trend + level", "-o", folder])
        for _ in range(options.count):
            care = random.random() < 0.6
            Path("data.csv").write_bytes(cases.table(care))
            Path("run.toml").write_text("" if care else cases.configuration())
            outcome, bad = run(cases.careful() if care else cases.command())
            report.add(f"{outcome}{', careful' * care}", bad)
            os.chdir(name)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
