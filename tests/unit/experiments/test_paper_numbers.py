"""The paper's experiments: the numbers that were typed in, and which rows are trained and tested on."""

import numpy as np
import pandas as pd
import pytest

from deeplfm.data.uci import Fold
from deeplfm.errors import ConfigError, InputError
from deeplfm.experiments.catalogue import EXPERIMENTS, declared, takes_substitute
from deeplfm.terms import Paper, Reference

# Counts and sums of all numbers and of all standard errors, taken from the text of the paper.
TOTALS = {
    "toy": (4, 9.0, 0, 0.0),
    "charis-extrapolation": (36, 84.61, 36, 17.6552),
    "charis-imputation": (36, 93.43, 36, 19.4062),
    "charis-two-hidden": (27, 113.63, 27, 6.2713),
    "uci": (18, 7.7077, 18, 0.0821),
    "uci-two-hidden": (14, 5.0468, 14, 0.185),
    "fitzhugh-nagumo": (6, 0.63, 0, 0.0),
    "lorenz": (4, 4.16, 0, 0.0),
    "neural-processes": (9, 14.21, 0, 0.0),
    "hyperparameters": (16, 20.14, 0, 0.0),
}


@pytest.fixture
def signals(monkeypatch):
    """Stands in for both recordings: value = row number, plus 10 000 for each column."""

    def load(name):
        outputs = {"charis": ("ABP_mmHg", "ECG_mV", "ICP_mmHg")}.get(
            name, ("ABP_mmHg", "ECG_mV", "RESP_au")
        )
        rows = np.arange(1000 if name == "charis" else 5000)
        columns = {output: rows + 10_000.0 * d for d, output in enumerate(outputs)}
        return pd.DataFrame({"time_s": rows / 50, **columns})

    monkeypatch.setattr("deeplfm.data.catalogue.load", load)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_papers_numbers_add_up(name):
    published = [cell for row in declared(name).paper.values() for cell in row.values()]
    errors = [cell.error for cell in published if cell.error is not None]
    found = (len(published), sum(cell.value for cell in published), len(errors), sum(errors))
    assert found == pytest.approx(TOTALS[name])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_row_and_column_of_the_paper_has_its_place(name):
    experiment = declared(name)
    assert {entry.paper for entry in experiment.models} - {None} == set(experiment.paper)
    headings = {column.label for column in experiment.columns}
    assert all(set(row) <= headings for row in experiment.paper.values())
    cases = {case.name for case in experiment.cases}
    assert {case for column in experiment.columns for case in column.cases} == cases
    labels = [entry.label for entry in experiment.models]
    assert len(set(labels)) == len(labels)
    assert not any("," in label for label in labels)  # which separates them on the command line
    assert set(experiment.drawn) <= set(labels)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_ensemble_dlfm_and_the_papers_dlfm_are_rows_of_every_table(name):
    def built(label):
        found = [entry for entry in declared(name).models if entry.label.startswith(label)]
        return found, [entry.build(seed=7, is_quick=False, budget=30.0) for entry in found]

    ensembles, models = built("ensemble")
    assert models and all(model.model == "ensemble" or len(model.model) > 2 for model in models)
    assert not any(entry.paper for entry in ensembles)  # the paper has no ensemble
    deep, models = built("DLFM")
    assert {model.random_state for model in models} == {7}
    for entry, model in zip(deep, models, strict=True):
        is_published = entry.label.startswith("DLFM (")
        assert is_published == isinstance(model.model, Paper | Reference)
        assert model.time_limit is None
        assert is_published or model.model.has_hidden_layer
        assert entry.paper


def rows_of(split, part):
    """Rows and columns of the signals that are tested."""
    tested = ~np.isnan(split.y_test[part])
    rows = np.round(50 * split.x_test[part][:, 0]).astype(int)
    return {d: rows[tested[:, d]].tolist() for d in range(tested.shape[1])}


@pytest.mark.parametrize("substitute", [None, "mimic"])
def test_extrapolation_trains_on_700_rows_and_predicts_300(signals, substitute):
    for name in ("charis-extrapolation", "charis-two-hidden", "hyperparameters"):
        (case,) = declared(name, substitute).cases
        split = case.load(0)
        tested = list(range(700, 1000))
        assert rows_of(split, "extrapolation") == {0: tested, 1: tested, 2: tested}
        assert split.y_train.shape == (700, 3)
        assert split.x_train[-1] == pytest.approx(699 / 50)
        assert split.y_train.mean(0) == pytest.approx(0, abs=1e-12)
        assert split.y_train.std(0) == pytest.approx(1)


