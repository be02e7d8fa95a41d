"""Scores of a prediction, by output."""

import math

import pytest
import torch

from deeplfm.errors import InputError
from deeplfm.experiments.scores import score
from deeplfm.predictive.mixture import Predictive, coverage, mnll, nmse

N = 6


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
    first, second = score(posterior, TARGET, "extrapolation", ["abp", "ecg"])
    assert (first["output"], second["output"]) == ("abp", "ecg")
    assert first["coverage95"] == 1.0
    assert second["coverage95"] == pytest.approx(4 / 6)
    assert second["nmse"] == pytest.approx(nmse(posterior.mean, TARGET)[1].item())
    assert second["mnll"] == pytest.approx(mnll(posterior, TARGET)[1].item())
    density = 0.5 * math.log(2 * math.pi) + 0.5 * TARGET[:, 0].square().mean().item()
    assert first["mnll"] == pytest.approx(density)
    assert first["split"] == "extrapolation"


def test_missing_targets_select_a_split():
    kept = torch.tensor([1, 2, 5])
    masked = torch.full_like(TARGET, torch.nan)
    masked[kept] = TARGET[kept]
    found = score(standard_normal(), masked, "extrapolation")
    expected = score(standard_normal(3), TARGET[kept], "extrapolation")
    for left, right in zip(found, expected, strict=True):
        assert left == pytest.approx(right)
    part = standard_normal(3)
    assert found[1]["coverage95"] == pytest.approx(coverage(part, TARGET[kept])[1].item())


def test_shapes_and_names_are_checked():
    with pytest.raises(InputError, match=r"\(6, 2\) and \(5, 2\)"):
        score(standard_normal(), TARGET[:5], "extrapolation")
    with pytest.raises(InputError, match="1 names for 2 outputs"):
        score(standard_normal(), TARGET, "extrapolation", ["abp"])
