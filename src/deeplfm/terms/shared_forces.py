"""The classical latent force model: forces that all outputs respond to, each in its own way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.terms.base import BlockPlan, BuildContext, Plan, Term, of_time, running
from deeplfm.terms.covariates import own_force
from deeplfm.terms.initial import all_series, spread_evenly, with_values
from deeplfm.terms.spectrum import periodogram
from deeplfm.training import Rows

_POWER = 0.9  # share of the power of an output below its bandwidth
_NOISE = 0.05  # variance, before training
_DECAY = 0.5  # of the bandwidth


@dataclass(frozen=True, repr=False)
class SharedForces(Term):
    r"""f_d' + γ_d f_d = Σ_q S_dq u_q, one posterior of u_q for all outputs.

    From two outputs on, decays and forces are identified: the force is what all outputs respond to.
    Each output has a level of its own, which no shared force can replace.

    Beside terms in state-space form (trend, season, level, reversion, covariates) the forces are Markov
    processes that are solved with them, the evidence decides how many of the ``n`` there are, and
    ``n_features`` and ``system`` have no effect (:class:`~deeplfm.statespace.SharedForcesLFM`).

    Attributes:
        n: number of forces.
        n_features: number of frequencies of each.
        system: the linear system of every output, with parameters of its own.
    """

    term_name: ClassVar[str] = "shared_forces"
    n_steps: ClassVar[int] = 200
    shares_forces: ClassVar[bool] = True
    state_space_arguments: ClassVar[tuple[str, ...]] = ("n", "n_features", "system")
    n: int = 1
    n_features: int = 100
    system: str = "ode1"

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Every force over the band of the data, with the signs of the principal components."""
        n_outputs = rows.y.shape[1]
        forces = BlockConfig(
            self.system,
            "original",
            n_forces=self.n,
            n_features=self.n_features,
            frequencies="prior-fixed",
            options=running(self.system),
            name="shared forces",
        )
        # A single cosine at frequency zero is a constant.
        level = BlockConfig(
            "eq", "original", n_forces=n_outputs, n_features=1, frequencies="nodes", name="level"
        )
        width, loadings = bandwidth_of(rows), _loadings(rows, self.n)

        @torch.no_grad()
        def initialise(block: Block) -> None:
            features = block.features
            spread_evenly(block, 2 * width)
            features.set_bandwidth(_DECAY * width)
            gain = features.gain(torch.tensor([width], dtype=torch.float64))  # G P 1
            scale = loadings[:, None].to(gain) / (gain * math.sqrt(self.n))
            features.set_sensitivity(scale.to(features.sensitivity))

        blocks = [
            BlockPlan(of_time(rows, forces), initialise),
            BlockPlan(of_time(rows, level), own_force),
        ]
        left = [math.sqrt(_NOISE) * value for _, value in all_series(rows)]
        return Plan(blocks, with_values(rows, left))


def _loadings(rows: Rows, n_forces: int) -> Float[Tensor, "D Q"]:
    """Principal components of the outputs, the largest entry of each ±1 and none zero.

    Training finds the size of a sensitivity, but hardly its sign: a decay that is too large or too
    small looks much like a wrong sign. More forces than outputs are spread evenly.
    """
    n_outputs = rows.y.shape[1]
    tilt = torch.linspace(0, math.pi, n_outputs + 1, dtype=torch.float64)[:-1, None]
    turn = torch.linspace(0, math.pi, n_forces + 1, dtype=torch.float64)[:-1]
    loading = torch.cos(tilt - turn)
    components = torch.linalg.svd(rows.y.double().nan_to_num(0.0), full_matrices=False).Vh
    first = components[:n_forces].mT.cpu()
    loading[:, : first.shape[1]] = first / first.abs().amax(0)
    return loading + torch.where(loading < 0, -0.1, 0.1)


def bandwidth_of(rows: Rows) -> float:
    """Angular frequency below which most of the power of every output is."""
    widths = []
    for time, value in all_series(rows):
        if len(np.unique(time)) > 2:
            spectrum = periodogram(time, value)
            power = np.cumsum(spectrum.power) / spectrum.power.sum()
            widths.append(float(spectrum.frequency[np.searchsorted(power, _POWER)]))
    return max(widths, default=2 * math.pi)
