"""Levels that wander: their increments are those of the processes that they stand for."""

import numpy as np
import pytest
import torch

from deeplfm.recipes import Architecture
from deeplfm.recipes.series import pursuit_recipe
from deeplfm.starts.walk import _LASTING, _WANDER
from deeplfm.training import Rows

TIME = torch.linspace(0, 1, 201, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("walk", ["rough", "smooth"])
def test_a_walk_has_the_increments_of_its_process(walk: str) -> None:
    """Brownian motion, and a mass that it pushes along.

    A part is lost to the period, four records, and 4/(100π²) of rough steps to waves that are left out.
    """
    rows = Rows(TIME, torch.sin(3 * TIME))
    model = pursuit_recipe(Architecture(), walk=walk, n_lines=1).build(rows, seed=0)
    lines, _ = model.output_layer.blocks
    lines.features.set_sensitivity(torch.zeros_like(lines.features.sensitivity))
    with torch.no_grad():
        columns = torch.cat(list(model.output_layer.features(TIME, 1).whole()), dim=-1)
    columns = columns.reshape(-1, *columns.shape[-2:])[0]
    increment = columns[100:] - columns[100]
    variance = increment.square().sum(-1).numpy() / _WANDER**2
    apart = (TIME[100:, 0] - TIME[100, 0]).numpy()
    expected = apart - apart**2 / 4
    if walk == "smooth":
        expected = expected - _LASTING * (1 - np.exp(-apart / _LASTING))
    assert variance[10:] == pytest.approx(expected[10:], rel=0.03, abs=0.005)
