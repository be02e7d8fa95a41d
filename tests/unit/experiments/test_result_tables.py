"""Tables: medians, means and errors over the seeds, the paper beside them, and what went wrong."""

import json
import statistics

import pytest
from tiny_experiment import entry, experiment

from deeplfm.experiments.declaration import Column
from deeplfm.experiments.models import comparator
from deeplfm.experiments.outcome import Outcome, Summary
from deeplfm.experiments.results import publish
from deeplfm.experiments.runner import plan, run
from deeplfm.experiments.runner import records as known
from deeplfm.experiments.tables import cell_text, grid, latex, markdown
from deeplfm.experiments.tasks import DONE, FAILED


def record(model, case, seed, status=DONE, reason=None, **scores):
    rows = [
        {"split": "test", "output": output, "nmse": nmse, "mnll": mnll, "coverage95": 1.0}
        for output, (nmse, mnll) in scores.items()
    ]
    return {
        "case": case,
        "model": model,
        "seed": seed,
        "status": status,
        "reason": reason,
        "rows": rows,
        "seconds": {"fit": 2.0 + seed} if status == DONE else {},
    }


TINY = experiment(entry("ours", "A"), entry("other"))
RECORDS = [
    record("ours", "first", 0, a=(0.1, 1.0), b=(9.0, 2.0)),
    record("ours", "second", 0, a=(9.0, 3.0), b=(9.0, 4.0)),
    record("ours", "first", 1, a=(0.3, 3.0), b=(9.0, 4.0)),
    record("ours", "second", 1, a=(9.0, 5.0), b=(9.0, 6.0)),
    record("ours", "first", 2, a=(0.8, 0.0), b=(9.0, 0.0)),
    record("other", "first", 0, a=(0.2, 1.0), b=(9.0, 2.0)),
    record("other", "second", 0, FAILED, "ValueError: a & b\n50 %"),
]
OUTCOME = Outcome(TINY, RECORDS, n_seeds=3)


def test_a_cell_is_a_mean_over_cases_and_outputs_for_each_seed():
    ours, other = TINY.models
    nmse, mnll = TINY.columns
    cell = OUTCOME.summary(ours, nmse)
    assert cell.values == (0.1, 0.3, 0.8)
    assert (cell.median, cell.mean) == pytest.approx((0.3, 0.4))
    assert cell.error == pytest.approx(statistics.stdev((0.1, 0.3, 0.8)) / 3**0.5)
    assert OUTCOME.summary(ours, mnll).values == (2.5, 4.5)  # seed 2 lacks its second case
    assert OUTCOME.summary(other, nmse) == Summary((0.2,), 0.2, 0.2, None)
    assert OUTCOME.summary(other, mnll) is None
    assert (OUTCOME.done(ours), OUTCOME.done(other)) == ("5/6", "1/6")
    assert OUTCOME.seconds(ours) == 3.0


def test_a_missing_score_leaves_its_seed_out():
    gone = [record("ours", "first", 0, a=(None, None), b=(1.0, 1.0))]
    outcome = Outcome(experiment(entry("ours"), cases=("first",)), gone, n_seeds=1)
    both = Column("NMSE", "nmse", ("first",))
    assert outcome.summary(outcome.experiment.models[0], both) is None
    assert "not a number" in outcome.troubles()[0]


def test_markdown_has_the_paper_beside_ours_in_columns_that_it_has():
    lines = markdown(OUTCOME).splitlines()
    cells = {
        (parts := [part.strip() for part in line.strip("|").split("|")])[0]: parts[1:]
        for line in lines
        if line.startswith("|")
    }
    assert cells["model"] == ["a NMSE", "paper", "MNLL", "seeds", "seconds to fit"]
    assert cells["ours"][:2] == ["0.30 (0.40 ± 0.21)", "0.39 (0.05)"]
    assert cells["ours"][2:] == ["**3.50 (3.50 ± 1.00)**", "3 (5/6 fits)", "3.0"]
    assert cells["other"] == ["**0.20**", "–", "–", "1 (1/2 fits)", "2.0"]
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    assert lines[0] == "## A tiny experiment (Table 0)"
    assert "- other: failed: ValueError: a & b 50 % (second, seed 0)" in lines


def test_latex_is_escaped_and_closed():
    text = latex(OUTCOME)
    assert r"0.30 (0.40 $\pm$ 0.21) & 0.39 (0.05) & \textbf{3.50 (3.50 $\pm$ 1.00)}" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in body} == {5}
    assert text.count("{") == text.count("}")
    assert "±" not in text and "–" not in text
    noted = Outcome(experiment(notes=("5 % & more_",)), [], n_seeds=1)
    assert r"5 \% \& more\_" in latex(noted)


