"""Figures: models side by side, outputs below each other, and training curves of tables."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_experiment import entry, experiment, load

from deeplfm import DeepLFMRegressor
from deeplfm.experiments import scores as curves
from deeplfm.experiments.declaration import Column, Split
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.results import figures, series_figure
from deeplfm.experiments.scores import validation_curve
from deeplfm.experiments.tasks import DONE, Drawing


def flat(value):
    mean = np.full((12, 2), value)
    return Drawing(mean, {0.95: mean - 1}, {0.95: mean + 1})


def test_a_column_for_each_model_and_a_row_for_each_output():
    figure = series_figure(load(0), {"GP": flat(0.0), "DLFM": flat(5.0)}, "Both")
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["GP: a", "DLFM: a", "GP: b", "DLFM: b"]
    first, second, *_ = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert figure.get_suptitle() == "Both"


def curve(*scores):
    return [
        {"step": 10 * i, "nmse": score, "mnll": -score} for i, score in enumerate(scores, start=1)
    ]


def test_training_curves_are_means_over_folds_as_far_as_all_have_come(tmp_path):
    cases = ("fold 1", "fold 2")
    tiny = experiment(
        entry("ours"),
        entry("silent"),
        cases=cases,
        drawn=("ours", "silent"),
        columns=(Column("NMSE", "nmse", cases), Column("MNLL", "mnll", cases)),
    )
    records = [
        {"model": model, "case": case, "seed": 0, "status": DONE, "curve": points}
        for model, case, points in (
            ("ours", "fold 1", curve(4.0, 2.0, 1.0)),
            ("ours", "fold 2", curve(2.0, 1.0)),
            ("silent", "fold 1", []),
        )
    ]
    figure = figures(Outcome(tiny, records, n_seeds=1), [], tmp_path)["training"]
    (line,) = figure.axes[0].lines
    assert line.get_xdata() == pytest.approx([10, 20])
    assert line.get_ydata() == pytest.approx([3.0, 1.5])
    (mnll,) = figure.axes[1].lines
    assert mnll.get_ydata() == pytest.approx([-3.0, -1.5])


def table_split():
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = x[:, :1] - x[:, 1:]
    parts = {"validation": slice(40, 60)}
    return Split(
        x_train=x[:40],
        y_train=y[:40],
        x_test={part: x[rows] for part, rows in parts.items()},
        y_test={part: y[rows] for part, rows in parts.items()},
        outputs=("y",),
    )


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_curve_is_of_the_kernels_that_the_model_was_fitted_with(monkeypatch, is_compiled):
    asked = []
    monkeypatch.setattr(
        curves, "compiled_kernels", lambda wanted: nullcontext(asked.append(wanted))
    )
    model = DeepLFMRegressor(model="table", n_steps=1, compile=is_compiled)
    assert validation_curve(model, table_split(), seed=0)
    assert asked == [is_compiled]


def test_a_curve_follows_the_training_of_our_model_alone():
    model = DeepLFMRegressor(model="table", n_steps=3)
    points = validation_curve(model, table_split(), seed=0)
    assert [point["step"] for point in points] == [1, 2, 3]
    assert all(np.isfinite([point["nmse"], point["mnll"]]).all() for point in points)
    wrapper = SimpleNamespace(regressor_=model)
    assert validation_curve(wrapper, table_split(), seed=0) == points
    assert validation_curve(torch.nn.Linear(1, 1), table_split(), seed=0) == []
    assert validation_curve(model, load(0), seed=0) == []
