"""Stochastic gradient descent of the comparators."""

import pytest
import torch
from torch import nn

from deeplfm.baselines import descent
from deeplfm.baselines.descent import descend

FIRST, LAST = 0.1, 0.005  # rates of the first step and the last


class _Straight(nn.Module):
    """A line of slope one, which AdamW goes down by its rate in each step."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.seen = []

    def loss(self, _):
        self.seen.append(self.place.item())
        return self.place * 1.0

    def rates(self):
        return (-torch.tensor([*self.seen, self.place.item()]).diff()).tolist()


def _down(line, **limits):
    descend(
        line.parameters(),
        line.loss,
        8,
        batch_size=4,
        learning_rate=FIRST,
        seed=0,
        owner="line",
        **limits,
    )
    return line.rates()


def test_rate_falls_in_a_straight_line_over_the_steps():
    rates = _down(_Straight(), n_steps=20)
    assert len(rates) == 20
    expected = [FIRST + (LAST - FIRST) * step / 20 for step in range(20)]
    assert rates == pytest.approx(expected, rel=1e-4)


def test_rate_has_fallen_when_time_is_over(monkeypatch):
    line = _Straight()
    monkeypatch.setattr(descent.time, "monotonic", lambda: 1.0 * len(line.seen))  # a step a second
    rates = _down(line, n_steps=10**9, time_limit=20.0)
    expected = [FIRST + (LAST - FIRST) * step / 20 for step in range(20)]
    assert rates == pytest.approx(expected, rel=1e-4)


def test_no_time_at_all_takes_one_step():
    assert len(_down(_Straight(), n_steps=10, time_limit=0.0)) == 1
