"""What depth is worth, from records whose scores are known."""

from dataclasses import replace

from tiny_experiment import entry

from deeplfm.experiments.declaration import Case, Column, Experiment
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.verdicts import depth_table

SCORES = {"LFM: a": 0.5, "LFM: b": 0.4, "DLFM": 0.3, "DLFM (paper)": 2.0, "ensemble": 0.2}


def outcome(without: str = "") -> Outcome:
    kinds = {"LFM: a": False, "LFM: b": False, "DLFM": True, "DLFM (paper)": True, "ensemble": None}
    models = tuple(replace(entry(k), has_hidden_layer=v) for k, v in kinds.items() if k != without)
    columns = (Column("NMSE", "nmse", ("one",)), Column("MNLL", "mnll", ("one",)))
    experiment = Experiment(
        "tiny", "Tiny", "here", (Case("one", lambda seed: None),), models, columns
    )
    rows = {"split": "test", "output": "y", "coverage95": 0.95}
    records = [
        {
            "case": "one",
            "model": item.label,
            "seed": seed,
            "status": "done",
            "rows": [rows | {"nmse": SCORES[item.label] + seed / 100, "mnll": SCORES[item.label]}],
            "seconds": {"fit": 1.0},
            "hidden_share": 0.5 + seed / 10 if item.label == "DLFM" else None,
        }
        for item in models
        for seed in range(3)
    ]
    return Outcome(experiment, records, 3)


def test_the_best_of_each_kind_is_in_the_table() -> None:
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in depth_table(outcome())[:5]
    ]
    heading, _, *rows = cells
    assert heading == ["what depth is worth", "model", "NMSE", "MNLL", "hidden share"]
    assert rows == [
        ["without a hidden layer", "LFM: b", "0.41", "0.40", "0 %"],
        ["with hidden layers", "DLFM", "0.31", "0.30", "60 %"],
        ["ensemble", "ensemble", "0.21", "0.20", "–"],
    ]


def test_without_one_of_the_kinds_there_is_no_table() -> None:
    found = outcome()
    shallow = tuple(item for item in found.experiment.models if not item.has_hidden_layer)
    experiment = replace(found.experiment, models=shallow)
    assert depth_table(replace(found, experiment=experiment)) == []
