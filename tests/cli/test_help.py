"""Help that helps: its examples work, it comes at once, and the shell completes what it names."""

import os
import shlex
import subprocess
import sys

import pytest
import typer

from deeplfm.cli import app
from deeplfm.cli.options import complete_models

COMMANDS = [
    *(["fit"], ["forecast"], ["impute"], ["evaluate"], ["components"], ["forces"]),
    *(["plot"], ["info"], ["models"]),
    *(["data", "list"], ["data", "fetch"], ["doctor"], ["reproduce"], ["demo"]),
]
TAKE_MINUTES = (["reproduce"], ["demo"])
SLOW = {"torch", "gpytorch", "sklearn", "scipy", "matplotlib", "numpy", "pandas"}


def examples(command, call):
    lines = [line.strip() for line in call(*command, "--help").out.splitlines()]
    return [line for line in lines[lines.index("Examples") :] if line.startswith("deeplfm ")]


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_examples(command, call, wide):
    assert 2 <= len(examples(command, call)) <= 3


@pytest.mark.parametrize(
    "command", [item for item in COMMANDS if item not in TAKE_MINUTES], ids=" ".join
)
def test_the_examples_of_the_help_work(command, place, call, wide, monkeypatch):
    monkeypatch.setenv("DEEPLFM_CACHE", str(place / "cache"))
    for line in examples(command, call):
        assert line.startswith(" ".join(["deeplfm", *command]))
        arguments = shlex.split(line.partition(" > ")[0])[1:]
        if arguments[0] in ("fit", "impute"):  # seconds instead of minutes
            arguments += [
                "--model",
                "sinusoids + broadband",
                "--n-steps",
                "2",
                "--overwrite",
            ]
        done = call(*arguments)
        assert done.code == 0, f"{line}: {done.err}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *COMMANDS], ids=" ".join)
def test_help_does_not_import_what_is_slow(arguments):
    code = (
        "import sys; from deeplfm.cli import app\n"
        f"app({[*arguments, '--help']}, standalone_mode=False)\n"
        f"sys.exit(', '.join({SLOW} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_options_stand_in_panels(call):
    shown = call("fit", "--help").out
    places = [
        shown.index(f"─ {panel} ─") for panel in ("Results", "Data", "Model", "Training", "Run")
    ]
    assert places == sorted(places)


def completed(line, place):
    """What bash would be offered after a line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", "from deeplfm.cli import main; main()"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_DEEPLFM_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
    )
    return done.stdout.split()


def test_the_shell_completes_commands_options_models_and_kinds(place):
    assert completed("deeplfm for", place) == ["forecast", "forces"]
    assert "--horizon" in completed("deeplfm forecast vitals-model --hor", place)
    assert completed("deeplfm info vit", place) == ["vitals-model"]
    assert completed("deeplfm plot vitals-model fi", place) == ["filters"]
    assert completed("deeplfm fit vitals.csv --model ens", place) == ["ensemble"]
    assert completed("deeplfm data fetch to", place) == ["toy"]


def test_models_are_completed_in_folders_too(place):
    assert list(complete_models("")) == ["driven-model", "vitals-model"]
    (place / "runs" / "deep" / "model.json").parent.mkdir(parents=True)
    (place / "runs" / "deep" / "model.json").touch()
    assert list(complete_models("ru")) == ["runs/"]
    assert list(complete_models("runs/")) == ["runs/deep"]
    assert list(complete_models(f"{place}/vit")) == [f"{place}/vitals-model"]


def test_completion_can_be_installed():
    options = {name for parameter in typer.main.get_command(app).params for name in parameter.opts}
    assert {"--install-completion", "--show-completion", "--version"} <= options
