import numpy as np
import pytest

from deeplfm.data.toy import toy_system
from deeplfm.experiments.demo import SPLITS, DemoResult
from deeplfm.experiments.scores import ScoreRow
from deeplfm.plots import toy_figure

MODELS = ("GP", "DGP-EQ", "DLFM")


@pytest.fixture
def result(gaussian):
    def make(std=0.5):
        data = toy_system()
        posterior = gaussian(data.standardised(data.clean), std)
        rows = [
            ScoreRow(name, split, "0", 0, 0.25 + i, 1.5, 0.9, 1.0)
            for i, name in enumerate(MODELS)
            for split in SPLITS
        ]
        return DemoResult(data, dict.fromkeys(MODELS, posterior), rows, {})

    return make


def test_three_panels_with_scores_and_one_legend(result, tmp_path):
    figure = toy_figure(result())
    assert len(figure.axes) == 3
    assert len(figure.legends) == 1
    assert all(ax.get_legend() is None for ax in figure.axes)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert all(title.startswith("gap: MNLL") for title in titles)
    assert "extrapolation: NMSE 2.25, MNLL 1.50, coverage 90%" in titles[2]
    assert [text.get_text() for ax in figure.axes for text in ax.texts] == list(MODELS)
    path = tmp_path / "toy.png"
    figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000


def test_both_kinds_of_test_rows_are_drawn_with_the_gap(result, drawn):
    made = result()
    data, found = made.data, drawn(toy_figure(made).axes[0])
    for name, rows in (
        ("training data", data.train),
        ("interpolation test", data.interpolation),
        ("extrapolation test", data.extrapolation),
    ):
        np.testing.assert_array_equal(found[name].get_xdata(), data.time[rows])
    assert {"gap in the training data", "end of the training data"} < set(found)


def test_an_enormous_interval_does_not_flatten_the_data(result):
    made = result(std=1e6)
    limits = {ax.get_ylim() for ax in toy_figure(made).axes}
    ((low, high),) = limits
    value = made.data.outputs
    assert high - low < 4 * np.ptp(value)
    assert low < value.min() and value.max() < high
