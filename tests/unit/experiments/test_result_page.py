"""The page about all results: its content, and that the files beside it are enough to write it."""

import json
import re
from dataclasses import replace

import pytest
from tiny_experiment import entry, experiment

from deeplfm.errors import InputError
from deeplfm.experiments import catalogue as setups
from deeplfm.experiments.catalogue import Setup, setups_in
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.page import Archive, add_results, take_results, without_paths, write_page
from deeplfm.experiments.results import figures, gathered, publish
from deeplfm.experiments.runner import TASKS, plan, run
from deeplfm.experiments.verdicts import verdict

WHOLE = experiment(
    entry("DLFM", "A", value=0.5),
    entry("GP", value=0.1),
    entry("bad", error="cannot read /home/ann/secret/ecg.csv: none"),
    entry("tree"),
    drawn=("DLFM",),
    warning="MIMIC 037, not CHARIS",
    notes=("A note.",),
)
TOY, UCI = Setup("toy", budget=120.0), Setup("uci")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(setups, "declared", lambda name, substitute: replace(WHOLE, name=name))


def results(out, setup, n_seeds, *labels):
    tasks = plan(WHOLE.only(list(labels)), n_seeds, setup.is_quick, setup.budget)
    run(tasks, out / setup.folder, n_jobs=1)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    results(folder, TOY, 3, "DLFM", "bad")
    results(folder, TOY, 1, "GP")
    results(folder, UCI, 1, "DLFM")
    return folder


@pytest.fixture
def page(out, tmp_path):
    page = tmp_path / "docs" / "results.md"
    for setup in setups_in(out):
        outcome, tasks = gathered(setup, out / setup.folder)
        paths = publish(outcome, tasks, out / setup.folder)
        add_results(page, setup, outcome, [path for path in paths if path.suffix == ".png"])
    write_page(page)
    return page


def test_the_page_has_all_results_and_where_they_are_from(page):
    text = page.read_text()
    toy, uci = text.split("## A tiny experiment (Table 0)")[1:]
    introduction = text.split("## ")[0]
    assert "16 fits, each with 1 thread on a CPU" in introduction
    assert re.search(r"deeplfm [\d.]+, python .*torch .*; source [0-9a-f]{12}\.", introduction)
    rows = {
        (cells := [cell.strip() for cell in line.strip("|").split("|")])[0]: cells
        for line in toy.splitlines()
        if line.startswith("|")
    }
    assert [rows[label][-2] for label in ("DLFM", "GP", "bad")] == ["3", "1", "0"]
    assert rows["DLFM"][2] == "0.39 (0.05)" and float(rows["DLFM"][1].strip("*")) > 0
    assert "tree" not in rows and "Not run: tree." in toy
    for text_ in (
        "**MIMIC 037, not CHARIS**",
        "At most 120 s",
        "- A note.",
        "bad: failed: ValueError",
    ):
        assert text_ in toy
    assert "`deeplfm reproduce toy --budget 120 --seeds 3`" in toy
    assert "`deeplfm reproduce uci --seeds 1`" in uci and "Not run: GP, bad, tree." in uci


def test_every_link_of_the_page_leads_somewhere(page):
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert "figures/results-toy-budget-120-first.png" in links
    assert "results/uci.json" in links
    assert all((page.parent / link).exists() for link in links)


def test_the_page_is_made_again_from_the_files_beside_it_alone(page, monkeypatch):
    before = page.read_text()
    page.unlink()
    monkeypatch.setattr("deeplfm.experiments.tasks.Task.identity", lambda _: pytest.fail("needed"))
    write_page(page)
    assert page.read_text() == before


def test_the_files_contain_nothing_of_the_machine(page):
    for path in (page, *(page.parent / "results").iterdir()):
        text = path.read_text()
        assert "/home" not in text and "secret" not in text and "traceback" not in text
        assert str(page.parent.parent) not in text
    content = json.loads((page.parent / "results" / "toy-budget-120.json").read_text())
    assert len(content["records"]) == 14 and len(content["surroundings"]) == 1
    reason = next(r["reason"] for r in content["records"] if r["model"] == "bad")
    assert reason == "ValueError: cannot read ecg.csv: none"


def test_paths_become_names_of_files():
    assert without_paths(r"in C:\Users\ann\a.csv, row 3") == "in a.csv, row 3"
    assert without_paths("no file '/a/b c'") == "no file 'b c'"
    for plain in ("0.5 km/h and m/s", "see https://example.org/a/b", "either/or", "1/2"):
        assert without_paths(plain) == plain


def test_later_results_join_the_page(page, out):
    archive = Archive.read(page.parent / "results" / "uci.json")
    later = Setup("lorenz")
    add_results(page, later, archive.outcome(), [])
    write_page(page)
    assert page.read_text().count("## A tiny experiment") == 3


