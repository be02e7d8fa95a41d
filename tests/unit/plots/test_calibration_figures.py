import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from deeplfm.errors import InputError
from deeplfm.plots import calibration_figure, plot_coverage, plot_pit
from deeplfm.plots.calibration import coverage_band, pit_band

N_VALUES, N_BINS, N_WORLDS = 300, 10, 4000


@pytest.fixture(scope="module")
def worlds():
    """PIT values of calibrated models."""
    return np.random.default_rng(0).uniform(size=(N_WORLDS, N_VALUES))


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_all_bars_of_a_calibrated_model_stay_in_the_band_as_often_as_declared(worlds, coverage):
    low, high = pit_band(N_VALUES, N_BINS, coverage)
    counts = np.stack([np.histogram(pit, N_BINS, (0, 1))[0] for pit in worlds])
    height = counts * N_BINS / N_VALUES
    inside = ((low <= height) & (height <= high)).all(1).mean()
    assert coverage - 0.01 < inside < coverage + 0.75 * (1 - coverage)  # no more than Bonferroni's


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_the_coverage_curve_of_a_calibrated_model_stays_in_the_band_as_declared(worlds, coverage):
    # the largest distance is at a jump: just before or just after it
    sorted_ = np.sort(np.abs(2 * worlds - 1), axis=1)
    after, before = np.arange(1, N_VALUES + 1) / N_VALUES, np.arange(N_VALUES) / N_VALUES
    distance = np.maximum(np.abs(after - sorted_), np.abs(before - sorted_)).max(1)
    inside = (distance <= coverage_band(N_VALUES, coverage)).mean()
    assert inside == pytest.approx(coverage, abs=4 * np.sqrt(coverage * (1 - coverage) / N_WORLDS))


def test_bars_and_band_of_the_histogram(drawn):
    ax = Figure().add_subplot()
    pit = np.r_[np.full(30, 0.05), np.full(70, 0.95), np.nan]
    assert plot_pit(ax, pit, n_bins=10) is ax
    heights = [bar.get_height() for bar in ax.containers[0]]
    np.testing.assert_allclose(heights, [3, 0, 0, 0, 0, 0, 0, 0, 0, 7])
    band = drawn(ax)["95 % of calibrated models"]
    edges = (band.get_y(), band.get_y() + band.get_height())
    assert edges == pytest.approx(pit_band(100, 10, 0.95))
    assert edges[0] < 1 < edges[1]
    assert ax.get_ylim()[1] > 7


@pytest.mark.parametrize(("n_values", "n_bars"), [(20, 5), (300, 10), (5000, 20)])
def test_more_values_more_bars(n_values, n_bars):
    ax = Figure().add_subplot()
    plot_pit(ax, np.linspace(0, 1, n_values))
    assert len(ax.containers[0]) == n_bars


def test_observed_coverage_of_intervals_that_are_too_narrow(drawn):
    # of z ~ N(0, 1) predicted as N(0, 1/4), the 95 % interval holds P(|z| < 0.98)
    z = norm.ppf((np.arange(4000) + 0.5) / 4000)
    ax = Figure().add_subplot()
    assert plot_coverage(ax, norm.cdf(2 * z)) is ax
    nominal, observed = drawn(ax)["observed"].get_data()
    expected = 1 - 2 * norm.sf(norm.isf((1 - 0.95) / 2) / 2)
    assert np.interp(0.95, nominal, observed) == pytest.approx(expected, abs=2e-3)
    assert (observed[0], observed[-1]) == (0, 1)


def test_the_band_of_the_curve_is_around_the_diagonal(drawn, edges):
    ax = Figure().add_subplot()
    plot_coverage(ax, np.linspace(0, 1, 100), coverage=0.9)
    low, high = edges(drawn(ax)["90 % of calibrated models"], [0.5])
    assert (low[0], high[0]) == pytest.approx(
        (0.5 - coverage_band(100, 0.9), 0.5 + coverage_band(100, 0.9))
    )


@pytest.mark.parametrize("n_outputs", [1, 3, 12])
@pytest.mark.parametrize("kind", [dict, pd.DataFrame])
def test_every_output_has_a_pair_of_panels(n_outputs, kind):
    pit = np.random.default_rng(0).uniform(size=(200, n_outputs))
    pit[::9] = np.nan
    names = [f"output {d}" for d in range(n_outputs)]
    figure = calibration_figure(kind(dict(zip(names, pit.T, strict=True))))
    assert len(figure.axes) == 2 * n_outputs
    assert [ax.get_title(loc="left") for ax in figure.axes[::2]] == names
    assert {ax.get_xlabel() for ax in figure.axes[::2]} - {""} == {"PIT"}
    assert {ax.get_xlabel() for ax in figure.axes[1::2]} - {""} == {"nominal coverage"}
    assert len(figure.legends) == 1


def test_the_coverage_of_the_usual_interval_is_written_out():
    pit = np.r_[np.full(10, 0.5), np.full(10, 0.001)]
    figure = calibration_figure({"a": pit})
    assert "holds 50.0 %" in figure.axes[1].texts[0].get_text()


@pytest.mark.parametrize("pit", [[0.5, 1.5], [-0.1]])
def test_values_that_are_no_probabilities_are_refused(pit):
    with pytest.raises(InputError, match="pit: values between 0 and 1 are needed"):
        calibration_figure({"a": pit})


def test_outputs_without_known_values_are_left_out() -> None:
    pit = {"known": np.linspace(0, 1, 50), "unknown": np.full(50, np.nan)}
    assert len(calibration_figure(pit).axes) == 2
    with pytest.raises(InputError, match="no output has a known value"):
        calibration_figure({"unknown": pit["unknown"]})
