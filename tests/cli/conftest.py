"""A small record of vital signs, a model of it, and the command line on them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from deeplfm.cli import main

QUICK = ["--model", "sinusoids + broadband", "--n-steps", "3"]
TABLE = ["--target", "abp", "--model", "table", "--n-steps", "3"]


def record(n_rows: int = 80) -> pd.DataFrame:
    noise = np.random.default_rng(0).normal(size=(2, n_rows))
    t = np.round(0.1 * np.arange(n_rows), 1)
    frame = pd.DataFrame(
        {
            "t": t,
            "abp": 80 + 10 * np.sin(3 * t) + noise[0],
            "ecg": np.cos(5 * t) + 0.1 * noise[1],
            "note": "ok",
        }
    )
    frame.loc[20:26, "abp"] = np.nan
    frame.loc[40:42, "ecg"] = np.nan
    return frame


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys):
    """Run a command line in this process."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        return Done(exit_.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A folder with data, later data, and models."""
    folder = tmp_path_factory.mktemp("fitted")
    frame = record()
    frame[:70].to_csv(folder / "vitals.csv", index=False)
    frame[70:].to_csv(folder / "later.csv", index=False)
    driven = frame.drop(columns="note").assign(dose=np.sin(np.arange(80)))
    driven[:70].to_csv(folder / "driven.csv", index=False)
    driven[70:].to_csv(folder / "driven-later.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (
            ["vitals.csv", "-o", "vitals-model", *QUICK],
            ["driven.csv", "-o", "driven-model", "--covariate", "dose", *TABLE],
        ):
            with pytest.raises(SystemExit) as exit_:
                main(["fit", *arguments, "--quiet"])
            assert exit_.value.code == 0
    return folder


@pytest.fixture
def place(fitted, tmp_path, monkeypatch):
    """A copy of that folder, as the working folder."""
    folder = tmp_path / "place"
    shutil.copytree(fitted, folder)
    monkeypatch.chdir(folder)
    return folder
