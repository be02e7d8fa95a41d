"""Noise is inflated beyond the data of a series, and not among them."""

import math

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.likelihoods import Gaussian
from deeplfm.likelihoods.base import MAX_SEGMENTS

TIME = torch.linspace(0, 1, 101)[:, None]


def likelihood(y: torch.Tensor, reach: float = 0.2, inflation: float = 9.0) -> Gaussian:
    found = Gaussian(1, y.shape[1])
    found.inflation.fill_(inflation)
    found.set_support(TIME, y, reach)
    return found


def at(*times: float) -> torch.Tensor:
    return torch.tensor(times)[:, None]


def test_without_a_support_all_rows_are_remote() -> None:
    plain = Gaussian(2, 3)
    plain.inflation.fill_(4.0)
    x = torch.randn(5, 2)
    assert torch.equal(plain.remoteness(x), torch.ones(5, 3))
    torch.testing.assert_close(plain.predictive_variance(x), 4 * plain.variance(x))
    plain.extend_support(x, torch.zeros(5, 3))  # a table has no time
    assert torch.equal(plain.remoteness(x), torch.ones(5, 3))


def test_remoteness_grows_with_the_distance_to_the_nearest_known_target() -> None:
    y = torch.zeros(101, 2)
    y[30:50, 0] = math.nan  # known up to 0.29 and from 0.5 on
    y[:10, 1] = math.nan
    found = likelihood(y).remoteness(at(-0.1, 0.05, 0.2, 0.395, 0.49, 1.1, 3.0))
    expected = torch.tensor(
        [[0.5, 1.0], [0.0, 0.25], [0.0, 0.0], [0.525, 0.0], [0.05, 0.0], [0.5, 0.5], [1.0, 1.0]]
    )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_variance_is_the_fitted_one_inside_and_all_inflated_beyond_reach() -> None:
    found = likelihood(torch.zeros(101, 1))
    ratio = found.predictive_variance(at(0.5, 1.1, 2.0)) / found.variance(at(0.5, 1.1, 2.0))
    torch.testing.assert_close(ratio[:, 0], torch.tensor([1.0, 3.0, 9.0]), atol=1e-4, rtol=0)


def test_further_rows_extend_the_support_and_close_gaps() -> None:
    y = torch.zeros(101, 1)
    y[30:50] = math.nan
    found = likelihood(y)
    found.extend_support(TIME[30:50], torch.zeros(20, 1))
    found.extend_support(1 + TIME[1:21], torch.zeros(20, 1))
    assert found.remoteness(at(0.4, 1.1, 1.2)).abs().max() < 1e-5
    assert found.support[0].isfinite().all(-1).sum() == 1


def test_of_very_many_gaps_the_longest_are_stored() -> None:
    pieces = torch.arange(3.0 * MAX_SEGMENTS)
    time = torch.cat([10 * pieces + step for step in torch.linspace(0, 1, 5)])
    time = time + 50.0 * (time >= 1000)  # one gap above all others
    found = Gaussian(1, 1)
    found.set_support(time[:, None], torch.zeros(len(time), 1), reach=1.0)
    assert found.support[0].isfinite().all(-1).sum() == MAX_SEGMENTS
    assert found.remoteness(at(1020.0)) == 1


def test_intervals_of_a_filled_gap_are_not_those_of_a_forecast() -> None:
    time = np.linspace(0, 10, 120)
    wave = np.sin(3 * time) + 0.1 * np.random.default_rng(0).normal(size=120)
    wave[90:] += np.linspace(0, 1, 30)  # the held-out tail is worse than the rest
    model = DeepLFMRegressor(model="sinusoids + broadband", n_steps=10).fit(time, wave)
    (member,) = model.model_.members
    assert float(member.likelihood.inflation[0]) > 1.2
    inside, beyond = model.predict([5.0, 13.0], return_std=True)[1]
    member.likelihood.reach.fill_(math.inf)
    inside_inflated, beyond_inflated = model.predict([5.0, 13.0], return_std=True)[1]
    assert inside < 0.95 * inside_inflated
    assert beyond == pytest.approx(beyond_inflated)
