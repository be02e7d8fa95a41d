"""Predictions of logarithms, converted to values, agree with integrals and draws."""

import numpy as np
import pytest
import torch

from deeplfm.predictive.mixture import Predictive
from deeplfm.predictive.transformed import Exponential

IS_LOG = torch.tensor([True, False])
GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


INNER = Predictive(
    0.5 * normal(3, 4, 2),
    0.1 + 0.1 * normal(3, 4, 2).square(),
    0.05 + 0.0 * normal(3, 4, 2),
    torch.tensor([[0.5, 0.2], [0.3, 0.3], [0.2, 0.5]], dtype=torch.float64),
)
OUTER = Exponential(INNER, IS_LOG)
GRID = torch.linspace(1e-4, 60, 600_001, dtype=torch.float64)


def integral(function: torch.Tensor) -> float:
    return float(torch.trapezoid(function, GRID))


def density(row: int, latent: bool) -> torch.Tensor:
    """Density along the grid, of the output that is modelled by its logarithm."""
    one = Predictive(
        INNER.component_mean[:, [row]].expand(-1, len(GRID), -1),
        INNER.component_variance[:, [row]].expand(-1, len(GRID), -1),
        INNER.component_noise[:, [row]].expand(-1, len(GRID), -1),
        INNER.weight,
    )
    target = torch.stack([GRID, GRID], dim=1)
    return Exponential(one, IS_LOG).log_prob(target, latent)[:, 0].exp()


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("row", range(4))
def test_moments_and_scores_are_integrals_of_the_density(row: int, latent: bool) -> None:
    p = density(row, latent)
    assert integral(p) == pytest.approx(1, abs=1e-6)
    mean = integral(GRID * p)
    variance = integral((GRID - mean).square() * p)
    assert float(OUTER.variance(latent)[row, 0]) == pytest.approx(variance, rel=1e-4)
    below = torch.cumulative_trapezoid(p, GRID)
    for value in (0.3, 1.7):
        target = torch.full((4, 2), value, dtype=torch.float64)
        reached = float(below[int((value - 1e-4) / float(GRID[1] - GRID[0])) - 1])
        assert float(OUTER.cdf(target, latent)[row, 0]) == pytest.approx(reached, abs=2e-4)
        step = (GRID[1:] >= value).double()
        score = float(torch.trapezoid((below - step).square(), GRID[1:]))
        assert float(OUTER.crps(target, latent)[row, 0]) == pytest.approx(score, rel=1e-3)


def test_other_outputs_stay_as_they_are() -> None:
    target = torch.full((4, 2), 0.7, dtype=torch.float64)
    for name in ("log_prob", "cdf", "crps"):
        outer, inner = getattr(OUTER, name)(target), getattr(INNER, name)(target)
        assert outer[:, 1].equal(inner[:, 1])
        assert not torch.allclose(outer[:, 0], inner[:, 0])
    assert OUTER.mean[:, 1].equal(INNER.mean[:, 1])
    assert OUTER.variance()[:, 1].equal(INNER.variance()[:, 1])


def test_quantiles_are_reached_with_their_probability() -> None:
    low, high = OUTER.interval(0.9)
    torch.testing.assert_close(OUTER.cdf(low), torch.full_like(low, 0.05))
    torch.testing.assert_close(OUTER.cdf(high), torch.full_like(high, 0.95))
    assert bool((low[:, 0] > 0).all())


def test_draws_have_the_median_and_the_spread() -> None:
    draws = OUTER.sample(40_000, seed=1)
    # five standard errors of a proportion: one run in 200 000 fails by chance
    below = (draws < OUTER.mean).double().mean(0)[:, 0]
    assert bool(((below - 0.5).abs() < 5 * 0.5 / np.sqrt(len(draws))).all())
    assert bool((draws[..., 0] > 0).all())
    torch.testing.assert_close(draws.std(0), OUTER.std(), rtol=0.1, atol=0)


def test_values_below_zero_are_impossible_and_their_score_grows_with_the_distance() -> None:
    target = torch.full((4, 2), -2.0, dtype=torch.float64)
    assert OUTER.log_prob(target)[:, 0].tolist() == [-np.inf] * 4
    assert OUTER.cdf(target)[:, 0].tolist() == [0.0] * 4
    at_zero = OUTER.crps(torch.zeros_like(target))[:, 0]
    torch.testing.assert_close(OUTER.crps(target)[:, 0], at_zero + 2)
    missing = torch.full((4, 2), torch.nan, dtype=torch.float64)
    assert bool(OUTER.log_prob(missing).isnan().all())


def test_a_huge_variance_stays_finite() -> None:
    vague = torch.full((1, 1, 1), 1e4, dtype=torch.float64)
    outer = lognormal(vague * 0, vague)
    assert bool(outer.mean.isfinite().all()) and bool(outer.std().isfinite().all())


@pytest.mark.parametrize("variance", [1e-4, 1.0, 30.0, 200.0])
def test_the_score_of_a_wide_prediction_does_not_cancel(variance: float) -> None:
    outer = lognormal(*torch.tensor([0.3, variance], dtype=torch.float64).reshape(2, 1, 1, 1))
    found = float(outer.crps(torch.ones(1, 1, dtype=torch.float64)))
    assert found == pytest.approx(by_distribution(0.3, variance), rel=1e-3)


def by_distribution(mean: float, variance: float) -> float:
    """∫ (F − 1{y ≥ 1})² dy along logarithms of y."""
    z = torch.linspace(-60, 600, 2_000_001, dtype=torch.float64)
    share = torch.special.log_ndtr(torch.where(z < 0, z - mean, mean - z) / np.sqrt(variance))
    return float(torch.trapezoid((2 * share + z).exp(), z))


def lognormal(mean: torch.Tensor, variance: torch.Tensor) -> Exponential:
    one = torch.ones(1, 1, dtype=torch.float64)
    return Exponential(Predictive(mean, variance, 0 * variance, one), torch.tensor([True]))