def test_a_row_has_its_number_of_seeds():
    records = [record("ours", "first", seed, a=(0.1, 1.0)) for seed in range(3)]
    records += [record("other", "first", 0, a=(0.1, 1.0)), record("other", "first", 1, FAILED, "x")]
    tiny = experiment(entry("ours"), entry("other"), cases=("first",))
    _, rows = grid(Outcome(tiny, records, n_seeds=5))
    assert [row[-2].text for row in rows] == ["3", "1"]


def test_several_versions_of_the_code_are_reported():
    def made(model, source, day):
        finished = f"2026-01-{day:02}T00:00:00+00:00"
        return record(model, "first", day, a=(0.1, 1.0)) | {"source": source, "finished": finished}

    tiny = experiment(entry("ours"), entry("other"), cases=("first",))
    one = Outcome(tiny, [made("ours", "aaa", 1), made("other", "aaa", 2)], n_seeds=3)
    assert one.mixture() == [] and Outcome(tiny, [], n_seeds=1).mixture() == []
    records = [made("other", "bbb", 1), made("ours", "aaa", 2), made("ours", "bbb", 0)]
    old = record("other", "first", 2, a=(0.1, 1.0))  # before digests were kept
    mixed = Outcome(tiny, [*records, old], n_seeds=3)
    (line,) = mixed.mixture()
    assert line.startswith("Computed with 3 versions of the code") and "--fresh" in line
    assert mixed.sources() == {
        "aaa": ["ours"],
        "bbb": ["other", "ours"],
        "an unknown one": ["other"],
    }
    assert f"- {line}" in markdown(mixed) and f"% {line}" in latex(mixed)


@pytest.mark.parametrize("make", [markdown, latex])
def test_every_table_has_its_warnings(make):
    tiny = experiment(warning="MIMIC 037, not CHARIS", paper_heading="paper (CHARIS)")
    text = make(Outcome(tiny, [], n_seeds=1, is_quick=True, budget=60.0))
    for remark in ("MIMIC 037, not CHARIS", "not fully trained", "At most 60 s", "paper (CHARIS)"):
        assert remark in text


@pytest.mark.parametrize(
    ("nmse", "text"), [(0.00123, "0.0012"), (1.64e-8, "1.6e-08"), (0.0, "0.00")]
)
def test_small_and_large_numbers_keep_their_digits(nmse, text):
    records = [record("ours", "first", 0, a=(nmse, 123456.0), b=(0.0, 123456.0))]
    outcome = Outcome(experiment(entry("ours"), cases=("first",)), records, n_seeds=1)
    _, ((_, first, second, *_),) = grid(outcome)
    assert (first.text, second.text) == (text, "1.23e+05")


def test_results_are_published_together(tmp_path):
    tiny = experiment(entry("ours", "A"), comparator("no such model"), drawn=("ours",))
    tasks = plan(tiny, 2)
    run(tasks, tmp_path, n_jobs=1)
    outcome = Outcome(tiny, known(tasks, tmp_path), n_seeds=2)
    names = [path.name for path in publish(outcome, tasks, tmp_path)]
    assert names == ["results.json", "table.md", "table.tex", "first.png", "second.png"]
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "results.json").read_text())
    assert len(content["tasks"]) == 8
    scores = content["models"][0]["scores"]["a NMSE"]
    assert scores["paper"] == {"text": "0.39 (0.05)", "value": 0.39, "error": 0.05}
    assert len(scores["ours"]["values"]) == 2
    assert "no such model" in content["troubles"][0]
    assert content["versions"]["deeplfm"]


def test_a_note_lists_the_candidates_of_an_ensemble():
    weights = [{"deep": [1.0, 0.5], "season": [0.0, 0.5]}, {"season": [1.0, 1.0]}]
    records = [
        record("ours", "first", seed, a=(0.1, 1.0)) | {"weight": weight}
        for seed, weight in enumerate(weights)
    ]
    alone = record("other", "first", 0, a=(0.1, 1.0)) | {"weight": {"deep": [1.0, 1.0]}}
    (note,) = Outcome(TINY, [*records, alone], n_seeds=2).made_of()
    assert note == "ours is made of season 62 %, deep 38 % (mean weights of 2 fits)."
    assert f"- {note}" in markdown(Outcome(TINY, [*records, alone], n_seeds=2))


def test_seeds_that_agree_are_one_number():
    assert cell_text(Summary((0.25, 0.25), 0.25, 0.25, 1e-17), 2) == "0.25"
    assert cell_text(Summary((0.25, 0.27), 0.26, 0.26, 0.01), 2) == "0.26 (0.26 ± 0.010)"
    assert cell_text(Summary((0.25,), 0.25, 0.25, None), 2) == "0.25"
