"""Neural processes: what is said without their package, and the tasks they learn from."""

import sys

import numpy as np
import pytest
import torch

from deeplfm.baselines.neural_processes import ConvCNP, _Ending, _tasks
from deeplfm.errors import ConfigError, TrainingDivergedError


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuralprocesses", None)
    monkeypatch.setitem(sys.modules, "neuralprocesses.torch", None)
    message = (
        r'ConvCNP: needs the package neuralprocesses.*pip install "deeplfm\[neural-processes\]"'
    )
    with pytest.raises(ConfigError, match=message):
        ConvCNP().fit(np.arange(20.0), np.sin(np.arange(20.0)))


def test_tasks_are_segments_of_the_series_that_start_at_zero():
    time = torch.arange(50.0)
    generator = torch.Generator().manual_seed(0)
    are_forecasts = []
    for _ in range(40):
        context_t, context_y, target_t, target_y = _tasks(time, 2 * time, 3, generator)
        t, y = torch.cat([context_t, target_t], -1), torch.cat([context_y, target_y], -1)
        assert t.shape == y.shape and t.shape[:2] == (3, 1)
        assert 3 <= context_t.shape[-1] < t.shape[-1] <= 50
        ordered = t.sort(-1).values
        torch.testing.assert_close(ordered, torch.arange(float(t.shape[-1])).expand_as(t))
        shift = y / 2 - t  # where the stretch was cut out
        assert (shift == shift[..., :1]).all() and (shift >= 0).all()
        are_forecasts.append(bool((target_t.amin(-1) > context_t.amax(-1)).all()))
    assert 10 < sum(are_forecasts) < 30


class Fragile(torch.nn.Module):
    """A network whose covariance now and then cannot be factorised."""

    def __init__(self, fails_at):
        super().__init__()
        self.level, self.fails_at = torch.nn.Parameter(torch.zeros(())), set(fails_at)
        self.n_calls = 0

    def forward(self, *_):
        self.n_calls += 1
        if self.n_calls in self.fails_at:
            raise torch.linalg.LinAlgError("not positive-definite")
        return torch.distributions.Normal(self.level, 1.0)


def trained(network, monkeypatch):
    monkeypatch.setattr(
        torch.distributions.Normal, "logpdf", lambda self, y: self.log_prob(y), False
    )
    model = ConvCNP(n_steps=30, learning_rate=0.1)
    time = torch.arange(50.0)
    model._train(network, time, torch.ones(50), torch.Generator().manual_seed(0), model.n_steps)


def test_a_step_that_cannot_be_taken_is_left_out(monkeypatch):
    network = Fragile([1, 7])
    trained(network, monkeypatch)
    assert network.n_calls == 30
    assert network.level > 0.5


class Flat(torch.autograd.Function):
    """The value itself, with a gradient of NaN."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.full_like(gradient, torch.nan)


class Rugged(Fragile):
    """A network whose gradient now and then is not a number, though its loss is one."""

    def forward(self, *_):
        self.n_calls += 1
        level = Flat.apply(self.level) if self.n_calls in self.fails_at else self.level
        return torch.distributions.Normal(level, 1.0)


def test_a_gradient_that_is_no_number_moves_nothing(monkeypatch):
    network = Rugged([3, 7])
    trained(network, monkeypatch)
    assert network.n_calls == 30
    assert network.level > 0.5


def test_many_steps_that_cannot_be_taken_are_an_error(monkeypatch):
    with pytest.raises(TrainingDivergedError, match="nan in 16 steps, the last of them 16"):
        trained(Fragile(range(31)), monkeypatch)


class Level(torch.nn.Module):
    """Expects one value everywhere."""

    def __init__(self, level):
        super().__init__()
        self.level = torch.nn.Parameter(torch.tensor(level))

    def forward(self, seen, known, new):
        return self

    def logpdf(self, target):
        return -(target - self.level).square().sum((-1, -2))


def test_the_step_that_predicts_the_end_best_is_found():
    time = torch.arange(100.0)
    ending = _Ending(time, torch.sin(time))
    assert len(ending.others[0]) == 80
    for step, level in enumerate((3.0, 0.1, 2.0)):
        ending.look(Level(level), step)
    assert ending.best_step == 1
    few = _Ending(time[:50], time[:50])
    few.look(Level(0.0), 1)
    assert len(few.others[0]) == 50 and few.best_step is None
