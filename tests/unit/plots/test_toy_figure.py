import numpy as np

from deeplfm.data.simulated import toy_system
from deeplfm.plots import toy_figure

MODELS = ("GP", "DGP-EQ", "DLFM")
DATA = toy_system()


def figure_of(gaussian, std=0.5):
    posterior = gaussian(DATA.standardised(DATA.clean), std)
    return toy_figure(
        DATA, dict.fromkeys(MODELS, posterior), {name: f"NMSE of {name}" for name in MODELS}
    )


def test_three_panels_with_titles_and_one_legend(gaussian, tmp_path):
    figure = figure_of(gaussian)
    assert len(figure.axes) == 3
    assert len(figure.legends) == 1
    assert all(ax.get_legend() is None for ax in figure.axes)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [f"NMSE of {m}" for m in MODELS]
    assert [text.get_text() for ax in figure.axes for text in ax.texts] == list(MODELS)
    path = tmp_path / "toy.png"
    figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000


def test_both_kinds_of_test_rows_are_drawn_with_the_gap(gaussian, drawn):
    found = drawn(figure_of(gaussian).axes[0])
    for name, rows in (
        ("training data", DATA.train),
        ("interpolation test", DATA.interpolation),
        ("extrapolation test", DATA.extrapolation),
    ):
        np.testing.assert_array_equal(found[name].get_xdata(), DATA.time[rows])
    assert {"gap in the training data", "end of the training data"} < set(found)


def test_an_enormous_interval_does_not_flatten_the_data(gaussian):
    ((low, high),) = {ax.get_ylim() for ax in figure_of(gaussian, std=1e6).axes}
    value = DATA.outputs
    assert high - low < 4 * np.ptp(value)
    assert low < value.min() and value.max() < high
