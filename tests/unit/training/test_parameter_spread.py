"""The spread of weights by parameters, against derivatives that do not share its code."""

from __future__ import annotations

import numpy as np
import torch

from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, collapsed
from deeplfm.terms import BroadBand, BuildContext, SharedForces, Sum
from deeplfm.training import Rows
from deeplfm.training.parameter_spread import set_parameter_spread
from deeplfm.training.rows import condition


def fitted() -> tuple[DeepLFM, Rows]:
    """Two outputs of one force, trained a little."""
    x = torch.linspace(0, 1, 60, dtype=torch.float64)[:, None]
    y = torch.cat([torch.sin(9 * x), torch.sin(9 * x - 0.6)], dim=1)
    noise = np.random.default_rng(0).normal(size=y.shape)
    rows = Rows(x, y + 0.1 * torch.as_tensor(noise))
    model = Sum((SharedForces(n_features=8),)).build(rows, BuildContext(dtype=torch.float64))
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        (-collapsed(model, Batch(rows.x, rows.y, len(rows)), 1)).backward()
        optimiser.step()
    condition(model, rows)
    return model, rows


def test_the_spread_is_that_of_weights_at_parameters_around_the_optimum() -> None:
    """Σ over parameters of slope × slope is the covariance of refitted weights, to first order."""
    model, rows = fitted()
    set_parameter_spread(model, rows)
    spread = model.output_layer.parameter_spread.double()
    assert float(spread.abs().max()) > 1e-3
    # A common factor of all sensitivities, and its inverse in the weights, is the unit of the force.
    block = model.output_layer.blocks[0]
    mean = model.exact_weights.mean.clone()
    with torch.no_grad():
        block.features.raw_sensitivity.mul_(1.01)
    condition(model, rows)
    by_unit = (model.exact_weights.mean - mean)[0, :, 0]
    # Parameters that vary are decays and the ratio of sensitivities: the unit adds nothing by itself.
    with torch.no_grad():
        block.features.raw_sensitivity.div_(1.01)
        block.features.log_decay[0] += 0.01
    condition(model, rows)
    by_decay = (model.exact_weights.mean - mean)[0, :, 0]
    basis = torch.linalg.svd(spread, full_matrices=False)
    inside = basis.U[:, basis.S > 1e-9 * basis.S[0]]
    assert float((by_decay - inside @ (inside.mT @ by_decay)).norm()) < 0.05 * float(
        by_decay.norm()
    )
    assert float((by_unit - inside @ (inside.mT @ by_unit)).norm()) > 0.2 * float(by_unit.norm())


def test_a_model_of_outputs_with_forces_of_their_own_has_none() -> None:
    x = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
    rows = Rows(x, torch.sin(5 * x))
    model = Sum((BroadBand(),)).build(rows, BuildContext(dtype=torch.float64))
    set_parameter_spread(model, rows)
    assert not hasattr(model.output_layer, "parameter_spread")
