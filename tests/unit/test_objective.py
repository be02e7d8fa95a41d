"""Objectives against closed forms: evidence of a linear model, means of densities, parts of a batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.distributions import MultivariateNormal

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.model import DeepLFM
from deeplfm.objective import OBJECTIVES, Batch, collapsed, elbo, objective

X = torch.linspace(0, 2, 9, dtype=torch.float64)[:, None]
Y = torch.stack([torch.sin(3 * X[:, 0]), X[:, 0] - 1], -1)
Y[2, 0] = torch.nan
NOISE = 0.3


def model_of(weights: str = "exact") -> DeepLFM:
    """One layer of fixed frequencies: a Bayesian linear model in its columns."""
    block = BlockConfig(n_features=3, frequencies="prior-fixed")
    model = DeepLFM(ModelConfig(1, (LayerConfig(2, (block,), weights=weights),)), seed=0).double()
    with torch.no_grad():
        model.likelihood.log_variance.fill_(math.log(NOISE))
    return model


def evidence(model: DeepLFM, scale: float = 1.0) -> float:
    """log p(y) of a linear model with weights N(0, I): y ~ N(0, ΦΦᵀ + σ²I), each output by itself.

    Rows that stand for ``scale`` rows each are rows of noise σ²/scale; the powers of their densities
    have another constant.
    """
    total = 0.0
    for d in range(2):
        known = ~Y[:, d].isnan()
        columns, n = columns_of(model, d)[known], int(known.sum())
        covariance = columns @ columns.T + NOISE / scale * torch.eye(n, dtype=torch.float64)
        law = MultivariateNormal(torch.zeros(n, dtype=torch.float64), covariance)
        total += law.log_prob(Y[known, d]).item()
        total += (
            n / 2 * (math.log(2 * math.pi * NOISE / scale) - scale * math.log(2 * math.pi * NOISE))
        )
    return total


def columns_of(model: DeepLFM, output: int) -> torch.Tensor:
    """The columns, as what each weight alone adds to an output."""
    weights = model.output_layer.weights
    kept = weights.precision.clone(), weights.shift.clone()
    found = []
    for k in range(weights.shift.shape[-2]):
        weights.precision.copy_(torch.eye(weights.precision.shape[-1]).double())
        weights.shift.zero_()
        weights.shift[..., k, :] = 1.0
        weights.refresh()
        found.append(model.posterior(X).mean[:, output])
    weights.precision.copy_(kept[0])
    weights.shift.copy_(kept[1])
    weights.refresh()
    return torch.stack(found, -1)


@pytest.mark.parametrize("n_rows", [len(X), 4 * len(X)])
@pytest.mark.parametrize("name", ["function", "registered"])
def test_the_collapsed_bound_of_one_layer_is_the_evidence(n_rows: int, name: str) -> None:
    model = model_of()
    bound = collapsed if name == "function" else objective("collapsed")
    found = bound(model, Batch(X, Y, n_rows), 1, None)
    torch.testing.assert_close(found.item(), evidence(model, n_rows / len(X)), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(elbo(model, Batch(X, Y, n_rows), 1), found)


def test_a_rate_moves_the_weights_a_part_of_the_way() -> None:
    model, whole = model_of(), model_of()
    collapsed(whole, Batch(X, Y, len(X)), 1)
    objective("collapsed", natural_rate=0.25)(model, Batch(X, Y, len(X)), 1, None)
    expected = whole.output_layer.weights.shift / 4
    torch.testing.assert_close(model.output_layer.weights.shift, expected)


def weights_for(name: str) -> str:
    return "exact" if name == "collapsed" else "mean-field"


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("part", ["kl", "penalty"])
def test_divergence_and_penalty_are_subtracted_by_share(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = model_of(weights_for(name)), Batch(X, Y, 50, n_batch=18)
    owner = model if part == "kl" else model.likelihood
    value = getattr(owner, part)()

    def bound() -> torch.Tensor:
        return objective(name)(model, batch, 2, torch.Generator().manual_seed(0))

    before = bound() + batch.share * (value if name != "collapsed" else getattr(owner, part)())
    monkeypatch.setattr(owner, part, lambda: torch.tensor(7.0, dtype=torch.float64))
    torch.testing.assert_close(bound(), before - 0.5 * 7.0)


@pytest.mark.parametrize("name", ["predictive", "sampled-predictive"])
def test_densities_are_averaged_over_samples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = (
        model_of("mean-field"),
        Batch(X, Y, len(X), row_weight=torch.arange(9.0).double()),
    )
    density = torch.rand(3, 9, 2, dtype=torch.float64)
    method = "log_marginal" if name == "predictive" else "log_prob"
    other = model.kl() + model.likelihood.penalty()
    weight = torch.arange(9.0).double()[:, None] * ~Y.isnan()
    for value, mean in ((density, density.exp().mean(0).log()), (density[0], density[0])):
        monkeypatch.setattr(model.likelihood, method, lambda *_, value=value: value)
        found = objective(name)(model, batch, 3, None)
        torch.testing.assert_close(found, (weight * mean).sum() - other)


@pytest.mark.parametrize("name", ["elbo", "predictive", "collapsed"])
def test_parts_of_a_batch_add_up(name: str) -> None:
    model = model_of(weights_for(name))
    whole = objective(name, natural_rate=0.0)
    batch = Batch(X, Y, 30, n_batch=len(X))
    parts = [replace(batch, x=X[rows], y=Y[rows]) for rows in (slice(4), slice(4, None))]
    total = sum(whole(model, part, 1, None) for part in parts)
    torch.testing.assert_close(total, whole(model, batch, 1, None))


def test_names_that_are_not_known_are_refused() -> None:
    assert objective("elbo") is elbo
    with pytest.raises(ConfigError, match=r"objective: 'other' is not known\. Choose one of elbo"):
        objective("other")
