"""``deeplfm impute``: gaps are filled, and nothing else is touched."""

import io
import json
import tomllib

import numpy as np
import pandas as pd
import pytest

import deeplfm

QUICK = ["--model", "sinusoids + broadband", "--n-steps", "3"]


def test_gaps_are_filled_and_the_rest_is_as_it_was(place, call):
    done = call("impute", "vitals.csv", *QUICK, "-o", "filled.csv")
    assert (done.code, done.err) == (0, "")
    assert "Filled: 7 of abp, 3 of ecg" in done.out
    given, filled = pd.read_csv("vitals.csv"), pd.read_csv("filled.csv")
    assert list(filled.columns) == list(given.columns)
    pd.testing.assert_frame_equal(filled.where(given.notna()), given)
    assert filled.notna().all(axis=None)


def test_a_fitted_model_fills_the_same(place, call):
    fitted = call("impute", "vitals.csv", *QUICK)
    given = call("impute", "vitals.csv", "--fitted", "vitals-model")
    assert given.out == fitted.out
    assert pd.read_csv(io.StringIO(given.out)).notna().all(axis=None)
    assert given.err == "Filled: 7 of abp, 3 of ecg\n"


def test_intervals_stand_where_something_was_filled(place, call):
    done = call("impute", "vitals.csv", "--fitted", "vitals-model", "--intervals", "-q")
    filled, given = pd.read_csv(io.StringIO(done.out)), pd.read_csv("vitals.csv")
    gap = given["abp"].isna()
    assert (filled["abp_low"] < filled["abp"])[gap].all()
    assert (filled["abp_high"] > filled["abp"])[gap].all()
    assert filled.loc[~gap, "abp_std"].isna().all()


def test_the_model_is_kept_on_request_and_repeats_the_run(place, call):
    arguments = ["impute", "vitals.csv", *QUICK, "-o", "filled.csv", "--model-out", "kept"]
    assert "Model: kept" in call(*arguments).out
    assert deeplfm.load("kept").targets_ == ["abp", "ecg"]
    assert tomllib.loads((place / "kept" / "run.toml").read_text())["out"] == "filled.csv"
    first = (place / "filled.csv").read_bytes()
    assert call("impute", "--config", "kept/run.toml", "--model-out", "again").code == 0
    assert (place / "filled.csv").read_bytes() == first


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_formats(suffix, place, call):
    target = f"filled{suffix}"
    done = call("impute", "vitals.csv", "--fitted", "vitals-model", "-o", target, "--json")
    assert json.loads(done.out)["filled"] == {"abp": 7, "ecg": 3}
    read = pd.read_parquet if suffix == ".parquet" else lambda path: pd.read_csv(path, sep="\t")
    assert read(place / target)[["abp", "ecg"]].notna().all(axis=None)


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", ",")])
def test_fields_that_were_not_filled_stay_as_they_are_written(delimiter, decimal, tmp_path, call):
    def line(row, value):
        fields = [f"2024-01-{row + 1:02d}", value, f"00{row}", "NA", "true", f"{row}.50"]
        return delimiter.join(field.replace(".", decimal) for field in fields)

    values = [f"{np.sin(row):.2f}0" if row not in (9, 17) else "" for row in range(25)]
    head = delimiter.join(["day", "level", "id", "country", "flag", "other"])
    path = tmp_path / "table.csv"
    path.write_text("\n".join([head, *map(line, range(25), values), ""]))
    target = tmp_path / "filled.csv"
    assert call("impute", path, "--target", "level", *QUICK, "-o", target).code == 0
    given, found = (place.read_text().splitlines() for place in (path, target))
    changed = [row for row in range(26) if given[row] != found[row]]
    assert changed == [10, 18]
    for row in changed:
        before, after = (text.split(delimiter) for text in (given[row], found[row]))
        assert before[:1] + before[2:] == after[:1] + after[2:]
        float(after[1].replace(decimal, "."))


def test_a_table_between_blanks_has_commas_where_fields_are_empty(tmp_path, call):
    rows = [f"{row} {np.sin(row):.3f}" for row in range(20)]
    rows[9] = "9 NA"
    path, target = tmp_path / "blank.txt", tmp_path / "filled.csv"
    path.write_text("\n".join(["t load", *rows, ""]))
    assert call("impute", path, *QUICK, "--intervals", "-o", target).code == 0
    filled = pd.read_csv(target)
    assert filled["load"].notna().all() and filled["load_std"].notna().sum() == 1


def test_dates_and_clocks_in_two_columns_stay_as_they_are_written(place, call):
    hours = pd.date_range("2004-03-10", periods=96, freq="h")
    value = np.sin(np.arange(96) / 4).round(3).astype(str)
    value[[40, 41]] = ""
    lines = zip(hours.strftime("%d/%m/%Y"), hours.strftime("%H.%M.%S"), value, strict=True)
    (place / "log.csv").write_text("\n".join(["Date,Time,CO", *map(",".join, lines)]))
    done = call("impute", "log.csv", *QUICK, "--model-out", "log-model")
    given, filled = (
        pd.read_csv(source, dtype=str) for source in ("log.csv", io.StringIO(done.out))
    )
    pd.testing.assert_frame_equal(filled.where(given.notna()), given)
    assert filled["CO"].notna().all()
    (place / "then.csv").write_text("Date,Time\n15/03/2004,12.00.00\n")
    ahead = call("forecast", "log-model", "--times", "then.csv", "-q").out
    assert ahead.splitlines()[0] == "Date Time,CO,CO_std,CO_low,CO_high"
    assert ahead.splitlines()[1].startswith("15/03/2004 12:00:00,")