def test_imputation_removes_a_block_of_each_signal(signals):
    (case,) = declared("charis-imputation").cases
    split = case.load(0)
    first = {0: 200, 1: 400, 2: 600}
    blocks = {d: list(range(row, row + 150)) for d, row in first.items()}
    assert rows_of(split, "imputation") == blocks
    assert split.y_train.shape == (1000, 3)
    for d, rows in blocks.items():
        assert np.flatnonzero(np.isnan(split.y_train[:, d])).tolist() == rows
    # standardised by the 850 rows that are known
    kept = np.setdiff1d(np.arange(1000.0), blocks[0])
    expected = (np.array(blocks[0]) - kept.mean()) / kept.std()
    tested = split.y_test["imputation"][:, 0]
    assert tested[~np.isnan(tested)] == pytest.approx(expected)


def test_neural_processes_see_each_signal_alone(signals):
    experiment = declared("neural-processes")
    assert [case.name for case in experiment.cases] == ["ABP", "ECG", "ICP"]
    for case in experiment.cases:
        split = case.load(0)
        assert split.outputs == (case.name,)
        assert (len(split.x_train), len(split.x_test["extrapolation"])) == (500, 500)


def test_a_substitute_is_named_and_leaves_out_what_it_cannot_stand_for(signals):
    for name in filter(takes_substitute, EXPERIMENTS):
        experiment = declared(name, "mimic")
        assert experiment.warning == "MIMIC 037, not CHARIS"
        assert experiment.paper_heading == "paper (CHARIS)"
        assert "MIMIC 037" in experiment.title
        assert declared(name).warning == ""
    extrapolation = declared("charis-extrapolation", "mimic")
    paper = [extrapolation.published(extrapolation.models[1], c) for c in extrapolation.columns]
    assert [cell is None for cell in paper] == [False] * 4 + [True] * 2


def test_data_that_cannot_be_had_say_what_to_do(monkeypatch):
    def load(name):
        raise InputError(f"data set {name}: not found here.")

    monkeypatch.setattr("deeplfm.data.catalogue.load", load)
    with pytest.raises(InputError, match=r"charis: not found here\. Or add --substitute mimic"):
        declared("charis-imputation").cases[0].load(0)
    with pytest.raises(InputError, match=r"mimic-037: not found here\.$"):
        declared("charis-imputation", "mimic").cases[0].load(0)


def test_the_nerve_is_scored_against_the_solution():
    whole, end = (case.load(1) for case in declared("fitzhugh-nagumo").cases)
    assert whole.is_noise_free and end.is_noise_free
    assert (len(whole.x_train), len(whole.x_test["test"])) == (400, 400)
    assert (len(end.x_train), len(end.x_test["test"])) == (300, 100)
    noise = whole.y_train - whole.y_test["test"]
    # in the units of the equation; 800 draws are within 0.1 of 0.25 but for one in ten million seeds
    assert noise.var() == pytest.approx(0.25, abs=0.1)
    assert end.x_test["test"].min() > end.x_train.max()


def test_the_table_states_that_the_constrained_process_is_given_the_equation():
    (note,) = (note for note in declared("fitzhugh-nagumo").notes if "C-DGP" in note)
    assert "uses the form of the equation" in note
    assert "the most likely hidden layer" in note and "integrating the equation" in note


def test_each_seed_takes_another_path_of_the_attractor():
    most, nearly_all = declared("lorenz").cases
    assert (len(most.load(0).x_train), len(most.load(0).x_test["test"])) == (800, 200)
    assert (len(nearly_all.load(0).x_train), len(nearly_all.load(0).x_test["test"])) == (980, 20)
    starts = {tuple(most.load(seed).y_train[0]) for seed in range(5)}
    assert len(starts) == 5


def test_folds_set_one_percent_aside_for_validation(monkeypatch):
    def load(name, fold):
        x = np.arange(1000.0)[:, None] * [1, 1]
        one = np.ones(2)
        test = -np.ones((10, 2))
        return Fold(
            ("u", "v"), "w", x, x[:, :1], test, test[:, :1], one, one, y_mean=0.0, y_std=1.0
        )

    monkeypatch.setattr("deeplfm.data.catalogue.load", load)
    experiment = declared("uci")
    assert len(experiment.cases) == 6
    split = experiment.cases[0].load(0)
    assert (len(split.x_train), len(split.x_test["validation"])) == (990, 10)
    both = np.concatenate([split.x_train, split.x_test["validation"]])[:, 0]
    assert sorted(both) == list(range(1000))
    assert (split.y_train == split.x_train[:, :1]).all()
    assert (split.x_test["test"] == -1).all()
    again = experiment.cases[0].load(1)
    assert (again.x_train == split.x_train).all()  # seeds differ in the model alone


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match=r"'moon' is not known\. Choose from toy, charis"):
        declared("moon")
    with pytest.raises(ConfigError, match="toy is not on CHARIS and needs none"):
        declared("toy", "mimic")
    with pytest.raises(ConfigError, match=r"'sun' is not known\. Choose mimic"):
        declared("charis-imputation", "sun")
