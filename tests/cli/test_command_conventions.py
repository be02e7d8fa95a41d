"""Dates and numbers as the user writes them, sentinel values, and the commands around a model."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import deeplfm
from deeplfm import InputError
from deeplfm.cli import update
from deeplfm.io.files import locked

QUICK = ["--model", "trend + season(12) + level", "--n-steps", "3"]


def monthly(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wave = 300 + 3 * np.sin(2 * np.pi * np.arange(60) / 12) + 0.3 * rng.normal(size=60)
    days = pd.date_range("2015-01-01", periods=60, freq="MS")
    return pd.DataFrame({"month": days.strftime("%Y-%m"), "co2": wave.round(2), **columns})


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monthly().to_csv("co2.csv", index=False)
    return tmp_path


def test_dates_are_written_as_they_were_and_numbers_have_few_digits(home, call):
    assert call("fit", "co2.csv", *QUICK, "-o", "m", "-q").code == 0
    done = call("forecast", "m", "--horizon", 2, "--level", "80,95", "--quantiles", "0.5")
    header, first, _ = done.out.splitlines()
    ends = "_low_80,co2_high_80,co2_low_95,co2_high_95,co2_q0.5"
    assert header == f"month,co2,co2_std,co2{ends}"
    assert first.startswith("2020-01,")
    assert max(len(cell) for cell in first.split(",")) <= len("299.12345")
    assert "from 2020-01 to 2020-02" in done.err
    report = call("forecast", "m", "--horizon", 2, "--level", "80", "--report", "f.html")
    assert (report.code, (home / "f.html").exists()) == (0, True)
    assert call("forecast", "m", "--horizon", 2, "--level", "high").code == 2


def test_candidates_are_named_as_the_user_wrote_them(home, call):
    done = call("fit", "co2.csv", *QUICK, "-o", "m", "--json")
    assert list(json.loads(done.out)["candidates"]) == ["trend + season(12) + level"]


def test_a_year_and_a_quarter_in_two_columns(home, call):
    rows = np.arange(48)
    table = pd.DataFrame({"year": 2000 + rows // 4, "quarter": 1 + rows % 4, "gdp": rows + 0.5})
    table.to_csv("gdp.csv", index=False)
    done = call("fit", "gdp.csv", "--model", "trend", "--n-steps", 2, "-o", "m")
    assert "time in 'year' and 'quarter'" in done.out
    lines = call("forecast", "m", "--horizon", 2, "-q").out.splitlines()
    assert lines[0].startswith("year,quarter,gdp,")
    assert lines[1].startswith("2012,1,") and lines[2].startswith("2012,2,")
    again = call("fit", "--config", "m/run.toml", "-o", "again")
    assert again.code == 0
    table.assign(year=table["year"] + 12).to_csv("later.csv", index=False)
    assert call("evaluate", "m", "later.csv").code == 0


@pytest.mark.filterwarnings("default")
def test_sentinels_are_filled_if_they_are_named_and_reported_before_a_fit_if_not(home, call):
    table = monthly()
    table.loc[10:13, "co2"] = -200
    table.to_csv("co2.csv", index=False)
    done = call("impute", "co2.csv", *QUICK, "-o", "filled.csv")
    assert "4 of 60 values (6.7 %) are -200" in done.err and "--missing -200" in done.err
    assert "Nothing to fill: no empty field in co2 (60 rows)" in done.out
    assert "Fitted" not in done.out
    assert pd.read_csv("filled.csv").equals(pd.read_csv("co2.csv"))
    named = call("impute", "co2.csv", *QUICK, "--missing", "-200,-999", "-o", "filled.csv")
    assert (named.err, "Filled: 4 of co2" in named.out) == ("", True)
    filled = pd.read_csv("filled.csv")
    assert filled["co2"].min() > 290
    assert filled["co2"].astype(str).str.len().max() <= len("299.1234")
    assert call("impute", "co2.csv", "--missing", "none").code == 2


def test_categories_bounds_and_calendar(home, call):
    monthly(kind=["a", "b", "c"] * 20).to_csv("kinds.csv", index=False)
    options = ["--covariate", "kind", "--calendar", "month", "--floor", "290", "--cap", "304"]
    assert (
        call("fit", "kinds.csv", "--model", "level", "--n-steps", 2, *options, "-o", "m").code == 0
    )
    (home / "plan.csv").write_text("month,kind\n2020-01,a\n2020-02,b\n")
    table = call("forecast", "m", "--times", "plan.csv", "-q").out.splitlines()
    assert len(table) == 3
    assert float(table[1].split(",")[-1]) <= 304


def test_update_adds_rows_and_replaces_a_model_only_on_request(home, call):
    table = monthly()
    table[:50].to_csv("co2.csv", index=False)
    table[50:].to_csv("later.csv", index=False)
    assert call("fit", "co2.csv", *QUICK, "-o", "m", "-q").code == 0
    assert call("update", "m", "later.csv").code == 2
    done = call("update", "m", "later.csv", "-o", "new")
    assert "Added 10 rows: 60 rows until 2019-12" in done.out
    assert (len(deeplfm.load("m").training_), len(deeplfm.load("new").training_)) == (50, 60)
    assert call("update", "m", "later.csv", "--overwrite").code == 0
    assert len(deeplfm.load("m").training_) == 60


def test_update_holds_the_model_from_reading_to_writing(home, call, monkeypatch):
    """Two updates at the same time kept the rows of the last one only."""
    table = monthly()
    table[:50].to_csv("co2.csv", index=False)
    table[50:].to_csv("later.csv", index=False)
    assert call("fit", "co2.csv", *QUICK, "-o", "m", "-q").code == 0
    plain, n_refused = update.load_forecaster, []

    def read(*given, **options):
        with pytest.raises(InputError, match="another process"), locked(home / "m", blocking=False):
            pass
        n_refused.append(1)
        return plain(*given, **options)

    monkeypatch.setattr(update, "load_forecaster", read)
    assert call("update", "m", "later.csv", "--overwrite").code == 0
    assert n_refused and len(deeplfm.load("m").training_) == 60


def test_backtest_scores_several_origins(home, call):
    assert call("fit", "co2.csv", *QUICK, "-o", "m", "-q").code == 0
    done = call("backtest", "m", "--folds", 2, "--horizon", 6, "-o", "folds.csv")
    assert "Means over 2 origins, the first at 2019-01." in done.out
    folds = pd.read_csv("folds.csv")
    assert folds["start"].tolist() == ["2019-01", "2019-07"]
    content = json.loads(call("backtest", "m", "--folds", 2, "--horizon", 6, "--json").out)
    assert content["scores"]["co2"]["mae"] == pytest.approx(folds["mae"].mean())


def test_compare_ranks_models_on_the_same_origins(home, call):
    models = ["trend", "trend + season(12)"]
    options = ["--folds", 2, "--n-steps", 10, "-o", "scores.csv"]
    done = call("compare", "co2.csv", *models, *options)
    assert done.code == 0 and "units" in done.out
    assert pd.read_csv("scores.csv")["model"].tolist() == models[::-1]
    assert call("compare", "co2.csv").code == 2


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "deeplfm", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"deeplfm {deeplfm.__version__}\n"
