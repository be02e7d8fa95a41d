"""Figures: what is drawn, and that nothing global is touched."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from deeplfm.data.toy import toy_system
from deeplfm.experiments.demo import SPLITS, DemoResult
from deeplfm.experiments.scores import ScoreRow
from deeplfm.plots import plot_forecast, toy_figure
from deeplfm.predictive import Predictive

TIME = np.linspace(0, 4, 9)


def prediction(mean, std=0.5):
    mean = torch.as_tensor(mean)[None, :, None]
    variance = torch.full_like(mean, std**2 / 2)
    weight = torch.ones(1, 1, dtype=torch.float64)
    return Predictive(mean, variance, variance[0], weight, lambda n, seed: mean)


def demo_result(std=0.5):
    data = toy_system()
    names = ("GP", "DGP-EQ", "DLFM")
    clean = data.standardised(data.clean)
    rows = [
        ScoreRow(name, split, "0", 0, 0.25 + i, 1.5, 0.9, 1.0)
        for i, name in enumerate(names)
        for split in SPLITS
    ]
    return DemoResult(data, {name: prediction(clean, std) for name in names}, rows, {})


def collections(ax):
    return {item.get_label(): item for item in ax.collections}


def test_mean_band_and_points():
    ax = Figure().add_subplot()
    points = (TIME[:3], np.array([1.0, 2.0, 3.0]))
    tests = {"interpolation": points, "extrapolation": points, "later": points}
    posterior = prediction(np.sin(TIME))
    assert plot_forecast(ax, TIME, posterior, train=points, tests=tests) is ax
    (line,) = (line for line in ax.lines if line.get_label() == "predictive mean")
    np.testing.assert_allclose(line.get_ydata(), np.sin(TIME))
    drawn = collections(ax)
    assert set(drawn) == {
        "95 % interval",
        "training data",
        "interpolation test",
        "extrapolation test",
        "later",
    }
    np.testing.assert_allclose(drawn["training data"].get_offsets(), np.column_stack(points))
    band = drawn["95 % interval"].get_paths()[0].vertices
    at_start = band[band[:, 0] == 0.0][:, 1]
    assert (at_start.min(), at_start.max()) == pytest.approx((-0.98, 0.98), abs=1e-3)


def test_kinds_of_points_differ_in_colour_and_in_shape():
    ax = Figure().add_subplot()
    points = (TIME[:3], TIME[:3])
    tests = {"interpolation": points, "extrapolation": points}
    plot_forecast(ax, TIME, prediction(TIME), train=points, tests=tests)
    drawn = collections(ax)
    kinds = [drawn[name] for name in drawn if name != "95 % interval"]
    assert len({to_hex(item.get_facecolor()[0]) for item in kinds}) == 3
    assert len({item.get_paths()[0].vertices.tobytes() for item in kinds}) == 3


def test_one_output_of_several():
    ax = Figure().add_subplot()
    mean = torch.as_tensor(np.stack([TIME, 2 * TIME], 1))[None]
    weight = torch.ones(1, 2, dtype=torch.float64)
    posterior = Predictive(mean, mean * 0 + 1, mean[0] * 0, weight, lambda n, seed: mean)
    plot_forecast(ax, TIME, posterior, output=1)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), 2 * TIME)


def test_three_panels_with_scores_and_one_legend(tmp_path):
    figure = toy_figure(demo_result())
    assert len(figure.axes) == 3
    assert len(figure.legends) == 1
    assert all(ax.get_legend() is None for ax in figure.axes)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert all("interpolation: NMSE" in title for title in titles)
    assert "extrapolation: NMSE 2.25, MNLL 1.50, coverage 90%" in titles[2]
    names = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert names == ["GP", "DGP-EQ", "DLFM"]
    path = tmp_path / "toy.png"
    figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000


def test_an_enormous_interval_does_not_flatten_the_data():
    result = demo_result(std=1e6)
    low, high = toy_figure(result).axes[0].get_ylim()
    value = result.data.outputs
    assert high - low < 4 * np.ptp(value)
    assert low < value.min() and value.max() < high


def test_pyplot_is_not_imported():
    code = "import sys, deeplfm.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
