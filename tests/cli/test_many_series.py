"""Commands on a table of many series."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deeplfm.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:.*series left out")


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as found:
        main([str(argument) for argument in arguments])
    return int(found.value.code or 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("panel")
    months = pd.date_range("2020-01-01", periods=30, freq="MS")
    parts = []
    for number, name in enumerate(("north", "south", "bad")):
        values = 10 + np.random.default_rng(number).standard_normal(30).cumsum()
        parts.append(pd.DataFrame({"shop": name, "month": months, "sales": values.round(3)}))
    frame = pd.concat(parts).astype({"sales": object})
    frame.iloc[65, 2] = "oops"
    frame.iloc[4, 2] = None
    frame.to_csv(folder / "sales.csv", index=False)
    common = ("--series", "shop", "--model", "trend + level", "--jobs", 1, "-q", "-o", folder / "m")
    assert run("fit", folder / "sales.csv", *common) == 0
    return folder


def test_forecasts_are_long(place):
    out = place / "forecast.csv"
    arguments = ("--horizon", 2, "--level", "80", "--fallback", "-q", "-o", out)
    assert run("forecast", place / "m", *arguments) == 0
    found = pd.read_csv(out)
    assert found["shop"].tolist() == ["north"] * 2 + ["south"] * 2 + ["bad"] * 2
    assert found["month"].tolist()[:2] == ["2022-07-01", "2022-08-01"]
    assert (found["sales_low_80"] < found["sales_high_80"]).all()


def test_conformal_intervals_of_a_panel(place, capsys):
    out = place / "conformal.csv"
    arguments = ("--horizon", 2, "--level", "60", "--fallback", "-q", "-o", out)
    assert run("forecast", place / "m", "--conformal", 3, *arguments) == 0
    found = pd.read_csv(out)
    assert len(found) == 6
    assert (found["sales_low_60"] < found["sales_high_60"]).all()
    arguments = ("--new", place / "sales.csv", "--conformal", 3)
    assert run("forecast", place / "m", *arguments) == 2
    assert "--conformal: not possible with --new" in capsys.readouterr().err


def test_a_series_that_failed_is_reported(place, capsys):
    again = ("--config", place / "m" / "run.toml", "--json", "--overwrite", "-o", place / "again")
    assert run("fit", place / "sales.csv", *again) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["series"], found["fitted"]) == (3, 2)
    assert "'oops'" in found["not_fitted"]["bad"]


def test_a_panel_is_described(place, capsys):
    assert run("info", place / "m") == 0
    found = " ".join(capsys.readouterr().out.split())
    assert "Fitted 2 of 3 series" in found and "'oops' at row 5" in found
    assert run("info", place / "m", "--json") == 0
    assert json.loads(capsys.readouterr().out)["fitted"] == 2


def test_gaps_components_and_scores_of_all_series(place, capsys):
    assert (
        run("impute", place / "sales.csv", "--fitted", place / "m", "-q", "-o", place / "i.csv")
        == 0
    )
    filled = pd.read_csv(place / "i.csv")
    assert len(filled) == 60 and filled["sales"].notna().all()
    assert run("components", place / "m", "--horizon", 1, "-q", "-o", place / "c.csv") == 0
    parts = pd.read_csv(place / "c.csv")
    assert parts.columns.tolist()[:4] == ["shop", "month", "target", "component"]
    later = pd.DataFrame({"shop": ["north"], "month": ["2022-07-01"], "sales": [11.0]})
    later.to_csv(place / "later.csv", index=False)
    capsys.readouterr()
    assert run("evaluate", place / "m", place / "later.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"]["sales"]["rows"] == 1
    assert (
        run("backtest", place / "m", "--folds", 1, "--horizon", 2, "-q", "-o", place / "b.csv") == 0
    )
    assert set(pd.read_csv(place / "b.csv")["shop"]) == {"north", "south"}
    new = place / "m2"
    assert run("update", place / "m", place / "later.csv", "-q", "-o", new) == 0


def test_commands_for_one_series_refuse_a_panel(place, capsys):
    assert run("forces", place / "m") == 2
    assert "panel of 3 series" in capsys.readouterr().err
    assert run("forecast", place / "m", "--horizon", 1, "--plot", place / "f.png") == 2
    assert run("compare", place / "sales.csv", "trend", "--series", "shop") == 2


def test_one_series_is_drawn_by_its_name(place, capsys):
    figure, table = place / "north.png", place / "north.csv"
    arguments = ("forecast", place / "m", "--horizon", 2)
    assert run(*arguments, "--only", "north", "--plot", figure, "-o", table) == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert run(*arguments, "-q", "-o", place / "all.csv") == 0
    every = pd.read_csv(place / "all.csv").query("shop == 'north'")
    assert pd.read_csv(table)["sales"].tolist() == pytest.approx(every["sales"].tolist(), rel=1e-3)
    capsys.readouterr()
    assert run(*arguments, "--plot", figure) == 2
    assert "--only NAME" in capsys.readouterr().err
    assert run(*arguments, "--only", "nroth") == 2
    assert "Did you mean 'north'?" in capsys.readouterr().err


def test_models_are_tuned_over_all_series_that_can_be_read(place, capsys):
    pytest.importorskip("optuna")
    common = ("--series", "shop", "--folds", 1, "--jobs", 1, "--json")
    assert run("tune", place / "sales.csv", "trend", "trend + level", *common) == 0
    table = json.loads(capsys.readouterr().out)["table"]
    assert all("1 of 3 series left out" in text and "'oops'" in text for text in table["failed"])
    assert min(table["score"]) > 0
    assert run("tune", place / "sales.csv", "trend", *common, "--pooled") == 2
    assert "--pooled, --static: trials score each series by itself" in capsys.readouterr().err


def test_new_series_are_forecast_by_their_features(place, capsys):
    sales, static = pd.read_csv(place / "sales.csv"), place / "static.csv"
    pd.DataFrame({"shop": ["north", "south", "bad", "new"], "size": [1, 2, 3, 4]}).to_csv(
        static, index=False
    )
    sales[sales["shop"] == "north"].replace("north", "new").to_csv(place / "new.csv", index=False)
    fit = ("fit", place / "sales.csv", "--series", "shop", "--model", "trend + level", "-q")
    assert run(*fit, "--static", static, "-o", place / "by-size") == 2
    assert "Add --pooled" in capsys.readouterr().err
    assert run(*fit, "--static", static, "--pooled", "--jobs", 1, "-o", place / "by-size") == 0
    forecast = ("forecast", place / "by-size", "--horizon", 2, "-q")
    assert (
        run(*forecast, "--new", place / "new.csv", "--static", static, "-o", place / "n.csv") == 0
    )
    assert pd.read_csv(place / "n.csv")["shop"].tolist() == ["new", "new"]
    assert run(*forecast, "--new", place / "new.csv") == 2
    assert "fitted with features 'size'" in capsys.readouterr().err
    assert run(*forecast, "--static", static) == 2
    assert "given with the series of --new" in capsys.readouterr().err
