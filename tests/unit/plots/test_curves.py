import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from deeplfm.errors import InputError
from deeplfm.inspection.forces import Curve
from deeplfm.plots import components_figure, forces_figure, hidden_figure, plot_curve

TIME = np.linspace(0, 5, 51)


SINE = np.sin(TIME)
WIDENING = 0.1 + TIME / 10


def curve(label, member="pursuit", mean=SINE, std=WIDENING):
    return Curve(label, member, np.asarray(mean), np.asarray(std))


def band(ax):
    return ax.collections[0]


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_the_band_holds_the_curve_with_its_probability(edges, coverage):
    ax = Figure().add_subplot()
    assert plot_curve(ax, TIME, curve("abp"), coverage=coverage) is ax
    reach = norm.isf((1 - coverage) / 2) * (0.1 + TIME / 10)
    low, high = edges(band(ax), TIME)
    np.testing.assert_allclose((low, high), (np.sin(TIME) - reach, np.sin(TIME) + reach))
    (line,) = ax.lines
    assert line.get_label() == "abp"
    np.testing.assert_array_equal(line.get_ydata(), np.sin(TIME))


@pytest.mark.parametrize("n_outputs", [1, 3, 12])
def test_every_force_has_its_panel_and_every_model_its_look(n_outputs):
    members = ["pursuit", "deep"]
    curves = [curve(f"output {d}", member) for member in members for d in range(n_outputs)]
    figure = forces_figure(TIME, curves, time_label="hours")
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        f"output {d}" for d in range(n_outputs)
    ]
    for ax in figure.axes:
        assert [line.get_label() for line in ax.lines] == members
        assert len({line.get_color() for line in ax.lines}) == 2
        assert len({line.get_linestyle() for line in ax.lines}) == 2
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {*members, "95 % band"}
    assert figure.axes[-1].get_xlabel() == "hours"


def test_a_model_looks_the_same_in_all_panels():
    figure = forces_figure(TIME, [curve("a", "one"), curve("b", "two"), curve("b", "one")])
    colours = {(line.get_label(), line.get_color()) for ax in figure.axes for line in ax.lines}
    assert len(colours) == 2


def test_a_band_that_is_wide_everywhere_is_seen_and_one_that_explodes_is_cut():
    wide = forces_figure(TIME, [curve("a", mean=0 * TIME, std=np.full(51, 10.0))]).axes[0]
    assert wide.get_ylim()[0] < -19.6 and wide.get_ylim()[1] > 19.6
    std = np.where(TIME > 4.5, 1e6, 0.1)
    cut = forces_figure(TIME, [curve("a", std=std)]).axes[0]
    assert -5 < cut.get_ylim()[0] < -1 and 1 < cut.get_ylim()[1] < 5


def test_every_layer_of_every_model_has_its_panel_and_every_unit_a_line():
    curves = [
        curve(f"layer {layer}, unit {unit}", member, mean=unit * np.sin(TIME) + layer)
        for member, depth in (("deep", 2), ("warped", 1))
        for layer in range(1, depth + 1)
        for unit in (1, 2, 3)
    ]
    figure = hidden_figure(TIME, curves)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["deep: layer 1", "deep: layer 2", "warped: layer 1"]
    for ax in figure.axes:
        labels = [line.get_label() for line in ax.lines]
        assert labels == ["unit 1", "unit 2", "unit 3", "time itself, scaled"]
    second = figure.axes[1].lines
    np.testing.assert_allclose(second[2].get_ydata(), 3 * np.sin(TIME) + 2)


def test_time_itself_is_a_straight_line_over_the_range_of_the_units():
    (ax,) = hidden_figure(TIME, [curve("layer 1, unit 1", mean=TIME**2)]).axes
    np.testing.assert_allclose(ax.lines[-1].get_xydata(), [[0, 0], [5, 25]])


def test_curves_over_timestamps():
    stamps = pd.date_range("2024", periods=51, freq="h", tz="UTC")
    figure = forces_figure(stamps, [curve("a")])
    assert figure.axes[0].get_xlabel() == "time (UTC)"
    assert np.ptp(figure.axes[0].lines[0].get_xdata()) == pytest.approx(50 / 24)


def test_a_model_without_forces_has_no_figure():
    with pytest.raises(InputError, match="nothing to draw"):
        forces_figure(TIME, [])


def table(*targets, index=TIME, names=("trend", "season")):
    values = {"mean": SINE, "low": SINE - WIDENING, "high": SINE + WIDENING}
    columns = {
        (target, name, value): d * values[value]
        for d, target in enumerate(targets, 1)
        for name in names
        for value in values
    }
    frame = pd.DataFrame(columns).set_axis(index)
    return frame.rename_axis(columns=["target", "component", "value"])


def test_every_component_has_a_panel_with_its_band(edges):
    figure = components_figure(table("load"), coverage=0.8, time_label="hours")
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["trend", "season"]
    for ax in figure.axes:
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), SINE)
        np.testing.assert_allclose(edges(band(ax), TIME), (SINE - WIDENING, SINE + WIDENING))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["80 % band", "mean"]
    assert figure.axes[-1].get_xlabel() == "hours"


def test_every_target_has_a_column_of_components():
    figure = components_figure(table("load", "price"))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["load: trend", "price: trend", "load: season", "price: season"]
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_ydata(), 2 * SINE)


@pytest.mark.parametrize(("end", "is_marked"), [(None, False), (TIME[30], True), (TIME[-1], False)])
def test_the_end_of_the_training_data_is_marked_where_a_forecast_follows(end, is_marked, drawn):
    (ax, _) = components_figure(table("load"), end=end).axes
    assert ("end of the training data" in drawn(ax)) == is_marked
