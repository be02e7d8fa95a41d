"""Increments of a local level are those of the process that it stands for."""

import numpy as np
import pytest
import torch

from deeplfm.terms import BuildContext, LocalLevel, Sinusoids
from deeplfm.terms.local_level import _LASTING, INCREMENT
from deeplfm.training import Rows

TIME = torch.linspace(0, 1, 201, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("damped", [False, True])
def test_a_level_has_the_increments_of_its_process(damped: bool) -> None:
    """Brownian motion, and the integral of an Ornstein–Uhlenbeck process.

    A part is lost to the period, four records, and 4/(100π²) to harmonics that are left out.
    """
    rows = Rows(TIME, torch.sin(3 * TIME))
    model = (Sinusoids(1) + LocalLevel(damped)).build_features(rows, BuildContext())
    sinusoids = model.output_layer.block("sinusoids").features
    sinusoids.set_sensitivity(torch.zeros_like(sinusoids.sensitivity))
    with torch.no_grad():
        columns = torch.cat(list(model.output_layer.features(TIME, 1).whole()), dim=-1)
    columns = columns.reshape(-1, *columns.shape[-2:])[0]
    increment = columns[100:] - columns[100]
    variance = increment.square().sum(-1).numpy() / INCREMENT**2
    apart = (TIME[100:, 0] - TIME[100, 0]).numpy()
    expected = apart - apart**2 / 4
    if damped:
        expected = expected - _LASTING * (1 - np.exp(-apart / _LASTING))
    assert variance[10:] == pytest.approx(expected[10:], rel=0.03, abs=0.005)
