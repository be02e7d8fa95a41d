from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from deeplfm.errors import InputError
from deeplfm.plots.style import (
    COLOURS,
    entitle,
    finished,
    limit_y,
    line_style,
    lowest,
    panels,
    shortened,
)


@pytest.mark.parametrize(
    ("n_panels", "shape"), [(1, (1, 1)), (4, (4, 1)), (5, (3, 2)), (12, (4, 3)), (20, (7, 3))]
)
def test_grids_grow_sideways_before_they_are_too_high(n_panels, shape):
    figure, axes = panels(n_panels)
    assert len(axes) == len(figure.axes) == n_panels
    grid = axes[0].get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == shape


def test_the_lowest_panel_of_each_column_has_numbers_below_it():
    _, axes = panels(5)  # the last row has a hole
    assert lowest(axes) == [axes[4], axes[3]]
    shown = [bool(ax.xaxis.get_tick_params()["labelbottom"]) for ax in axes]
    assert shown == [False, False, False, True, True]


def test_no_panels_are_refused():
    with pytest.raises(InputError, match="nothing to draw"):
        panels(0)


def test_neighbouring_lines_differ_in_colour_and_in_dashes():
    styles = [line_style(number) for number in range(35)]
    assert len({(style["color"], str(style["linestyle"])) for style in styles}) == 35
    for one, next_one in pairwise(styles):
        assert one["color"] != next_one["color"] and one["linestyle"] != next_one["linestyle"]
    brightness = [to_rgb(colour) @ np.array([0.2126, 0.7152, 0.0722]) for colour in COLOURS]
    assert max(brightness) < 0.75  # all are seen on white


def test_one_legend_names_everything_once():
    figure, axes = panels(3)
    for ax in axes:
        ax.plot([0, 1], label="mean")
    axes[1].plot([1, 0], label="gap")
    finished(figure, "All")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["mean", "gap"]
    assert figure.get_suptitle() == "All"
    assert all(ax.get_legend() is None for ax in axes)


def test_a_high_legend_makes_the_figure_higher():
    figure, (ax,) = panels(1)
    before = figure.get_figheight()
    for number in range(24):
        ax.plot([0, 1], label=f"a long name of an output, number {number}")
    finished(figure)
    figure.draw_without_rendering()
    assert figure.get_figheight() > before + 1
    assert ax.get_window_extent().height / figure.dpi > 0.5 * before


@pytest.mark.parametrize(
    "name", ["short", "word " * 60 + "end", "no_spaces_" * 40 + "end", "$x$ $"]
)
@pytest.mark.parametrize("n_panels", [1, 12])
def test_names_of_any_length_stay_above_their_panel(name, n_panels):
    figure, axes = panels(n_panels)
    for ax in axes:
        entitle(ax, name)
    figure.draw_without_rendering()
    for ax in axes:
        title = ax._left_title
        assert title.get_text().count("\n") <= 1
        assert title.get_text().replace("\\", "").endswith(name[-3:])
        assert title.get_window_extent().width <= 1.1 * ax.get_window_extent().width


def test_the_middle_of_a_long_text_is_left_out():
    assert shortened("pressure at the left radial artery 2", 24) == "pressure … artery 2"
    assert shortened("abp", 24) == "abp"
    assert len(shortened("x" * 100, 24)) <= 24


def test_all_data_are_shown_and_at_most_as_much_again():
    ax = Figure().add_subplot()
    ax.plot([-1e6, 1e6])
    limit_y(ax, [np.array([0.0, np.nan, 2.0])])
    assert ax.get_ylim() == (-2.0, 4.0)


def test_what_fits_is_not_cut_and_constant_data_have_room():
    ax = Figure().add_subplot()
    ax.set_ylim(-1, 3)
    limit_y(ax, [np.array([0.0, 2.0])])
    assert ax.get_ylim() == (-1, 3)
    ax.set_ylim(-100, 100)
    limit_y(ax, [np.array([5.0, 5.0])])
    low, high = ax.get_ylim()
    assert 4 < low < 5 < high < 6
    limit_y(ax, [np.array([np.nan])])
    assert ax.get_ylim() == (low, high)
