"""``deeplfm demo`` as a user meets it: output, files, errors, exit codes."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch

import deeplfm
from deeplfm.cli import main
from deeplfm.data.simulated import toy_system
from deeplfm.errors import ConfigError, InputError, ModelFileError, TrainingDivergedError
from deeplfm.experiments.demo import DemoResult
from deeplfm.predictive.mixture import Predictive

COMMAND = [sys.executable, "-c", "from deeplfm.cli import main; main()"]
RUNNER = "deeplfm.experiments.demo.run_demo"


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, **options
    )


def call(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    return exit_.value.code


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = run("demo", "--quick", "--out", "here", "--json", "new/scores.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_table_names_models_and_the_papers_numbers(quick):
    _, done = quick
    lines = done.stdout.splitlines()
    published = {"GP": "-", "DGP-EQ": "1.4 / 3.7", "DLFM": "1.5 / 2.4", "ensemble": "-"}
    for model, paper in published.items():
        (line,) = (line for line in lines if line.split()[:1] == [model])
        assert line.rstrip().endswith(paper)
        assert len(line.split()) >= 7
    assert any("gap" in line and "extrapolation" in line for line in lines)
    assert "…" not in done.stdout
    assert done.stderr == ""


def test_table_has_room_for_bad_scores(tmp_path, monkeypatch, capsys):
    data = toy_system()
    flat = torch.zeros(1, 750, 1, dtype=torch.float64)
    posterior = Predictive(flat, flat + 1, flat[0] + 1, flat[0, :1] + 1, lambda n, seed: flat)
    bad = {"nmse": 123.45, "mnll": 1234.56, "coverage95": 1.0}
    scores = {("DGP-EQ", part): bad for part in ("interpolation", "extrapolation")}
    result = DemoResult(data, {"DGP-EQ": posterior}, scores, {"DGP-EQ": 1234.5})
    monkeypatch.setattr(RUNNER, lambda *_: result)
    monkeypatch.setenv("COLUMNS", "80")
    assert call("demo", "--out", tmp_path) == 0
    printed = capsys.readouterr().out
    assert "1234.56" in printed
    assert "…" not in printed


def test_figure_is_written_where_it_says(quick):
    folder, done = quick
    assert "Figure: here/toy.png" in done.stdout
    assert (folder / "here" / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_scores_are_written_as_json(quick):
    folder, _ = quick
    content = json.loads((folder / "new" / "scores.json").read_text())
    assert set(content) == {"rows", "versions", "settings"}
    keys = {"model", "split", "output", "seed", "nmse", "mnll", "coverage95", "seconds"}
    assert all(set(row) == keys for row in content["rows"])
    assert {(row["model"], row["split"]) for row in content["rows"]} == {
        (model, split)
        for model in ("GP", "DGP-EQ", "DLFM", "ensemble")
        for split in ("interpolation", "extrapolation")
    }
    assert content["versions"]["deeplfm"] == deeplfm.__version__
    assert content["settings"]["quick"] is True
    assert content["settings"]["models"]["DGP-EQ"]["follows_paper"] is False


def test_version_and_help(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out == f"deeplfm {deeplfm.__version__}\n"
    for arguments in ([], ["--help"]):
        assert call(*arguments) == 0
        assert "demo" in capsys.readouterr().out


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(RUNNER, lambda *_: pytest.fail("trained before it looked"))


def error_line(capsys):
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line


def test_out_that_is_a_file(tmp_path, capsys, no_training):
    path = tmp_path / "taken"
    path.write_text("mine")
    assert call("demo", "--out", path) == 2
    assert "taken is an existing file" in error_line(capsys)
    assert path.read_text() == "mine"
    assert call("demo", "--out", path / "below") == 2
    assert "cannot write to folder" in error_line(capsys)


def test_out_that_cannot_be_written(tmp_path, capsys, monkeypatch, no_training):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert call("demo", "--out", tmp_path) == 2
    assert "(Permission denied)" in error_line(capsys)


def test_names_taken_by_folders(tmp_path, capsys, no_training):
    assert call("demo", "--out", tmp_path, "--json", tmp_path) == 2
    assert "--json:" in error_line(capsys)
    (tmp_path / "toy.png").mkdir()
    assert call("demo", "--out", tmp_path) == 2
    assert "toy.png is a folder" in error_line(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--preset", "best"],
        ["demo", "--variant", "mine"],
        ["demo", "--seed", "one"],
        ["demo", "--seed", "-1"],
        ["demo", "--nothing"],
        ["dmo"],
    ],
)
def test_command_lines_that_make_no_sense(arguments, capsys, no_training):
    assert call(*arguments) == 2
    command = "deeplfm demo" if "demo" in arguments else "deeplfm"
    assert f"See {command} --help." in error_line(capsys)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad\ndata"), 2),
        (ConfigError("bad setting"), 2),
        (OSError(28, "No space left on device"), 2),
        (TrainingDivergedError("loss became NaN"), 3),
        (ModelFileError("not a model"), 4),
        (RuntimeError("unforeseen"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error, code, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise error

    monkeypatch.setattr(RUNNER, fail)
    assert call("demo", "--out", tmp_path) == code
    line = error_line(capsys)
    assert "Traceback" not in line
    assert call("demo", "--out", tmp_path, "--debug") == code
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_ends_with_one_line(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "demo", "--out", "here"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # jobs in the background ignore it, and hand that on to their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "here").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert stderr == "error: interrupted.\n"
    assert process.returncode == 130
