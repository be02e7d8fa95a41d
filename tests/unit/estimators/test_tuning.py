"""Tuning: what is tried, what is kept, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deeplfm import ConfigError, DeepLFMForecaster, InputError, compare, tune
from deeplfm.estimators import tuning

pytest.importorskip("optuna")

BASE = DeepLFMForecaster(n_steps=2, progress=False)
MODELS = {"model": ["trend", "trend + season(12)"]}


def series(n_rows: int = 48, scale: float = 1.0) -> pd.DataFrame:
    month = np.arange(n_rows)
    load = 50 + 9 * np.sin(month * 2 * np.pi / 12) + np.random.default_rng(0).normal(size=n_rows)
    return pd.DataFrame({"month": month, "load": scale * load})


SETTING = {"folds": 2, "base": BASE, "time": "month", "targets": "load", "progress": False}


def test_every_combination_is_tried_once_and_scored_as_compare_does() -> None:
    space = {**MODELS, "log_targets": [None, False]}
    found = tune(space, series(), **SETTING)
    assert len(found.table) == 4 and not found.table[["model", "log_targets"]].duplicated().any()
    assert found.best.model == "trend + season(12)" == found.table["model"].iloc[0]
    assert found.table["score"].is_monotonic_increasing
    models = {text: DeepLFMForecaster(text, n_steps=2, progress=False) for text in MODELS["model"]}
    crps = compare(models, series(), folds=2, time="month", targets="load")["crps"]["load"]
    expected = crps / series()["load"].std()
    for _, row in found.table.iterrows():
        assert row["score"] == pytest.approx(expected[row["model"]])


def test_a_study_goes_on_where_it_was(tmp_path, monkeypatch) -> None:
    storage, calls = tmp_path / "study.db", []
    plain = tuning._outcome

    def counted(model, *arguments):
        calls.append(model.model)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(model, *arguments)

    monkeypatch.setattr(tuning, "_outcome", counted)
    with pytest.raises(KeyboardInterrupt):
        tune(MODELS, series(), storage=storage, **SETTING)
    found = tune(MODELS, series(), storage=storage, **SETTING)
    assert calls == ["trend", "trend + season(12)", "trend + season(12)"]
    pd.testing.assert_frame_equal(
        found.table, tune(MODELS, series(), storage=storage, **SETTING).table
    )
    with pytest.raises(InputError, match="holds trials of other data or settings"):
        tune(MODELS, series(60), storage=storage, **SETTING)


def test_numbers_are_drawn_from_their_range() -> None:
    found = tune({"n_steps": (1, 3)}, series(), n_trials=3, **SETTING)
    assert found.table["n_steps"].between(1, 3).all() and len(found.table) == 3
    assert found.best.n_steps == found.table["n_steps"].iloc[0]


def test_a_score_of_several_series_is_their_mean_in_their_own_units() -> None:
    long = pd.concat([series().assign(name="a"), series(scale=100.0).assign(name="b")])
    both = tune({"model": ["trend"]}, long, series="name", **SETTING).table["score"][0]
    alone = tune({"model": ["trend"]}, series(), **SETTING).table["score"][0]
    assert both == pytest.approx(alone, rel=1e-6)


def test_a_trial_that_fails_is_a_row_and_not_the_end() -> None:
    found = tune({"model": ["no such model", "trend"]}, series(), **SETTING)
    assert found.best.model == "trend"
    assert "no such model" in found.table["failed"].iloc[1]
    with pytest.raises(InputError, match="all 1 trials failed"):
        tune({"model": ["no such model"]}, series(), **SETTING)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": {}}, "space: it is empty"),
        ({"space": {"modle": ["trend"]}}, "'modle' is no parameter"),
        ({"space": {"n_steps": (3, 1)}}, "n_steps is"),
        ({"score": "coverage95"}, "score: 'coverage95' found"),
        ({"n_trials": 0}, "n_trials: 0 found"),
        ({"series": "name"}, "no column 'name'"),
    ],
)
def test_what_has_no_meaning_is_refused(change, message) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        tune(**{"space": MODELS, "frame": series(), **SETTING, **change})
