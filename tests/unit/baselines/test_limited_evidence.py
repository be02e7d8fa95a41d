"""L-BFGS from several starts: what it keeps, and what it does when time runs out."""

import math

import pytest
import torch
from torch import nn

from deeplfm.baselines import evidence
from deeplfm.baselines.evidence import fit_from, minimise


class Point(nn.Module):
    """A place on Rosenbrock's valley, whose line searches take several evaluations."""

    def __init__(self, x=-1.0, y=2.0):
        super().__init__()
        self.place = nn.Parameter(torch.tensor([x, y], dtype=torch.float64))


def valley(point):
    x, y = point.place
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


@pytest.fixture
def clock(monkeypatch):
    """Each evaluation takes a second."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def loss(self, point):
            self.now += 1.0
            value = valley(point)
            self.losses.append(value.item())
            return value

    clock = Clock()
    clock.losses = []
    monkeypatch.setattr(evidence, "time", clock)
    return clock


def test_it_finds_the_end_of_the_valley():
    point = fit_from([Point(), Point(3.0, 3.0)], valley, 200, "test")
    torch.testing.assert_close(point.place.detach(), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("limit", [0.0, 2.5, 7.5, 20.5])
def test_time_is_looked_at_before_each_evaluation(clock, limit):
    point = fit_from([Point(), Point(3.0, 3.0), Point(0.0, 5.0)], clock.loss, 100, "test", limit)
    assert len(clock.losses) <= math.ceil(limit) + 1
    assert valley(point).item() == min(clock.losses)


def test_every_candidate_gets_its_share_of_the_time(clock):
    met = []

    def loss(point):
        met.append(point.name)
        return clock.loss(point)

    starts = [Point(), Point(3.0, 3.0)]
    for number, start in enumerate(starts):
        start.name = number
    fit_from(starts, loss, 100, "test", 12.0)
    assert met.count(0) >= 3 and met.count(1) >= 3


def test_out_of_time_the_best_of_a_search_is_kept(clock):
    point = Point()
    assert minimise(point, clock.loss, 100, deadline=8.5) == min(clock.losses)
    assert valley(point).item() == min(clock.losses)
    assert len(clock.losses) == 9


def test_a_limit_that_is_not_reached_changes_nothing():
    free, limited = (fit_from([Point()], valley, 100, "test", limit) for limit in (None, 1e6))
    torch.testing.assert_close(free.place, limited.place)
