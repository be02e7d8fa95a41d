"""Neural processes: what is said without their package, and the tasks they learn from."""

import sys

import numpy as np
import pytest
import torch

from deeplfm.baselines.neural_processes import ConvCNP, _tasks
from deeplfm.errors import ConfigError


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuralprocesses", None)
    monkeypatch.setitem(sys.modules, "neuralprocesses.torch", None)
    message = (
        r'ConvCNP: needs the package neuralprocesses.*pip install "deeplfm\[neural-processes\]"'
    )
    with pytest.raises(ConfigError, match=message):
        ConvCNP().fit(np.arange(20.0), np.sin(np.arange(20.0)))


def test_tasks_are_stretches_of_the_series_that_start_at_zero():
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
