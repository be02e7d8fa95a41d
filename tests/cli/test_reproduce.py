"""``deeplfm reproduce`` as a user meets it: tables, files, errors, and going on after a kill."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from deeplfm.errors import InputError
from deeplfm.experiments.catalogue import EXPERIMENTS

COMMAND = [sys.executable, "-c", "from deeplfm.cli import main; main()"]
TOY = ["reproduce", "toy", "--quick", "--models", "DLFM"]
PATIENCE = 240  # seconds until a process counts as stuck


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    command = [*COMMAND, *TOY, "--seeds", "1", "--jobs", "1", "--out", "results"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_table_is_printed_and_kept(quick):
    folder, done = quick
    kept = folder / "results" / "toy-quick"
    assert done.stdout.strip() == (kept / "table.md").read_text().strip()
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("| DLFM "))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert (cells[4], cells[6], cells[7]) == ("1.5", "2.4", "1")
    assert "not fully trained" in done.stdout
    assert "[1/1] DLFM, toy, seed 0: done in " in done.stderr
    assert (kept / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert (kept / "table.tex").read_text().startswith(r"\begin{table}")


def test_the_same_command_computes_nothing_twice(quick, call, monkeypatch):
    monkeypatch.chdir(quick[0])
    monkeypatch.setattr("deeplfm.experiments.tasks._results", lambda *_: pytest.fail("computed"))
    again = call(*TOY, "--seeds", 1, "--jobs", 1, "--out", "results", "--format", "latex")
    assert again.code == 0
    assert again.out.startswith(r"\begin{table}")
    assert "[1/1]" not in again.err
    shown = call(*TOY, "--seeds", 2, "--out", "results", "--show", "--json")
    (content,) = json.loads(shown.out)["experiments"]
    assert content["models"][0]["done"] == "1/2"
    assert len(content["tasks"]) == 1


def test_what_is_there_is_shown_whichever_models_are_asked_for(quick, call, monkeypatch, tmp_path):
    results = shutil.copytree(quick[0] / "results", tmp_path / "results")
    lag = ["reproduce", "toy", "--quick", "--seeds", 1, "--jobs", 1, "--out", results]
    for done in (
        call(*lag, "--models", "last period"),
        call("reproduce", "all", *lag[2:3], "--show", *lag[-2:]),
    ):
        assert done.code == 0
        rows = [line for line in done.out.splitlines() if line.startswith("|")]
        assert [row.split("|")[1].strip() for row in rows[2:]] == ["DLFM", "last period"]
    assert "last period" in (results / "toy-quick" / "table.md").read_text()


def test_a_page_is_written_and_written_again_without_the_results(
    quick, call, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "docs" / "results.md"
    show = ("reproduce", "all", "--quick", "--show", "--document", "docs/results.md", "--out")
    done = call(*show, quick[0] / "results")
    assert done.code == 0
    assert "Wrote docs/results.md" in done.err
    text = page.read_text()
    assert "deeplfm reproduce toy --quick --seeds 1" in text
    assert (page.parent / "figures" / "results-toy-quick-toy.png").exists()
    page.unlink()
    assert call(*show, "nowhere").code == 0
    assert page.read_text() == text
    assert not (tmp_path / "nowhere").exists()


def test_results_of_other_code_or_settings_are_reported(quick, call, tmp_path):
    results = shutil.copytree(quick[0] / "results", tmp_path / "results")
    (path,) = (results / "toy-quick" / "tasks").glob("*.json")
    record = json.loads(path.read_text())
    (path.parent / "toy--moss--seed-0.json").write_text(path.read_text())
    path.write_text(json.dumps(record | {"source": "another"}))
    shown = call("reproduce", "toy", "--quick", "--show", "--out", results)
    assert "1 of 1 results were computed with another version of the code; --fresh" in shown.err
    assert (
        "belong to other settings, data or models, and are not shown: toy--moss--seed-0."
        in shown.err
    )
    again = call(*TOY, "--seeds", 1, "--jobs", 1, "--fresh", "--out", results)
    assert "[1/1] DLFM, toy, seed 0: done" in again.err
    assert "another version" not in again.err


def test_the_list_names_all_experiments_and_where_the_paper_has_them(call):
    listed = call("reproduce", "--list")
    assert listed.code == 0
    for name in EXPERIMENTS:
        assert name in listed.out
    assert "Table A8" in listed.out
    found = json.loads(call("reproduce", "--list", "--json").out)["experiments"]
    assert [item["name"] for item in found] == list(EXPERIMENTS)
    assert all(item["seeds"] == 5 and "GP" in str(item["models"]) for item in found[:2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "NAME: none given"),
        (["moon"], "experiment 'moon' is not known. Choose from toy"),
        (["toy", "--models", "tree"], "has no 'tree'. Choose from 'ensemble'"),
        (["toy", "--substitute", "mimic"], "toy is not on CHARIS"),
        (["charis-imputation", "--substitute", "sun"], "'sun'"),
        (["toy", "--seeds", "0"], "--seeds"),
        (["toy", "--show"], "--show: folder deeplfm-results has no such results of toy"),
        (["all", "--show", "--document", "page.md"], "page.md: no results found"),
        (["toy", "--document", "page.html"], "--document: the format of page.html is not known"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(arguments, message, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("reproduce", *arguments)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_had_stops_one_experiment_of_all(call, tmp_path, monkeypatch):
    monkeypatch.setattr("deeplfm.experiments.catalogue.EXPERIMENTS", ("charis-imputation", "toy"))

    def gone(self):
        raise InputError("charis: cannot be had. Ask.")

    monkeypatch.setattr("deeplfm.experiments.paper.signals.Signals.load", gone)
    out = tmp_path / "out"
    done = call(
        *("reproduce", "all", "--quick", "--seeds", 1, "--jobs", 1, "--models", "DLFM", "-o", out)
    )
    assert done.code == 2
    assert "error: charis-imputation: charis: cannot be had. Ask." in done.err
    assert "Compositional toy system" in done.out


def is_gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(is_so, process):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "nothing happened"
        assert process.poll() in (None, -signal.SIGKILL)
        time.sleep(0.1)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_a_killed_command_goes_on_where_it_was(tmp_path):
    command = [*COMMAND, *TOY, "--seeds", "4", "--jobs", "2", "--out", "results"]
    tasks = tmp_path / "results" / "toy-quick" / "tasks"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path, start_new_session=True, stdout=log, stderr=log
        )
    wait_until(lambda: list(tasks.glob("*.json")), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: is_gone(process.pid), process)
    before = {path.name: path.read_bytes() for path in tasks.glob("*.json")}
    assert 1 <= len(before) < 4
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = {path.name: path.read_bytes() for path in tasks.glob("*.json")}
    assert len(after) == 4
    assert before.items() <= after.items()  # bit for bit: not computed again
    assert done.stderr.count("done in") == 4 - len(before)
    assert re.search(r"\| +4 \| +[\d.]+ \|\n", done.stdout)  # seeds and seconds
