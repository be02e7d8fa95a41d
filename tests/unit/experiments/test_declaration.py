"""Declarations: published numbers, models chosen by name, splits."""

import numpy as np
import pytest
from tiny_experiment import entry, experiment

from deeplfm.errors import ConfigError
from deeplfm.experiments.declaration import (
    Published,
    Split,
    paper_table,
    rows_between,
    series_split,
)


def test_published_numbers_keep_their_digits():
    assert Published.of("1.00 (0.0003)") == Published("1.00 (0.0003)", 1.0, 0.0003)
    assert Published.of("-0.017 (0.005)").value == -0.017
    assert Published.of("0.07").error is None
    for wrong in ("0.07 (", "N/A", "0.0.7", "0.07 0.1"):
        with pytest.raises(ConfigError, match="published number"):
            Published.of(wrong)


def test_a_row_of_the_paper_has_a_cell_for_each_column():
    table = paper_table(("x", "y"), {"A": "1 | N/A", "B": "2 | 3 (0.5)"})
    assert {label: set(row) for label, row in table.items()} == {"A": {"x"}, "B": {"x", "y"}}
    with pytest.raises(ConfigError, match="3 cells for 2 columns"):
        paper_table(("x", "y"), {"A": "1 | 2 | 3"})


def test_models_are_chosen_by_name_whatever_its_case():
    whole = experiment(entry("GP"), entry("DLFM"), entry("DNN"))
    assert [item.label for item in whole.only(["dnn", "GP"]).models] == ["GP", "DNN"]
    with pytest.raises(ConfigError, match=r"has no 'tree'\. Choose from 'GP', 'DLFM', 'DNN'"):
        whole.only(["GP", "tree"])


def test_a_series_is_standardised_by_what_is_known():
    time = np.arange(6.0)
    value = np.array([[1.0, 5], [3, 9], [1, 7], [3, 7], [9, 0], [9, 0]])
    hidden = rows_between(2, 4, value.shape, column=1)
    train = rows_between(0, 4, value.shape) & ~hidden
    split = series_split(time, value, ("a", "b"), train, {"gap": hidden})
    assert np.nanmean(split.y_train, axis=0) == pytest.approx([0, 0])
    assert split.y_train[:, 0] == pytest.approx([-1, 1, -1, 1])
    assert np.isnan(split.y_train[2:, 1]).all()
    assert split.x_train[:, 0].tolist() == [0, 1, 2, 3]
    assert split.x_test["gap"][:, 0].tolist() == [2, 3]
    assert np.isnan(split.y_test["gap"][:, 0]).all()
    assert not split.is_noise_free


def test_truth_without_noise_is_in_the_units_of_the_observations():
    time, value = np.arange(4.0), np.array([[0.0], [2], [4], [2]])
    train = rows_between(0, 4, value.shape)
    split = series_split(time, value, ("a",), train, {"test": train}, truth=value + 2)
    assert split.is_noise_free
    assert split.y_test["test"] - split.y_train == pytest.approx(np.sqrt(2))
    raw = series_split(time, value, ("a",), train, {"test": train}, is_standardised=False)
    assert (raw.y_train == value).all()


def test_a_quick_look_takes_few_rows_of_a_table_and_all_of_a_series():
    def split(n_inputs):
        x, y = np.zeros((1000, n_inputs)), np.zeros((1000, 1))
        return Split(x, y, {"test": x}, {"test": y}, ("a",)).shortened()

    assert len(split(1).x_train) == 1000
    assert len(split(2).x_train) == len(split(2).y_train) < 1000
    assert len(split(2).x_test["test"]) == 1000
