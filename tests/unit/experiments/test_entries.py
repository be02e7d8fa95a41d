"""Models of the experiments: settings, quick looks, and comparators that are not there."""

import pytest

from deeplfm.estimators.candidates import models_of
from deeplfm.experiments import models
from deeplfm.experiments.models import (
    NotAvailableError,
    comparator,
    deep_gp,
    dlfm,
    ensemble,
    paper_dlfm,
)
from deeplfm.terms import DeepTable, Dlfm, Paper


class Trees:
    def __init__(self, depth=3, n_steps=100, random_state=0, time_limit=None):
        self.depth, self.n_steps = depth, n_steps
        self.random_state, self.time_limit = random_state, time_limit


class Plain:
    pass


class Broken(dict):
    def __getitem__(self, name):
        raise ImportError("no module named forest")


def build(entry, is_quick=False, budget=9.0):
    return entry.build(seed=5, is_quick=is_quick, budget=budget)


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(models, "BASELINES", {"trees": Trees, "plain": Plain})


def test_a_comparator_is_given_what_it_takes(registry):
    made = build(comparator("trees", depth=7))
    assert vars(made) == {"depth": 7, "n_steps": 100, "random_state": 5, "time_limit": 9.0}
    assert isinstance(build(comparator("plain")), Plain)
    assert build(comparator("trees"), is_quick=True).n_steps < 10


def test_a_missing_comparator_is_an_error_when_it_is_built(registry, monkeypatch):
    entries = [comparator("moss"), comparator("plain", depth=2)]
    with pytest.raises(NotAvailableError, match=r"named 'moss'\. Known: trees, plain"):
        build(entries[0])
    with pytest.raises(NotAvailableError, match="plain has no setting depth"):
        build(entries[1])
    monkeypatch.setattr(models, "BASELINES", Broken(trees=None))
    with pytest.raises(NotAvailableError, match="trees cannot be imported: no module named forest"):
        build(comparator("trees"))


def test_a_deep_gp_is_trained_as_published_and_as_ours(registry, monkeypatch):
    class Deep(Plain):
        def __init__(self, follows_paper=True, hidden=(3,), compile=False, time_limit=None):
            self.follows_paper, self.hidden, self.time_limit = follows_paper, hidden, time_limit

    monkeypatch.setitem(models.BASELINES, "deep", Deep)
    entries = deep_gp("deep", "D", hidden=(3, 3))
    assert [entry.label for entry in entries] == ["deep (paper)", "deep"]
    assert [build(entry).follows_paper for entry in entries] == [True, False]
    assert {build(entry).hidden for entry in entries} == {(3, 3)}
    assert [build(entry).time_limit for entry in entries] == [None, 9.0]


def test_the_ensemble_has_the_default_settings_and_the_budget_for_each_candidate():
    model = build(ensemble("series"))
    assert (model.model, model.n_steps) == ("ensemble", None)
    assert model.time_limit == len(models_of("ensemble", is_series=True)) * 9.0
    assert build(ensemble("table")).time_limit == 3 * 9.0
    assert build(ensemble("series"), budget=None).time_limit is None


@pytest.mark.parametrize(("kind", "is_series"), [("series", True), ("table", False)])
def test_the_sizes_of_an_ensemble_are_those_of_its_deep_member(kind, is_series):
    model = build(ensemble(kind, hidden=(3, 3)))
    usual, sized = (models_of(item, is_series) for item in ("ensemble", model.model))
    assert list(sized) == list(usual)
    assert [name for name in sized if sized[name] != usual[name]] == ["deep"]
    deep = sized["deep"].terms[0] if is_series else sized["deep"]
    assert deep.hidden == (3, 3)
    assert model.time_limit == build(ensemble(kind)).time_limit


def test_a_dlfm_is_one_model_with_hidden_layers():
    for kind, declared in (("series", Dlfm()), ("table", DeepTable())):
        model = build(dlfm(kind))
        assert (model.model, model.time_limit) == (declared, None)
    paper = build(paper_dlfm(n_forces=2, n_features=50))
    assert paper.model == Paper(n_forces=2, n_features=50)
    assert (paper.time_limit, paper.n_steps) == (None, None)  # all its steps, whatever the budget


@pytest.mark.parametrize("kind", ["series", "table"])
def test_a_quick_run_trains_a_few_steps(kind):
    assert build(ensemble(kind), is_quick=True).n_steps <= 5
    assert len(build(ensemble(kind), is_quick=True).model) == 2
    assert build(dlfm(kind), is_quick=True).model.has_hidden_layer
    assert build(paper_dlfm(), is_quick=True).model.n_features == 10
