"""Simulation-based calibration: ranks of true quantities among draws of the posterior are uniform.

A function is drawn from the prior, rows with gaps are observed with noise, and the model is conditioned
on them. If posterior and draws are right, the rank of any quantity of the true function among its values
in the draws is uniform (Talts et al. 2018). The ranks of 14 quantities are tested by χ², and the smallest
p value times 14 must exceed 0.01: with fresh seeds, a right implementation would fail each of the two
tests with probability 0.01 at most. The seeds are fixed: it fails always or never.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, elbo
from deeplfm.randomness import generator_for

pytestmark = pytest.mark.slow
N_RUNS, N_DRAWS, LEAST_P = 500, 19, 0.01
N_OBSERVED = 24
ROWS = torch.cat([torch.linspace(0, 4, N_OBSERVED), torch.linspace(4.2, 6, 8)]).double()[:, None]
OBSERVED = slice(N_OBSERVED)
MISSING = torch.zeros(N_OBSERVED, 2, dtype=torch.bool)
MISSING[5:11, 0] = True
MISSING[::4, 1] = True
# Values where they are known, in a gap, at the end and after it, and functions of the whole curve.
QUANTITIES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    **{
        f"output {d} at row {row}": lambda f, y, v, row=row, d=d: f[:, row, d]
        for row in (2, 8, N_OBSERVED - 1, N_OBSERVED + 1, len(ROWS) - 1)
        for d in (0, 1)
    },
    "mean after the end": lambda f, y, v: f[:, N_OBSERVED:].mean((1, 2)),
    "largest value after the end": lambda f, y, v: f[:, N_OBSERVED:].amax((1, 2)),
    "range of the curve": lambda f, y, v: f[:, :, 0].amax(1) - f[:, :, 0].amin(1),
    "log likelihood": lambda f, y, v: -(f[:, OBSERVED] - y).square().nansum((1, 2)) / (2 * v),
}


@torch.no_grad()
def model_of(weights: str) -> DeepLFM:
    blocks = (
        BlockConfig(n_features=4, frequencies="prior-fixed", extras=("constant", "trend")),
        BlockConfig("eq", n_features=3, frequencies="prior-fixed"),
    )
    config = ModelConfig(1, (LayerConfig(2, blocks, weights=weights),))
    model = DeepLFM(config, seed=3).double()
    model.likelihood.log_variance.fill_(math.log(0.09))
    return model


def noise_variance(model: DeepLFM) -> float:
    return float(model.posterior(ROWS).component_noise.flatten()[0])


def condition_exact(model: DeepLFM, y: Tensor) -> None:
    model.condition(ROWS[OBSERVED], y)


@torch.no_grad()
def condition_full(model: DeepLFM, y: Tensor) -> None:
    """Put the optimum of a full covariance into its parameters."""
    exact = model_of("exact")
    condition_exact(exact, y)
    solved, weights = exact.output_layer.weights, model.output_layer.weights
    root = torch.linalg.cholesky(solved.root @ solved.root.mT)
    diagonal = root.diagonal(dim1=-2, dim2=-1)
    weights.raw_root.copy_(root.tril(-1) + torch.diag_embed(diagonal.log()))
    weights.mean.copy_(solved.mean)


CONDITIONING = {"exact": condition_exact, "full": condition_full}


def observed(function: Tensor, variance: float, run: int) -> Tensor:
    noise = torch.randn(N_OBSERVED, 2, generator=generator_for(run, "observation"))
    y = function[OBSERVED] + math.sqrt(variance) * noise.double()
    return torch.where(MISSING, torch.nan, y)


def p_values(weights: str, spread: float = 1.0) -> dict[str, float]:
    """Of the ranks of every quantity; ``spread`` makes the draws too narrow or too wide."""
    prior = model_of("exact")
    variance = noise_variance(prior)
    counts = torch.zeros(len(QUANTITIES), N_DRAWS + 1)
    for run in range(N_RUNS):
        truth = prior.draw(ROWS, 1, 2 * run)
        y = observed(truth[0], variance, run)
        model = model_of(weights)
        CONDITIONING[weights](model, y)
        draws = model.draw(ROWS, N_DRAWS, 2 * run + 1)
        center = model.posterior(ROWS).mean
        draws = center + spread * (draws - center)
        for index, quantity in enumerate(QUANTITIES.values()):
            rank = int((quantity(draws, y, variance) < quantity(truth, y, variance)).sum())
            counts[index, rank] += 1
    return {
        name: float(chisquare(row).pvalue)
        for name, row in zip(QUANTITIES, counts.numpy(), strict=True)
    }


@pytest.mark.parametrize("weights", CONDITIONING)
def test_the_posterior_is_calibrated(weights: str) -> None:
    found = p_values(weights)
    worst = min(found, key=lambda name: found[name])
    assert len(found) >= 10
    assert len(found) * found[worst] > LEAST_P, (worst, found)


@pytest.mark.parametrize("spread", [0.8, 1.25])
def test_intervals_of_the_wrong_width_are_found(spread: float) -> None:
    found = p_values("exact", spread)
    assert len(found) * min(found.values()) < LEAST_P


def test_the_full_covariance_is_at_its_optimum() -> None:
    """So that its calibration is that of the best q(W), which training looks for."""
    model = model_of("full")
    y = observed(model_of("exact").draw(ROWS, 1, 0)[0], noise_variance(model), 0)
    condition_full(model, y)
    value = elbo(model, Batch(ROWS[OBSERVED], y, N_OBSERVED), 1, generator_for(0, "step"))
    weights = model.output_layer.weights
    gradients = torch.autograd.grad(value, [weights.mean, weights.raw_root])
    assert all(float(gradient.tril().abs().max()) < 1e-7 for gradient in gradients)
