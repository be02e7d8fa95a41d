"""``deeplfm tune``."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from deeplfm.cli import main

pytest.importorskip("optuna")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--n-steps", "2", "--jobs", "1", "--folds", "2"])
    return ended.value.code or 0


def test_models_and_settings_are_tried_kept_and_printed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    month = np.arange(48)
    pd.DataFrame({"month": month, "load": np.sin(month * 2 * np.pi / 12)}).to_csv(
        "load.csv", index=False
    )
    varied = ["--vary", "input_dependent_noise=false,true", "--study", "study.db", "-q"]
    command = ["tune", "load.csv", "trend + season(12)", "--time", "month", *varied]
    assert run(*command, "-o", "trials.csv") == 0
    assert len(pd.read_csv("trials.csv")) == 2
    capsys.readouterr()
    assert run(*command, "--json") == 0  # again: the trials are there
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["model"] == "trend + season(12)"
    assert found["best"]["input_dependent_noise"] in (True, False)
    table = pd.read_csv("trials.csv")
    np.testing.assert_allclose(found["table"]["score"], table["score"], rtol=1e-9)
    assert run("tune", "load.csv", "trend", "--time", "month", "--vary", "n_steps") == 2
    assert "--vary: 'n_steps' found" in capsys.readouterr().err