def test_a_run_goes_on_from_the_records_beside_a_page(page, tmp_path, monkeypatch):
    before, out = page.read_text(), tmp_path / "elsewhere"
    take_results(page, UCI, out)
    outcome, tasks = gathered(UCI, out / UCI.folder)
    assert figures(outcome, tasks, out / UCI.folder / TASKS) == {}  # predictions are not kept there
    add_results(page, UCI, outcome, [])
    write_page(page)
    assert page.read_text() == before  # figures and all
    monkeypatch.setattr("deeplfm.experiments.runner.run_task", lambda *_: pytest.fail("is done"))
    run(plan(replace(WHOLE.only(["DLFM"]), drawn=()), 1), out / UCI.folder, n_jobs=1)


def test_records_that_a_folder_holds_are_kept(page, out, tmp_path):
    folder = tmp_path / "elsewhere"
    results(folder, TOY, 1, "GP")
    path = folder / TOY.folder / TASKS / "first--gp--seed-0.json"
    before = path.read_bytes()
    take_results(page, TOY, folder)
    take_results(page, Setup("lorenz"), folder)  # of which there is nothing
    assert path.read_bytes() == before
    assert len(list(path.parent.glob("*.json"))) == 14


def test_a_page_needs_results_that_can_be_read(tmp_path):
    page = tmp_path / "results.md"
    with pytest.raises(InputError, match="no results found"):
        write_page(page)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "toy.json").write_text('{"records": []}')
    with pytest.raises(InputError, match=r"toy\.json: no results of deeplfm reproduce"):
        write_page(page)
    assert not page.exists()


@pytest.mark.parametrize(
    "setup",
    [
        Setup("toy"),
        TOY,
        Setup("uci-two-hidden", is_quick=True),
        Setup("charis-extrapolation", "mimic", budget=0.5),
        Setup("hyperparameters", "mimic", is_quick=True, budget=1e6),
    ],
)
def test_a_folder_is_known_by_its_name(setup):
    assert Setup.of_folder(setup.folder) == setup


def test_other_folders_are_passed_over(tmp_path):
    for folder in ("toy-old/tasks", "moon/tasks", "uci", "lorenz-quick/tasks", "toy/tasks"):
        (tmp_path / folder).mkdir(parents=True)
    assert list(setups_in(tmp_path)) == [Setup("toy"), Setup("lorenz", is_quick=True)]


def test_a_table_has_what_other_commands_put_into_its_folder(out):
    outcome, tasks = gathered(TOY, out / TOY.folder, n_seeds=1, asked=["DLFM", "tree"])
    assert [item.label for item in outcome.experiment.models] == ["DLFM", "GP", "bad", "tree"]
    assert outcome.n_seeds == 3 and len(outcome.records) == 14
    assert {task.entry.label for task in tasks} == {"DLFM", "GP", "bad", "tree"}


def scored(label, nmse, mnll):
    row = {"split": "test", "nmse": nmse, "mnll": mnll}
    rows = [row | {"output": output} for output in ("a", "b")]
    return {"case": "first", "model": label, "seed": 0, "status": "done", "rows": rows}


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ([], "The ensemble has the best median in all 2 columns."),
        (
            [scored("GP", 0.1, 2.0), scored("tree", 0.2, 3.0)],
            "The ensemble has the best median in 1 of 2 columns (MNLL). Better: GP in a NMSE (0.10, "
            "ensemble 0.30).",
        ),
        (
            [scored("GP", 0.25, 2.0), scored("tree", 0.4, -0.5)],
            "The ensemble has the best median in no column. Better: GP in a NMSE (0.25, ensemble 0.30); "
            "tree in MNLL (-0.50, ensemble 1.00).",
        ),
    ],
)
def test_a_sentence_states_where_the_ensemble_is_best_and_which_models_are_better(others, sentence):
    tiny = experiment(entry("ensemble"), entry("GP"), entry("tree"), cases=("first",))
    records = [scored("ensemble", 0.3, 1.0), *others]
    assert verdict(Outcome(tiny, records, n_seeds=1)) == sentence
    assert "no scores" in verdict(Outcome(tiny, records[1:], n_seeds=1))


def test_settings_of_ours_are_compared_with_each_other():
    tiny = experiment(entry("DLFM M=1"), entry("DLFM M=2"), cases=("first",))
    records = [scored("DLFM M=1", 0.3, 1.0), scored("DLFM M=2", 0.2, 2.0)]
    sentence = verdict(Outcome(tiny, records, n_seeds=1))
    assert sentence == "Best medians: a NMSE: DLFM M=2 (0.20); MNLL: DLFM M=1 (1.00)."


def test_only_a_dlfm_is_compared_with_the_published_one():
    models = (entry("ensemble"), entry("DLFM", "A"), entry("DLFM (paper)", "A"))
    tiny = experiment(*models, cases=("first",))
    scores = (("ensemble", 0.1), ("DLFM", 0.3), ("DLFM (paper)", 9.0))
    records = [scored(label, score, score) for label, score in scores]
    sentence = verdict(Outcome(tiny, records, n_seeds=1))
    assert sentence == (
        "The ensemble has the best median in all 2 columns. Better than the DLFM of the published "
        "table: DLFM in 1 of 1 columns and DLFM (paper) in 0 of 1 columns."
    )
    warned = replace(tiny, warning="Other data")
    assert "published" not in verdict(Outcome(warned, records, n_seeds=1))
