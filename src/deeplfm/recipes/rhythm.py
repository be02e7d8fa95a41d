"""One rhythm: a periodic force that all outputs answer, and what each has beside its answer."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.features import FirstOrder
from deeplfm.layers import Block
from deeplfm.model import DeepLFM
from deeplfm.recipes.architecture import (
    Architecture,
    block_for,
    collapsed_schedule,
    model_config,
    new_model,
)
from deeplfm.recipes.covariates import beside_own_covariates, start_own, unexplained
from deeplfm.recipes.series import Walk, pursuit_recipe
from deeplfm.selection.candidate import Candidate
from deeplfm.starts.initial import observed_series, start_rest
from deeplfm.starts.response import Response, find_response
from deeplfm.starts.rhythm import find_rhythm
from deeplfm.starts.rounds import find_rounds
from deeplfm.starts.spectrum import Pursuit
from deeplfm.starts.walk import set_multiples, without_slow
from deeplfm.training import Rows

_MOST_HARMONICS = 20
_MOST_OUTPUTS = (
    8  # that may share a force: all hear the lines of all, and memory grows with their cube
)
_BANDWIDTH = 0.3  # of an output's own lines, in units of one over the record length
_LEVEL = 0.3  # standard deviation of a level


def rhythm_recipe(
    architecture: Architecture,
    name: str = "rhythm",
    has_trend: bool = False,
    walk: Walk | None = None,
    n_steps: int = 60,
) -> Candidate:
    r"""f_d' + γ_d f_d = S_d u with a periodic u, and lines and a broad-band residual of each output.

    What is an answer to the force and what is an output's own, the evidence says. Where fewer than two
    outputs answer one force, or they are many, or the linear path is of another system, each has its
    harmonics for itself.

    Args:
        architecture: dtype, noise and system of the linear path.
        name: of the candidate.
        has_trend: add a constant and a trend; each output then has its harmonics for itself.
        walk: add a level that wanders, beside which a rhythm is looked for; likewise. Steps of a rough
            one know nothing of each other, those of a smooth one last a while.
        n_steps: training steps.
    """

    def build(rows: Rows, seed: int) -> DeepLFM:
        residual = unexplained(rows)
        read = residual if walk is None else without_slow(residual)
        series = [observed_series(read, d) for d in range(rows.y.shape[1])]
        found = find_rhythm(series, _MOST_HARMONICS)
        may_share = not (has_trend or walk) and len(found) <= _MOST_OUTPUTS
        if may_share and architecture.linear_system == "ode1":
            response = find_response(series, found)
            if response is not None:
                return _answering(architecture, rows, seed, found, response)
        found = find_rounds(series, found)
        alone = pursuit_recipe(
            architecture,
            n_lines=max(lines.n_supported for lines in found),
            bandwidth=_BANDWIDTH,
            learn_bandwidth=True,
            has_trend=has_trend,
            walk=walk,
            found=found,
        )
        return alone.build(rows, seed)

    return Candidate(name, build, collapsed_schedule(n_steps))


def _answering(
    architecture: Architecture, rows: Rows, seed: int, found: list[Pursuit], response: Response
) -> DeepLFM:
    n_outputs = len(found)
    force = block_for(
        architecture,
        "ode1",
        n_forces=1,
        n_features=len(response.force),
        frequencies="prior-fixed",
    )
    n_own = sum(lines.n_supported + 1 for lines in found)
    lines = BlockConfig("eq", n_forces=n_own, n_features=4, frequencies="nodes")
    broad = replace(lines, n_forces=n_outputs, n_features=60, frequencies="prior-fixed")
    blocks = beside_own_covariates(rows, force, lines, broad)
    output = LayerConfig(n_outputs, blocks, "exact", shared_weights=True)
    model = new_model(model_config(architecture, rows, (output,), 1, 1), architecture, seed)
    force_block, line_block, broad_block, *others = model.output_layer.blocks
    start_own(others)
    _start_force(force_block, response)
    _start_own_lines(line_block, rows, found, response)
    start_rest(model, broad_block, rows, found)
    owner = torch.eye(n_outputs).to(broad_block.features.sensitivity)
    broad_block.features.set_sensitivity(broad_block.features.sensitivity * owner[:, None])
    return model


@torch.no_grad()
def _start_force(block: Block, response: Response) -> None:
    """Waves at whole multiples of one frequency, each with the size that the force has there."""
    features = block.features
    size = torch.as_tensor(response.force / math.sqrt(2))
    total = set_multiples(block, [response.fundamental], size)
    if isinstance(features, FirstOrder):
        features.log_decay.copy_(torch.as_tensor(response.decay)[:, None].log())
    sensitivity = torch.as_tensor(response.sensitivity) * total
    features.set_sensitivity(sensitivity[:, None, None])


@torch.no_grad()
def _start_own_lines(block: Block, rows: Rows, found: list[Pursuit], response: Response) -> None:
    """A level of each output, and what its harmonics have beside its answer: only it hears them."""
    features = block.features
    sensitivity, center = torch.zeros_like(features.sensitivity), torch.zeros_like(features.center)
    first = 0
    for d, lines in enumerate(found):
        n_lines = lines.n_supported
        own = slice(first + 1, first + 1 + n_lines)
        center[0, 0, own] = torch.as_tensor(lines.frequency[:n_lines])
        sensitivity[d, 0, own] = torch.as_tensor(response.left[d, :n_lines]) / math.sqrt(2)
        sensitivity[d, 0, first] = _LEVEL
        first += 1 + n_lines
    features.center.copy_(center)
    features.set_sensitivity(sensitivity)
    length = float(rows.x[:, 0].max() - rows.x[:, 0].min()) or 1.0
    lengthscale = math.sqrt(features.spectral_variance) * length / _BANDWIDTH
    features.log_lengthscale.fill_(math.log(lengthscale))
