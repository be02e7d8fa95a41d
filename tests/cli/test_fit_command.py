"""``deeplfm fit`` as a user meets it: what it says, what it saves, and that it can be repeated."""

import io
import json
import os
import signal
import subprocess
import sys
import tomllib

import numpy as np
import pandas as pd
import pytest

import deeplfm

QUICK = ["--model", "sinusoids + broadband", "--n-steps", "3"]
SETTINGS = {"model", "effort", "n_steps"} | {
    *("batch_size", "time_limit", "patience", "input_dependent_noise", "device", "dtype"),
    *("compile", "random_state", "n_jobs", "backend", "log_targets", "checkpoint"),
}


def bits(folder):
    return deeplfm.load(folder).forecast(horizon=5).to_numpy().tobytes()


def test_it_prints_the_roles_of_columns_and_the_result(place, call):
    done = call("fit", "vitals.csv", "-o", "new", *QUICK, "--verbose")
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "vitals.csv: 70 rows, time in 't' (--time names another)"
    assert "Targets: abp, ecg" in lines
    assert "Left out, not numeric: note" in lines
    abp = next(line.split() for line in lines if line.split()[:1] == ["abp"])
    assert abp[1:3] == ["63", "7"]  # known, missing
    assert abp[3] == "none" or abp[4] == "%"  # variance predicted
    (candidate,) = (line for line in lines if line.split()[:1] == ["sinusoids"])
    assert candidate.count("(100 %)") == 2
    assert any(line.startswith("Fitted 1 candidate in ") for line in lines)
    assert lines[-1].startswith("Next: deeplfm forecast new --plot")
    assert "…" not in done.out


