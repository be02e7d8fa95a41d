import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from deeplfm.errors import InputError
from deeplfm.plots import COVERAGES, fans_of, plot_fan

TIME = np.linspace(0, 4, 9)


def test_band_edges_are_the_quantiles_of_the_prediction(gaussian, drawn, edges):
    ax = Figure().add_subplot()
    fan = fans_of(gaussian(np.sin(TIME), std=0.5), ["y"])["y"]
    assert plot_fan(ax, TIME, fan) is ax
    for coverage in COVERAGES:
        reach = 0.5 * norm.isf((1 - coverage) / 2)
        low, high = edges(drawn(ax)[f"{100 * coverage:g} % interval"], TIME)
        np.testing.assert_allclose(low, np.sin(TIME) - reach, atol=1e-8)
        np.testing.assert_allclose(high, np.sin(TIME) + reach, atol=1e-8)
    np.testing.assert_allclose(drawn(ax)["prediction"].get_ydata(), np.sin(TIME))


def test_the_narrower_the_interval_the_darker_and_the_higher_it_lies(gaussian, drawn):
    ax = Figure().add_subplot()
    plot_fan(ax, TIME, fans_of(gaussian(TIME), ["y"])["y"])
    bands = [drawn(ax)[f"{share} % interval"] for share in (95, 80, 50)]
    lightness = [band.get_facecolor()[0, :3].mean() for band in bands]
    assert lightness == sorted(lightness, reverse=True) and len(set(lightness)) == 3
    assert [band.get_zorder() for band in bands] == sorted(band.get_zorder() for band in bands)


def test_without_noise_the_intervals_are_those_of_the_function(gaussian):
    posterior = gaussian(TIME, std=1.0)  # half of the variance is noise
    (low, high) = fans_of(posterior, ["y"], [0.9], latent=True)["y"].bands[0.9]
    np.testing.assert_allclose(high - low, 2 * norm.isf(0.05) * np.sqrt(0.5))


def test_every_output_has_its_fan(gaussian):
    fans = fans_of(gaussian(np.stack([TIME, 2 * TIME], axis=1)), ["a", "b"])
    np.testing.assert_array_equal(fans["a"].mean, TIME)
    np.testing.assert_array_equal(fans["b"].mean, 2 * TIME)
    np.testing.assert_allclose(np.mean(fans["b"].bands[0.8], axis=0), 2 * TIME, atol=1e-8)


def test_names_must_fit_the_outputs(gaussian):
    with pytest.raises(InputError, match="names: 2 found, but the prediction has 1 outputs"):
        fans_of(gaussian(TIME), ["a", "b"])


def test_a_single_row_is_a_point_with_bars(gaussian, drawn):
    ax = Figure().add_subplot()
    plot_fan(ax, TIME[:1], fans_of(gaussian(TIME[:1]), ["y"])["y"])
    assert drawn(ax)["prediction"].get_marker() == "o"
    assert drawn(ax)["95 % interval"].get_linewidth()[0] > 1
