"""Scores as rows, and the file they are written to."""

import json
import math
import os
from dataclasses import asdict, replace

import pytest
import torch

from deeplfm.errors import InputError
from deeplfm.experiments.scores import ScoreRow, score, write_json
from deeplfm.io.files import versions
from deeplfm.predictive.mixture import Predictive, coverage, mnll, nmse

N = 6
LABELS = {"model": "GP", "split": "extrapolation", "seed": 3, "seconds": 1.5}
ROW = ScoreRow("GP", "extrapolation", "0", 3, 0.5, 1.25, 0.9, 1.5)


def standard_normal(n=N, n_outputs=2):
    mean = torch.zeros(1, n, n_outputs, dtype=torch.float64)
    weight = torch.ones(1, n_outputs, dtype=torch.float64)
    return Predictive(mean, mean + 0.75, mean[0] + 0.25, weight, lambda count, seed: mean)


TARGET = torch.tensor(
    [[0.1, 3.0], [-1.0, 0.2], [0.5, -2.5], [1.9, 0.0], [0.3, 1.0], [-0.4, -0.1]],
    dtype=torch.float64,
)


def test_one_row_for_each_output():
    posterior = standard_normal()
    first, second = score(posterior, TARGET, **LABELS, outputs=["abp", "ecg"])
    assert (first.output, second.output) == ("abp", "ecg")
    assert first.coverage95 == 1.0
    assert second.coverage95 == pytest.approx(4 / 6)
    assert second.nmse == pytest.approx(nmse(posterior.mean, TARGET)[1].item())
    assert second.mnll == pytest.approx(mnll(posterior, TARGET)[1].item())
    density = 0.5 * math.log(2 * math.pi) + 0.5 * TARGET[:, 0].square().mean().item()
    assert first.mnll == pytest.approx(density)
    assert (first.model, first.split, first.seed, first.seconds) == tuple(LABELS.values())


def test_missing_targets_select_a_split():
    kept = torch.tensor([1, 2, 5])
    masked = torch.full_like(TARGET, torch.nan)
    masked[kept] = TARGET[kept]
    found = score(standard_normal(), masked, **LABELS)
    expected = score(standard_normal(3), TARGET[kept], **LABELS)
    for left, right in zip(found, expected, strict=True):
        assert asdict(left) == pytest.approx(asdict(right))
    part = standard_normal(3)
    assert found[1].coverage95 == pytest.approx(coverage(part, TARGET[kept])[1].item())


def test_shapes_and_names_are_checked():
    with pytest.raises(InputError, match=r"\(6, 2\) and \(5, 2\)"):
        score(standard_normal(), TARGET[:5], **LABELS)
    with pytest.raises(InputError, match="1 names for 2 outputs"):
        score(standard_normal(), TARGET, **LABELS, outputs=["abp"])


def test_file_has_rows_versions_and_settings(tmp_path):
    path = tmp_path / "scores.json"
    write_json(path, [ROW, replace(ROW, nmse=math.nan, mnll=math.inf)], {"seed": 3})
    text = path.read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["rows"][0] == asdict(ROW)
    assert content["rows"][1]["nmse"] is None
    assert content["rows"][1]["mnll"] is None
    assert content["settings"] == {"seed": 3}
    assert content["versions"] == versions()
    assert {"deeplfm", "torch", "numpy", "gpytorch", "python"} <= set(content["versions"])
    assert os.listdir(tmp_path) == ["scores.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    write_json(path, [ROW], {})
    before = path.read_bytes()

    def full_disk(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_json(path, [], {})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["scores.json"]


def test_settings_that_are_not_json_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "scores.json", [ROW], {"rate": math.nan})
    assert os.listdir(tmp_path) == []