def test_the_command_it_proposes_works(place, call):
    done = call("fit", "vitals.csv", "-o", "new", *QUICK)
    proposal = done.out.splitlines()[-1].removeprefix("Next: deeplfm ").split()
    assert call(*proposal).code == 0
    assert (place / "forecast.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_is_that_of_the_library(place, call):
    assert call("fit", "vitals.csv", "-o", "new", *QUICK, "--seed", 3).code == 0
    model = deeplfm.DeepLFMForecaster(
        model="sinusoids + broadband", n_steps=3, random_state=3, n_jobs=-1
    )
    frame = pd.read_csv("vitals.csv", float_precision="round_trip")
    model.fit(frame, time="t", targets=["abp", "ecg"])
    assert model.forecast(horizon=5).to_numpy().tobytes() == bits("new")


def test_the_saved_configuration_repeats_the_run(place, call):
    assert call("fit", "vitals.csv", *QUICK, "--seed", 2, "-o", "first").code == 0
    kept = tomllib.loads((place / "first" / "run.toml").read_text())
    assert kept["time"] == "t"
    assert kept["target"] == ["abp", "ecg"]
    assert kept["out"] == "first"
    assert not {"json", "quiet", "debug", "config", "overwrite"} & set(kept)
    assert call("fit", "--config", "first/run.toml", "-o", "second").code == 0
    assert bits("second") == bits("first")
    again = tomllib.loads((place / "second" / "run.toml").read_text())
    assert again == kept | {"out": "second"}
    assert call("fit", "--config", "first/run.toml", "--overwrite").code == 0
    assert bits("first") == bits("second")


def test_the_command_line_wins_over_the_configuration(place, call):
    (place / "run.toml").write_text(
        'data = "vitals.csv"\nout = "new"\nmodel = "deep(2, 2) + broadband"\nn-steps = 3\nseed = 1\n'
        'target = "abp"\nquiet = true\n'
    )
    assert call("fit", "--config", "run.toml", "--seed", 5).out == ""
    model = deeplfm.load("new")
    assert model.random_state == 5
    assert model.targets_ == ["abp"]
    assert model.n_steps == 3
    assert model.model == "deep(2, 2) + broadband"


def test_a_table_of_candidates_in_the_configuration(place, call):
    candidates = {"cycles": "sinusoids + broadband", "line": "trend + broadband"}
    rows = "".join(f'{name} = "{text}"\n' for name, text in candidates.items())
    (place / "run.toml").write_text(
        f'data = "vitals.csv"\nout = "new"\nn_steps = 2\n[model]\n{rows}'
    )
    assert call("fit", "--config", "run.toml").code == 0
    assert set(deeplfm.load("new").selection_.index) == set(candidates)
    assert tomllib.loads((place / "new" / "run.toml").read_text())["model"] == candidates
    assert call("fit", "--config", "new/run.toml", "-o", "again").code == 0
    assert bits("again") == bits("new")


@pytest.mark.parametrize(
    "targets", [["--target", "abp", "--target", "ecg"], ["--target", "abp, ecg"]], ids=str
)
def test_targets_are_repeated_or_separated_by_commas(targets, place, call):
    assert call("fit", "vitals.csv", *QUICK, *targets, "-o", "new").code == 0
    assert deeplfm.load("new").targets_ == ["abp", "ecg"]


def test_a_name_with_a_comma_is_a_name(place, call):
    frame = pd.read_csv("vitals.csv").rename(columns={"abp": "abp, left"})
    frame.to_csv("comma.csv", index=False)
    assert call("fit", "comma.csv", *QUICK, "--target", "abp, left", "-o", "new").code == 0
    assert deeplfm.load("new").targets_ == ["abp, left"]


def test_the_folder_is_named_after_the_data(place, call):
    (place / "pressure.csv").write_bytes((place / "vitals.csv").read_bytes())
    assert "Model: pressure-model" in call("fit", "pressure.csv", *QUICK).out
    assert (place / "pressure-model" / "model.json").exists()


def test_data_from_standard_input(place, call, monkeypatch):
    piped = io.TextIOWrapper(io.BytesIO((place / "vitals.csv").read_bytes()))
    monkeypatch.setattr("sys.stdin", piped)
    assert call("fit", "-", "-o", "piped", *QUICK).code == 0
    assert bits("piped") == bits("vitals-model")


def test_dialects_and_dates(place, call):
    frame = pd.read_csv("vitals.csv")
    days = pd.date_range("2024-01-01", periods=len(frame)).strftime("%Y-%m-%d")
    frame = frame.assign(t=days).rename(columns={"t": "day"})
    frame.to_csv("daily.csv", index=False, sep=";", decimal=",")
    done = call("fit", "daily.csv", *QUICK, "--zone", "Europe/Berlin", "-o", "daily")
    assert "time in 'day'" in done.out
    table = call("forecast", "daily", "--horizon", 1).out.splitlines()
    assert table[0].startswith("day,abp,")
    assert table[1].startswith("2024-03-11,")


def test_rows_of_one_time_are_averaged_on_request(place, call):
    frame = pd.read_csv("vitals.csv")
    pd.concat([frame, frame]).to_csv("twice.csv", index=False)
    done = call("fit", "twice.csv", "--time", "t", *QUICK, "--duplicates", "mean", "-o", "new")
    assert done.code == 0
    assert len(deeplfm.load("new").training_) == 70


def test_json_is_all_there_is_on_standard_output(place, call):
    done = call("fit", "vitals.csv", "-o", "new", *QUICK, "--json", "--report", "r.html")
    content = json.loads(done.out)
    assert done.err == ""
    assert content["model"] == "new"
    assert content["rows"] == 70
    assert content["targets"]["ecg"]["missing"] == 3
    assert content["candidates"]["sinusoids + broadband"]["weight"] == {"abp": 1.0, "ecg": 1.0}
    assert content["interrupted"] is False
    assert set(content["settings"]) >= SETTINGS
    assert content["files"] == {"report": "r.html"}
    assert "<html" in (place / "r.html").read_text()[:200]


def test_quiet_says_nothing(place, call):
    done = call("fit", "vitals.csv", "-o", "new", *QUICK, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.filterwarnings("default")
def test_a_time_limit_is_for_all_candidates_and_untried_ones_are_reported(place, call):
    options = ("-v", "-o", "new", "--jobs", "1", "--time-limit", "0", "--n-steps", "1000")
    options = (*options, "--model", "ensemble")
    done = call("fit", "vitals.csv", *options)
    assert done.code == 0
    assert "warning: fit: --time-limit 0.0 left no time to try" in done.err
    (row,) = [line for line in done.out.splitlines() if "Not tried: " in line]
    assert "season" in row
    content = json.loads(call("info", "new", "--json").out)
    assert {"season", "linear autoregression"} <= set(content["untried"])


def test_a_model_is_replaced_only_on_request_and_leaves_other_files(place, call):
    (place / "vitals-model" / "notes.txt").write_text("mine")
    before = bits("vitals-model")
    arguments = ["fit", "vitals.csv", "-o", "vitals-model", *QUICK, "--target", "ecg"]
    assert call(*arguments).code == 2
    assert bits("vitals-model") == before
    assert call(*arguments, "--overwrite").code == 0
    assert deeplfm.load("vitals-model").targets_ == ["ecg"]
    assert (place / "vitals-model" / "notes.txt").read_text() == "mine"


def test_every_setting_of_the_library_is_an_option(call):
    from deeplfm.cli.options import FitOptions

    assert set(FitOptions().parameters()) == SETTINGS
    usual = deeplfm.DeepLFMForecaster().get_params()
    assert FitOptions().parameters() == {name: usual[name] for name in SETTINGS} | {"n_jobs": -1}
    assert SETTINGS == set(usual) - {"progress", "is_series", "prior"}


DRIVER = """
import os, signal
from deeplfm.cli import main
from deeplfm.training import progress

def interrupt(self, step, n_steps, loss):
    if step == 4:
        os.kill(os.getpid(), signal.SIGINT)

progress.Silent.update = interrupt
main()
"""


def interrupted(place, *arguments):
    return subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # jobs in the background ignore it, and hand that on to their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_ctrl_c_keeps_the_best_model_so_far(place):
    done = interrupted(
        place,
        "fit",
        "vitals.csv",
        "--model",
        "sinusoids + broadband",
        "--n-steps",
        "100000",
        "-o",
        "early",
    )
    assert done.returncode == 130
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: fit: interrupted.")
    assert "Interrupted: early holds the best model so far." in done.stdout
    model = deeplfm.load(place / "early")
    assert model.regressor_.fit_result_.interrupted
    assert len(model.forecast(horizon=3)) == 3
    assert tomllib.loads((place / "early" / "run.toml").read_text())["n_steps"] == 100000


def test_ctrl_c_while_imputing_fills_with_the_best_so_far(place):
    done = interrupted(
        place,
        "impute",
        "vitals.csv",
        "--model",
        "sinusoids + broadband",
        "--n-steps",
        "100000",
        "-o",
        "full.csv",
    )
    assert done.returncode == 130
    assert "Interrupted: full.csv" in done.stdout
    assert pd.read_csv(place / "full.csv")[["abp", "ecg"]].notna().all(axis=None)


def test_measurement_errors_are_a_column_and_no_target(place, call):
    rows = ["t,flux,error"]
    rows += [
        f"{n},{np.sin(n / 3) + (n % 9 == 0):.4f},{2.0 if n % 9 == 0 else 0.05}" for n in range(60)
    ]
    (place / "star.csv").write_text("\n".join(rows))
    fit = ["fit", "star.csv", "--effort", "fast", "--measurement-error", "error", "-o", "star"]
    done = call(*fit)
    assert done.code == 0 and "Targets: flux\n" in done.out
    assert "held-out" not in done.out  # nothing was held out, and so nothing is shown of it
    model = deeplfm.load("star")
    assert model.measurement_error_ == {"flux": "error"}
    assert float(model.forecast(1)["flux_std"].iloc[0]) < 1
    (place / "later.csv").write_text("t,flux,error\n60,0.91,0.05\n")
    assert call("update", "star", "later.csv", "-o", "star-2").code == 0
    assert call("evaluate", "star", "later.csv").code == 0
    many = "unique_id,ds,y,error\n" + "\n".join(f"a,{n},{n % 4},1" for n in range(20))
    (place / "many.csv").write_text(many)
    refused = call("fit", "many.csv", "--measurement-error", "error")
    assert refused.code == 2 and "several series" in refused.err
