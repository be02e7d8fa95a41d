"""``deeplfm forecast`` and ``deeplfm evaluate``: numbers of the library, in the files that were named."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import deeplfm

COMMAND = [sys.executable, "-c", "from deeplfm.cli import main; main()"]


def frame_of(text):
    return pd.read_csv(io.StringIO(text), index_col=0)


def test_the_table_is_that_of_the_library_and_alone_on_standard_output(place, call):
    done = call("forecast", "vitals-model", "--horizon", 4)
    expected = deeplfm.load("vitals-model").forecast(horizon=4)
    pd.testing.assert_frame_equal(frame_of(done.out), expected, rtol=1e-3)
    assert done.out.startswith("t,abp,abp_std,abp_low,abp_high,ecg,")
    assert done.err.startswith("Forecast of abp, ecg: 4 times from 7.0 to 7.3, 95 % intervals")
    assert call("forecast", "vitals-model", "--horizon", 4, "-o", "-", "-q").err == ""


def test_files_are_written_and_named(place, call):
    arguments = ["-o", "new/f.csv.gz", "--plot", "f.svg", "--report", "f.html"]
    done = call("forecast", "vitals-model", "--until", "7.4", *arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:] == ["Table: new/f.csv.gz", "Figure: f.svg", "Report: f.html"]
    table = pd.read_csv("new/f.csv.gz", index_col="t")
    np.testing.assert_allclose(table.index, [7.0, 7.1, 7.2, 7.3, 7.4])
    assert "<svg" in (place / "f.svg").read_text()
    assert "abp" in (place / "f.html").read_text()
    assert not list(place.rglob(".*"))


def test_without_a_table_nothing_but_the_figure(place, call):
    done = call("forecast", "vitals-model", "--horizon", 4, "--plot", "f.pdf")
    assert done.out.splitlines()[1:] == ["Figure: f.pdf"]
    assert (place / "f.pdf").read_bytes().startswith(b"%PDF")


def test_coverage_sets_the_width_of_intervals(place, call):
    wide, narrow = (
        frame_of(call("forecast", "vitals-model", "--horizon", 3, "--coverage", share).out)
        for share in (0.95, 0.5)
    )
    assert (
        narrow["abp_high"] - narrow["abp_low"] < 0.5 * (wide["abp_high"] - wide["abp_low"])
    ).all()
    assert narrow["abp"].equals(wide["abp"])


def test_times_of_ones_own(place, call):
    (place / "times.csv").write_text("t;other\n6,05;1\n8,5;2\n")
    table = frame_of(call("forecast", "vitals-model", "--times", "times.csv").out)
    expected = deeplfm.load("vitals-model").forecast(times=[6.05, 8.5])
    pd.testing.assert_frame_equal(table, expected, rtol=1e-3)


def test_covariates_stand_in_a_file_of_their_own_or_beside_the_times(place, call):
    future = pd.read_csv("driven-later.csv")
    expected = deeplfm.load("driven-model").forecast(horizon=3, covariates=future)
    own = call("forecast", "driven-model", "--horizon", 3, "--covariates", "driven-later.csv")
    pd.testing.assert_frame_equal(frame_of(own.out), expected, rtol=1e-3)
    future[:3][["t", "dose"]].to_csv("plan.csv", index=False)
    beside = call("forecast", "driven-model", "--times", "plan.csv", "--plot", "f.png", "-o", "-")
    pd.testing.assert_frame_equal(frame_of(beside.out), expected, rtol=1e-3)


def test_json_holds_the_table_where_no_file_does(place, call):
    content = json.loads(call("forecast", "vitals-model", "--horizon", 2, "--json").out)
    expected = deeplfm.load("vitals-model").forecast(horizon=2)
    assert content["table"]["t"] == [7.0, 7.1]
    assert content["table"]["ecg_high"] == pytest.approx(expected["ecg_high"].tolist(), rel=1e-3)
    done = call("forecast", "vitals-model", "--horizon", 2, "--json", "-o", "f.csv")
    assert json.loads(done.out) == {
        "model": "vitals-model",
        "rows": 2,
        "coverage": 0.95,
        "files": {"table": "f.csv"},
    }


def test_a_reader_that_has_seen_enough_is_no_error(place):
    forecast = [*COMMAND, "forecast", "vitals-model", "--horizon", "20000", "--quiet"]
    with subprocess.Popen(forecast, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"t,abp")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)


def test_scores_are_those_of_the_library(place, call):
    done = call("evaluate", "vitals-model", "later.csv", "--plot", "c.png", "--report", "c.html")
    assert (done.code, done.err) == (0, "")
    expected = deeplfm.load("vitals-model").evaluate(pd.read_csv("later.csv"))
    (line,) = (line.split() for line in done.out.splitlines() if line.split()[:1] == ["ecg"])
    assert line[1:3] == ["10", f"{expected.loc['ecg', 'nmse']:.3g}"]
    assert line[-1] == f"{expected.loc['ecg', 'coverage95']:.0%}"
    assert (place / "c.png").read_bytes().startswith(b"\x89PNG")
    assert (place / "c.html").exists()
    content = json.loads(call("evaluate", "vitals-model", "later.csv", "--json").out)
    assert content["scores"]["abp"]["crps"] == pytest.approx(expected.loc["abp", "crps"])


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_a_place_in_the_code(place, call):
    both = pd.concat([pd.read_csv("vitals.csv")[-5:], pd.read_csv("later.csv")])
    both.to_csv("both.csv", index=False)
    done = call("evaluate", "vitals-model", "both.csv", "--plot", "c.png")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith("warning: later: 10 of 30 values were known in training")
    assert ".py" not in line
    (scored,) = (line.split() for line in done.out.splitlines() if line.split()[:1] == ["abp"])
    assert scored[1] == "10"


def test_models_with_covariates_are_evaluated(place, call):
    done = call("evaluate", "driven-model", "driven-later.csv", "--plot", "c.png")
    assert (done.code, done.err) == (0, "")
    assert (place / "c.png").exists()


def test_times_may_stand_alone(place, call):
    (place / "times.csv").write_text("t\n7.05\n8.5\n")
    done = call("forecast", "vitals-model", "--times", "times.csv")
    assert frame_of(done.out).index.tolist() == [7.05, 8.5]
    (place / "alone.csv").write_text("t\n1\n2\n")
    assert "only one column found" in call("fit", "alone.csv", "-o", "none").err


def test_a_model_of_times_without_a_name_takes_the_tables_that_it_writes(place, call):
    frame = pd.DataFrame({"load": np.sin(np.arange(30.0))}, index=np.arange(30.0))
    deeplfm.DeepLFMForecaster(model="sinusoids + broadband", n_steps=1, progress=False).fit(
        frame
    ).save("nameless")
    later = call("forecast", "nameless", "--horizon", 4).out
    assert later.startswith("index,load,")
    (place / "later.csv").write_text(later)
    assert "load" in call("evaluate", "nameless", "later.csv").out
    (place / "other.csv").write_text("hour,load\n30,0.1\n31,0.2\n32,\n")
    assert call("evaluate", "nameless", "other.csv").code == 0
    filled = pd.read_csv(io.StringIO(call("impute", "other.csv", "--fitted", "nameless").out))
    assert filled["load"].notna().all() and filled["hour"].tolist() == [30, 31, 32]
    told = json.loads(call("impute", "other.csv", "--fitted", "nameless", "--json").out)
    assert list(told["table"]) == ["hour", "load"]


def test_the_table_of_covariates_alone_says_what_to_forecast(place, call):
    found = frame_of(call("forecast", "driven-model", "--covariates", "driven-later.csv").out)
    future = pd.read_csv("driven-later.csv")
    expected = deeplfm.load("driven-model").forecast(covariates=future)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-3)
    refused = call("forecast", "driven-model", "--horizon", 3, "--until", 9)
    assert refused.code == 2 and "give only one" in refused.err
