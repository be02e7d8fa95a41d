"""Running tasks: records, failures, several at a time, and going on after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_experiment
from tiny_experiment import entry, experiment

from deeplfm.errors import InputError
from deeplfm.experiments.declaration import Case
from deeplfm.experiments.models import comparator
from deeplfm.experiments.runner import TASKS, left_aside, plan, records, run, seeds_in
from deeplfm.experiments.tasks import DONE, FAILED, NOT_AVAILABLE, drawing, source_digest
from deeplfm.io.files import versions

PATIENCE = 120  # seconds until a process counts as stuck


def files(folder):
    return {path.name: path.read_bytes() for path in (folder / TASKS).iterdir()}


def test_a_record_has_scores_settings_versions_and_seconds(tmp_path):
    tasks = plan(experiment(), n_seeds=2, budget=5.0)
    seen = []
    run(tasks, tmp_path, n_jobs=1, report=lambda record, *counts: seen.append(counts))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    record = next(r for r in records(tasks, tmp_path) if (r["case"], r["seed"]) == ("second", 1))
    assert (record["status"], record["model"], record["budget"]) == (DONE, "Constant", 5.0)
    assert record["settings"]["class"] == "Constant" and record["settings"]["seed"] == 1
    assert record["versions"] == versions()
    assert (record["source"], record["threads"]) == (source_digest(), 1)
    assert set(record["seconds"]) == {"fit", "predict"}
    assert [(row["split"], row["output"]) for row in record["rows"]] == [
        ("test", "a"),
        ("test", "b"),
    ]
    assert {"nmse", "mnll", "coverage95"} <= set(record["rows"][0])


def test_what_is_done_is_not_done_again(tmp_path):
    tasks = plan(experiment(), n_seeds=2)
    run(tasks[:3], tmp_path, n_jobs=1)
    before = files(tmp_path)
    done = []
    run(tasks, tmp_path, n_jobs=1, report=lambda record, n, of: done.append((n, of)))
    assert done == [(4, 4)]
    assert before.items() <= files(tmp_path).items()


def later(seed):
    split = tiny_experiment.load(seed)
    return replace(split, x_train=split.x_train + 1)


def test_other_settings_or_data_are_another_task(tmp_path):
    tiny = experiment()
    run(plan(experiment(), 1), tmp_path, n_jobs=1)
    for changed in (
        plan(tiny, 1, budget=1.0),
        plan(experiment(entry("Constant", value=2.0)), 1),
        plan(replace(tiny, cases=tuple(Case(case.name, later) for case in tiny.cases)), 1),
    ):
        assert records(changed, tmp_path) == []
        run(changed, tmp_path, n_jobs=1)
        assert len(records(changed, tmp_path)) == 2


def changed_record(tmp_path, task, change):
    path = tmp_path / TASKS / f"{task.name}.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_setting_missing_in_an_old_record_had_its_default(tmp_path):
    usual, chosen = plan(experiment(entry("a"), entry("b", value=2.0), cases=("first",)), 1)
    run([usual, chosen], tmp_path, n_jobs=1)
    for task in (usual, chosen):
        changed_record(tmp_path, task, lambda record: record["settings"].pop("value"))
    assert [record["model"] for record in records([usual, chosen], tmp_path)] == ["a"]
    assert left_aside([usual, chosen], tmp_path) == [chosen.name]


def test_what_limit_a_model_makes_of_the_budget_does_not_matter(tmp_path):
    (task,) = plan(experiment(entry("a"), cases=("first",)), 1, budget=60.0)
    run([task], tmp_path, n_jobs=1)
    changed_record(tmp_path, task, lambda record: record["settings"].update(time_limit=780.0))
    assert len(records([task], tmp_path)) == 1
    changed_record(tmp_path, task, lambda record: record.update(budget=780.0))
    assert records([task], tmp_path) == []


def test_results_of_other_code_are_reported_and_repeated_on_request(tmp_path):
    tasks = plan(experiment(), 1)
    run(tasks, tmp_path, n_jobs=1)
    changed_record(tmp_path, tasks[0], lambda record: record.update(source="another"))
    again = []
    run(tasks, tmp_path, n_jobs=1, report=lambda *_: again.append(1))
    assert again == []
    run(tasks, tmp_path, n_jobs=1, fresh=True, report=lambda r, *_: again.append(r["case"]))
    assert again == ["first"]
    assert {record["source"] for record in records(tasks, tmp_path)} == {source_digest()}


def test_another_seed_of_a_model_without_randomness_is_not_computed(tmp_path):
    def other(seed):
        split = tiny_experiment.load(seed)
        return replace(split, x_train=split.x_train + seed)

    models = (entry("sure", is_random=False, value=1.0), entry("random", value=1.0))
    tiny = experiment(*models, cases=("same",))
    tiny = replace(tiny, cases=(*tiny.cases, Case("changing", other)))
    tasks = plan(tiny, 2)
    run(tasks, tmp_path, n_jobs=1)
    same = [
        (r["model"], r["case"], r["seed"]) for r in records(tasks, tmp_path) if "same_as_seed" in r
    ]
    assert same == [("sure", "same", 1)]
    first, second = (r for r in records(tasks, tmp_path) if (r["model"], r["case"]) == same[0][:2])
    assert first["rows"] == second["rows"] and first["seconds"] == second["seconds"]


def test_the_number_of_seeds_is_read_from_a_folder(tmp_path):
    assert seeds_in(tmp_path) == 0
    run(plan(experiment(), 3), tmp_path, n_jobs=1)
    assert seeds_in(tmp_path) == 3


def test_a_damaged_record_is_made_again(tmp_path):
    tasks = plan(experiment(), 1)
    run(tasks, tmp_path, n_jobs=1)
    path = tmp_path / TASKS / f"{tasks[0].name}.json"
    path.write_text(path.read_text()[:40])
    assert len(records(tasks, tmp_path)) == 1
    run(tasks, tmp_path, n_jobs=1)
    assert len(records(tasks, tmp_path)) == 2


def test_the_failure_of_one_model_is_recorded_and_stops_no_other(tmp_path):
    models = (entry("bad", error="no\nroom"), comparator("no such model"), entry("good"))
    tasks = plan(experiment(*models, cases=("first",)), 1)
    run(tasks, tmp_path, n_jobs=1)
    bad, missing, good = records(tasks, tmp_path)
    assert (bad["status"], bad["reason"]) == (FAILED, "ValueError: no\nroom")
    assert any("fit" in line for line in bad["traceback"])
    assert missing["status"] == NOT_AVAILABLE and "no such model" in missing["reason"]
    assert good["status"] == DONE
    again = []
    run(tasks, tmp_path, n_jobs=1, report=lambda record, *_: again.append(record["model"]))
    assert again == ["no such model"]  # it may have come
    again.clear()
    run(tasks, tmp_path, n_jobs=1, retry=True, report=lambda r, *_: again.append(r["model"]))
    assert again == ["bad", "no such model"]


def test_a_prediction_that_is_not_a_number_is_null(tmp_path):
    tasks = plan(experiment(entry("odd", value=float("nan")), cases=("first",)), 1)
    run(tasks, tmp_path, n_jobs=1)
    (record,) = records(tasks, tmp_path)
    assert {row["nmse"] for row in record["rows"]} == {None}
    text = (tmp_path / TASKS / f"{tasks[0].name}.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_only_the_drawn_models_of_the_first_seed_keep_a_prediction(tmp_path):
    tasks = plan(experiment(entry("a"), entry("b"), cases=("first",), drawn=("b",)), 2)
    run(tasks, tmp_path, n_jobs=1)
    drawn = {
        (task.entry.label, task.seed): made
        for task in tasks
        if (made := drawing(task, tmp_path / TASKS)) is not None
    }
    assert set(drawn) == {("b", 0)}
    made = drawn["b", 0]
    assert made.mean.shape == (12, 2)
    assert all((made.low[key] < made.high[key]).all() for key in made.low)
    other = replace(tasks[1], budget=1.0)
    assert other.name == tasks[1].name and drawing(other, tmp_path / TASKS) is None
    (tmp_path / TASKS / f"{tasks[1].name}.npz").unlink()
    run(tasks, tmp_path, n_jobs=1)
    assert drawing(tasks[1], tmp_path / TASKS) is not None


def test_data_that_cannot_be_had_stop_the_run_before_it_begins(tmp_path):
    def load(seed):
        raise InputError("no such data. Get them.")

    tiny = experiment(cases=("first",))
    tasks = plan(replace(tiny, cases=(*tiny.cases, Case("gone", load))), 1)
    with pytest.raises(InputError, match="Get them"):
        run(tasks, tmp_path, n_jobs=1)
    assert files(tmp_path) == {}


def test_several_processes_have_one_thread_each_and_find_the_same(tmp_path):
    tasks = plan(experiment(), n_seeds=2)
    run(tasks, tmp_path / "one", n_jobs=1)
    run(tasks, tmp_path / "two", n_jobs=2)
    one, two = records(tasks, tmp_path / "one"), records(tasks, tmp_path / "two")
    assert [record["rows"] for record in one] == [record["rows"] for record in two]
    assert {tuple(record["warnings"]) for record in one + two} == {("UserWarning: 1 threads",)}


def test_a_process_that_dies_loses_only_its_own_task(tmp_path):
    models = (entry("mortal", dies=True), entry("sound"))
    (mortal, *sound) = plan(experiment(*models, cases=("first",)), n_seeds=3)
    tasks = [mortal, *(task for task in sound if task.entry.label == "sound")]
    run(tasks, tmp_path, n_jobs=2)
    found = [(record["model"], record["status"]) for record in records(tasks, tmp_path)]
    assert found == [("mortal", FAILED), *[("sound", DONE)] * 3]
    dead = next(r for r in records(tasks, tmp_path) if r["model"] == "mortal")
    assert "ended from outside" in dead["reason"]
    assert not list((tmp_path / TASKS).glob("*.running"))


def wait_until(is_so, process):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "nothing happened"
        assert process.poll() in (None, -signal.SIGKILL), process.stderr.read()
        time.sleep(0.05)


def is_gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_a_killed_run_goes_on_where_it_was_and_leaves_no_process(tmp_path):
    command = [sys.executable, tiny_experiment.__file__, tmp_path]
    place = tmp_path / TASKS
    process = subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    wait_until(lambda: len(list(place.glob("*.json"))) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: is_gone(process.pid), process)
    process.stderr.close()
    before = {name: data for name, data in files(tmp_path).items() if name.endswith(".json")}
    assert 2 <= len(before) < 8
    assert all(json.loads(data)["status"] == DONE for data in before.values())
    subprocess.run(command, check=True)
    after = files(tmp_path)
    whole = {name for name in after if name.endswith(".json") and not name.startswith(".")}
    assert len(whole) == 8
    assert before.items() <= after.items()  # bit for bit: not computed again
    assert not [name for name in after if name.endswith(".running")]
