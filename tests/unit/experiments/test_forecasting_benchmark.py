"""The benchmark of forecasting: scores, records, tables and its command."""

import json

import numpy as np
import pandas as pd
import pytest

from deeplfm.cli import main
from deeplfm.errors import ConfigError, InputError
from deeplfm.experiments.forecasting import runner
from deeplfm.experiments.forecasting.page import losses, markdown, overview, ratios
from deeplfm.experiments.forecasting.runner import forecast_of
from deeplfm.experiments.forecasting.series import BenchmarkSeries, load_series, score_forecast

STEPS = np.arange(60.0)
SERIES = BenchmarkSeries(
    "one", "monthly", 12, 50 + STEPS[:48] + np.sin(STEPS[:48]), 50 + STEPS[48:] + np.sin(STEPS[48:])
)


def test_scores_are_those_of_their_definitions():
    series = BenchmarkSeries("s", "yearly", 1, np.array([1.0, 3, 2]), np.array([4.0, np.nan, 5]))
    quantiles = np.array([[1.0, 1, 4], [2, 2, 4.5], [3, 3, 6], [4, 4, 7], [5, 5, 8]])
    found = score_forecast(series, quantiles)
    unit = 1.5  # mean of |3 − 1| and |2 − 3|
    assert found["mase"] == pytest.approx((1 + 1) / 2 / unit)
    assert found["smape"] == pytest.approx((2 * 1 / 7 + 2 * 1 / 11) / 2)
    assert found["msis"] == pytest.approx((4 + 4) / 2 / unit)
    assert (found["coverage80"], found["coverage95"]) == (1.0, 1.0)
    missed = score_forecast(series, quantiles - 10)
    assert missed["coverage95"] == 0.0
    assert missed["msis"] == pytest.approx((4 + 40 * 9 + 4 + 40 * 7) / 2 / unit)


def test_a_sharp_forecast_has_a_lower_crps_than_a_vague_one():
    exact = np.tile(SERIES.later, (5, 1))
    vague = exact + np.array([-9, -5, 0, 5, 9])[:, None]
    assert score_forecast(SERIES, exact)["crps"] == 0.0
    assert score_forecast(SERIES, vague)["crps"] > 0.0


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    calls = []

    def fake(name):
        def forecast(series):
            calls.append((series.name, name))
            return np.tile(series.later, (5, 1)) + np.array([-2, -1, 0.1, 1, 2])[:, None]

        return forecast

    monkeypatch.setattr(runner, "forecast_of", fake)
    file = tmp_path / "records.jsonl"
    runner.run_benchmark([SERIES], ["deeplfm fast", "AutoETS"], file)
    file.write_text(file.read_text() + '{"series": "cut')
    again = runner.run_benchmark([SERIES], ["deeplfm fast", "AutoETS"], file)
    assert calls == [("one", "deeplfm fast"), ("one", "AutoETS")]
    assert len(again) == 2
    assert ratios(again, "deeplfm fast", "mase").loc["all", "AutoETS"] == pytest.approx(1.0)
    assert losses(again, "deeplfm fast")["ratio"].tolist() == pytest.approx([1.0])
    assert overview(again).index.tolist() == ["deeplfm fast", "AutoETS"]
    assert "| monthly | 1 |" in markdown(again, "Set")


def test_gaps_are_filled_for_models_that_cannot_have_any():
    values = np.tile([1.0, 2, 3, 4], 5)
    values[[6, 9]] = np.nan
    filled = BenchmarkSeries("s", "quarterly", 4, values, values).filled
    assert filled[[6, 9]].tolist() == [3.0, 2.0]
    assert not np.isnan(filled).any()


def test_our_forecast_of_a_seasonal_series_is_near_the_truth():
    rng = np.random.default_rng(0)
    steps = np.arange(72)
    values = 100 + 20 * np.sin(steps * np.pi / 6) + rng.normal(size=72)
    series = BenchmarkSeries("s", "monthly", 12, values[:60], values[60:])
    found = score_forecast(series, forecast_of("deeplfm fast")(series))
    assert found["mase"] < 2.0


def test_sets_and_models_that_are_not_known_are_refused(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match=r"'ARIMA' is not known. Choose from deeplfm fast"):
        forecast_of("ARIMA")
    with pytest.raises(ConfigError, match=r"'other' is not known. Choose one of choose, report"):
        load_series("other")
    monkeypatch.delenv("DEEPLFM_DATA", raising=False)
    with pytest.raises(InputError, match="folder DEEPLFM_DATA, which is not set"):
        load_series("report")
    monkeypatch.setenv("DEEPLFM_DATA", str(tmp_path))
    with pytest.raises(InputError, match="has no such file"):
        load_series("report")


def test_the_command_prints_scores_and_writes_a_page(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "series"
    folder.mkdir()
    table = pd.DataFrame(
        {
            "unique_id": "a",
            "frequency": "monthly",
            "season": 12,
            "step": range(40),
            "y": 10 + np.sin(np.arange(40) * np.pi / 6),
            "split": ["train"] * 36 + ["test"] * 4,
        }
    )
    table.to_csv(folder / "choose.csv.gz", index=False)
    monkeypatch.setenv("DEEPLFM_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    arguments = [
        "benchmark",
        "forecasting",
        "--set",
        "choose",
        "--models",
        "deeplfm fast",
        "--json",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--document", "page.md"])
    assert ended.value.code == 0
    scores = json.loads(capsys.readouterr().out)["scores"]["deeplfm fast"]
    assert scores["series"] == 1
    assert 0 <= scores["coverage_95"] <= 1
    assert (tmp_path / "benchmark.jsonl").exists()
    assert "\n## Set 'choose'\n" in (tmp_path / "page.md").read_text()
