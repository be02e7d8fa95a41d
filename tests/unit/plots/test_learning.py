import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from deeplfm.plots import learning_figure, plot_learning


def history(**losses):
    rows = [(s, i, x) for s, values in losses.items() for i, x in enumerate(values, 1)]
    return pd.DataFrame(rows, columns=["candidate", "step", "loss"])


def falling(end, n_steps=40, first=5.0):
    return end + (first - end) * np.exp(-np.arange(n_steps) / 5)


def test_every_candidate_has_a_line_and_a_place_in_the_legend():
    ax = Figure().add_subplot()
    one, two = falling(1.0), falling(2.0, n_steps=20)
    assert plot_learning(ax, history(one=one, two=two)) is ax
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["one"].get_ydata(), one)
    np.testing.assert_array_equal(lines["two"].get_xdata(), np.arange(1, 21))
    (legend,) = learning_figure(history(one=one, two=two)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]


def test_a_candidate_that_stays_far_above_does_not_flatten_the_others():
    ax = Figure().add_subplot()
    plot_learning(ax, history(a=falling(1.0), b=falling(1.1), wild=falling(1e6)))
    assert ax.get_ylim()[1] < 10


def test_the_fall_of_the_first_steps_is_cut():
    ax = Figure().add_subplot()
    plot_learning(ax, history(a=falling(1.0, n_steps=100, first=1e6)[:1].tolist() + [2.0] * 99))
    assert ax.get_ylim()[1] < 10


def test_a_noisy_loss_is_smoothed_over_every_step():
    noise = np.random.default_rng(0).normal(size=2000)
    ax = Figure().add_subplot()
    plot_learning(ax, history(noisy=3 + noise))
    every, strong = ax.lines
    np.testing.assert_allclose(every.get_ydata(), 3 + noise)
    assert strong.get_label() == "noisy"
    assert np.std(strong.get_ydata()) < 0.3
    window = 3 + noise[1000 - 20 : 1000 + 21]
    assert strong.get_ydata()[1000] == pytest.approx(window.mean())


def test_a_loss_that_became_nan_is_drawn_as_far_as_it_went():
    ax = Figure().add_subplot()
    plot_learning(ax, history(a=[3.0, 2.0, np.nan], b=[np.nan], c=[1.0]))
    assert [line.get_label() for line in ax.lines] == ["a", "c"]


def test_an_empty_history_makes_an_empty_panel():
    figure = learning_figure(history(), title="Nothing trained")
    assert figure.axes[0].lines[:] == []
    assert figure.get_suptitle() == "Nothing trained"
