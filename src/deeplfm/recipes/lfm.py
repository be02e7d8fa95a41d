"""The classical latent force model: no hidden layer, and outputs that share their forces."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.features import FirstOrder
from deeplfm.model import DeepLFM
from deeplfm.recipes.architecture import (
    Architecture,
    block_for,
    collapsed_schedule,
    model_config,
    new_model,
)
from deeplfm.recipes.covariates import (
    beside_own_covariates,
    start_own,
    unexplained,
)
from deeplfm.selection.candidate import Candidate
from deeplfm.starts.initial import observed_series, set_noise, spread_evenly
from deeplfm.starts.spectrum import periodogram
from deeplfm.training import Rows


def lfm_recipe(architecture: Architecture, n_steps: int = 200) -> Candidate:
    r"""f_d' + γ_d f_d = Σ_q S_dq u_q, one posterior of u_q for all outputs.

    From two outputs on, decays and forces can be told apart: what all outputs answer in their own way
    is the force. Each output has a level of its own: it is standardised, and γ_d times the mean that
    was taken away is nothing that a shared force could make up for. The start gives every force the
    band that the data fill, and sensitivities their signs.
    """
    forces = block_for(architecture, architecture.linear_system, frequencies="prior-fixed")
    # of a single wave at frequency zero only the cosine is left: a constant
    level = BlockConfig("eq", n_features=1, frequencies="nodes")

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs = rows.y.shape[1]
        blocks = beside_own_covariates(rows, forces, replace(level, n_forces=n_outputs))
        output = LayerConfig(n_outputs, blocks, "exact", shared_weights=True)
        model = new_model(model_config(architecture, rows, (output,), 1, 1), architecture, seed)
        block, *own = model.output_layer.blocks
        start_own(own)
        rows = unexplained(rows)
        width = _bandwidth(rows)
        spread_evenly(block, 2 * width)
        features = block.features
        with torch.no_grad():
            scale = _loadings(rows, features.n_forces)[:, None].to(features.center)
            if isinstance(features, FirstOrder):
                features.log_decay.fill_(math.log(0.5 * width))
                scale = scale * width
            features.set_sensitivity(scale / math.sqrt(features.n_forces))
        set_noise(model, torch.full((n_outputs,), 0.05))
        return model

    return Candidate("lfm", build, collapsed_schedule(n_steps))


def _loadings(rows: Rows, n_forces: int) -> Float[Tensor, "D Q"]:
    """Principal components of the outputs, the largest entry of each at ±1 and none at zero.

    Of what an output hears of a force, training finds the size but hardly the sign: a decay that is too
    large or too small looks much like a wrong one. Further forces than outputs are spread evenly.
    """
    n_outputs = rows.y.shape[1]
    tilt = torch.linspace(0, math.pi, n_outputs + 1, dtype=torch.float64)[:-1, None]
    turn = torch.linspace(0, math.pi, n_forces + 1, dtype=torch.float64)[:-1]
    loading = torch.cos(tilt - turn)
    components = torch.linalg.svd(rows.y.double().nan_to_num(0.0), full_matrices=False).Vh
    first = components[:n_forces].mT.cpu()
    loading[:, : first.shape[1]] = first / first.abs().amax(0)
    return loading + torch.where(loading < 0, -0.1, 0.1)


def _bandwidth(rows: Rows) -> float:
    """Root mean square frequency below which most of the power of the outputs is."""
    widths = []
    for d in range(rows.y.shape[1]):
        time, value = observed_series(rows, d)
        if len(np.unique(time)) > 2:
            spectrum = periodogram(time, value)
            power = np.cumsum(spectrum.power) / spectrum.power.sum()
            widths.append(float(spectrum.frequency[np.searchsorted(power, 0.9)]))
    return max(widths, default=2 * math.pi)
