"""Predictions with a floor and a cap, against draws and quadrature of the clipped variable."""

import math

import pytest
import torch
from scipy.integrate import quad

from deeplfm.predictive.mixture import Predictive
from deeplfm.predictive.transformed import Clipped, Exponential

FLOOR, CAP = 0.0, 3.0


def inner() -> Predictive:
    """Two components, two rows, two outputs; some lie far below the floor, some above the cap."""
    mean = torch.tensor([[[0.2, 1.0], [-4.0, 5.0]], [[1.5, 2.0], [0.1, 2.9]]], dtype=torch.float64)
    variance = torch.full_like(mean, 0.6)
    noise = torch.full_like(mean, 0.3)
    weight = torch.tensor([[0.3, 0.5], [0.7, 0.5]], dtype=torch.float64)
    return Predictive(mean, variance, noise, weight)


def bounds(low: float = FLOOR, high: float = CAP) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((2,), low).double(), torch.full((2,), high).double()


def test_moments_are_those_of_clipped_draws() -> None:
    clipped = Clipped(inner(), *bounds())
    draws = inner().sample(400_000, seed=1).clamp(FLOOR, CAP)
    # failure rate 1e-6: standard errors are below 1.2/632
    assert torch.allclose(clipped.mean, draws.mean(0), atol=0.01)
    assert torch.allclose(clipped.variance(), draws.var(0), atol=0.02)


def test_scores_are_those_of_the_clipped_distribution() -> None:
    clipped, target = Clipped(inner(), *bounds()), torch.tensor([[0.5, 2.0], [0.0, 3.0]]).double()
    found = clipped.crps(target)
    for row in range(2):
        for d in range(2):

            def step(z: float, row: int = row, d: int = d) -> float:
                at = torch.full((2, 2), z).double()
                return float((clipped.cdf(at)[row, d] - float(z >= target[row, d])) ** 2)

            y = float(target[row, d])
            expected = quad(step, FLOOR, y)[0] + quad(step, y, CAP)[0]
            assert found[row, d] == pytest.approx(expected, abs=1e-4)
    density = clipped.log_prob(target)
    assert density[0, 0] == inner().log_prob(target)[0, 0]
    at_floor = inner().cdf(torch.zeros(2, 2).double())[1, 0]
    assert density[1, 0] == pytest.approx(math.log(at_floor))


def test_quantiles_and_draws_stay_within_the_bounds() -> None:
    clipped = Clipped(inner(), *bounds())
    for values in (clipped.quantile([0.001, 0.5, 0.999]), clipped.sample(1000)):
        assert values.min() == FLOOR and values.max() == CAP


def test_without_bounds_nothing_changes() -> None:
    free, target = Clipped(inner(), *bounds(-math.inf, math.inf)), torch.ones(2, 2).double()
    assert torch.allclose(free.mean, inner().mean)
    assert torch.allclose(free.variance(), inner().variance())
    assert torch.allclose(free.crps(target), inner().crps(target))
    assert torch.allclose(free.log_prob(target), inner().log_prob(target))


def test_logarithms_are_clipped_too() -> None:
    wide = Exponential(inner(), torch.tensor([True, False]))
    clipped = Clipped(wide, *bounds(0.0, 3.0))
    assert clipped.mean.max() <= 3
    assert (clipped.variance() <= wide.variance()).all()
