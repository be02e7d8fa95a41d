import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.signal import lombscargle

from deeplfm.errors import InputError
from deeplfm.inspection.spectra import Spectrum
from deeplfm.plots import filters_figure, plot_filter, plot_spectrum, spectrum_figure
from deeplfm.plots.spectra import power_spectrum

FREQUENCY = np.geomspace(0.01, 10, 50)


def series(amplitude=3.0, frequency=0.7, n_rows=600, irregular=True):
    rng = np.random.default_rng(0)
    time = rng.uniform(0, 60, n_rows) if irregular else np.linspace(0, 60, n_rows)
    value = 5 + amplitude * np.sin(2 * np.pi * frequency * time + 1) + 0.1 * rng.normal(size=n_rows)
    value[::11] = np.nan
    return time, value


def gain(label, member="pursuit"):
    return Spectrum(label, member, FREQUENCY, 1 / np.hypot(1, FREQUENCY))


@pytest.mark.parametrize("irregular", [True, False])
@pytest.mark.parametrize("frequency", [0.05, 0.7, 2.3])
def test_the_periodogram_peaks_at_the_true_frequency_with_the_power_of_the_sinusoid(
    frequency, irregular
):
    found, power = power_spectrum(*series(3.0, frequency, irregular=irregular))
    assert found[power.argmax()] == pytest.approx(frequency, abs=0.2 / 60)
    assert power.max() == pytest.approx(3.0**2 / 2, rel=0.1)
    assert (np.diff(found) > 0).all()


def test_it_is_near_the_periodogram_of_lomb_and_scargle():
    time, value = series()
    known = np.isfinite(value)
    found, power = power_spectrum(time, value)
    lomb = lombscargle(time[known], value[known] - value[known].mean(), 2 * np.pi * found)
    lomb *= 2 / known.sum()
    peak = power > 0.1 * power.max()
    assert peak.sum() > 3
    np.testing.assert_allclose(power[peak], lomb[peak], rtol=0.1)
    assert np.median(np.abs(power / lomb - 1)) < 0.06


def test_a_series_with_nothing_to_see_has_no_periodogram():
    assert [len(part) for part in power_spectrum(np.arange(9.0), np.full(9, np.nan))] == [0, 0]
    assert [len(part) for part in power_spectrum(np.ones(9), np.arange(9.0))] == [0, 0]


def test_very_many_frequencies_become_what_a_figure_can_show():
    time = np.arange(100_000.0)
    found, power = power_spectrum(time, np.sin(2 * np.pi * 0.1 * time))
    assert len(found) < 2000
    assert found[power.argmax()] == pytest.approx(0.1, rel=1e-3)


def test_learned_sinusoids_are_drawn_over_the_periodogram(drawn):
    ax = Figure().add_subplot()
    time, value = series()
    learned = Spectrum("abp", "deep", np.array([0.0, 0.1, 0.7]), np.array([9.0, 1e-2, 4.5]))
    assert plot_spectrum(ax, [learned], pd.Series(value, index=time)) is ax
    dots = drawn(ax)["learned sinusoids: deep"]
    np.testing.assert_array_equal(dots.get_xydata(), [[0.1, 1e-2], [0.7, 4.5]])  # none at zero
    x, y = drawn(ax)["periodogram of the data"].get_data()
    np.testing.assert_array_equal(np.stack([x, y]), np.stack(power_spectrum(time, value)))
    assert ax.get_xscale() == ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    assert low == pytest.approx(y.max() * 1e-6, rel=0.1) and high > max(4.5, y.max())


@pytest.mark.parametrize("n_outputs", [1, 3, 12])
def test_every_output_has_its_spectrum(n_outputs, drawn):
    names = [f"output {d}" for d in range(n_outputs)]
    time, value = series()
    data = pd.DataFrame({name: (d + 1) * value for d, name in enumerate(names)}, index=time)
    spectra = [gain(name, "one" if d % 2 else "two") for d, name in enumerate(names)]
    figure = spectrum_figure(spectra, data, time_unit="s")
    assert [ax.get_title(loc="left") for ax in figure.axes] == names
    assert figure.axes[0].get_ylabel() == "power"
    assert figure.axes[-1].get_xlabel() == "frequency (cycles per s)"
    for d, ax in enumerate(figure.axes):
        peak = drawn(ax)["periodogram of the data"].get_ydata().max()
        assert peak == pytest.approx((d + 1) ** 2 * 4.5, rel=0.1)
        (label,) = (name for name in drawn(ax) if "learned" in name)
        assert drawn(ax)[label].get_marker() == ("v" if d % 2 else "o")


def test_outputs_without_data_have_sinusoids_alone(drawn):
    (ax,) = spectrum_figure([gain("abp")]).axes
    assert list(drawn(ax)) == ["learned sinusoids: pursuit"]


def test_dates_are_refused_since_frequencies_are_per_number():
    data = pd.DataFrame({"abp": [1.0, 2.0]}, index=pd.date_range("2024", periods=2))
    with pytest.raises(InputError, match="Index the data by time as the numbers"):
        spectrum_figure([gain("abp")], data)


def test_a_filter_is_its_gain_on_logarithmic_axes():
    ax = Figure().add_subplot()
    assert plot_filter(ax, gain("layer 1")) is ax
    (line,) = ax.lines
    assert line.get_label() == "layer 1"
    np.testing.assert_array_equal(line.get_ydata(), 1 / np.hypot(1, FREQUENCY))
    assert ax.get_xscale() == ax.get_yscale() == "log"


@pytest.mark.parametrize("n_outputs", [1, 3, 12])
def test_every_layer_has_a_panel_with_the_filter_of_every_output(n_outputs):
    owners = [f", output {d}" for d in range(n_outputs)] if n_outputs > 1 else [""]
    spectra = [
        gain(f"layer {layer}{owner}", member)
        for member, depth in (("pursuit", 1), ("deep", 2))
        for layer in range(1, depth + 1)
        for owner in owners
    ]
    figure = filters_figure(spectra, time_unit="s")
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["pursuit: layer 1", "deep: layer 1", "deep: layer 2"]
    for ax in figure.axes:
        looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}
        assert len(looks) == len(ax.lines) == n_outputs
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ([owner[2:] for owner in owners] if n_outputs > 1 else ["whole layer"])
    assert figure.axes[0].get_ylabel() == "gain"
