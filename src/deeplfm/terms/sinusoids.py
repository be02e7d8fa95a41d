"""Narrow-band forces at the strongest frequencies of the spectrum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.terms.base import (
    BlockPlan,
    BuildContext,
    Plan,
    Term,
    of_time,
    refuse_shared,
    running,
)
from deeplfm.terms.initial import all_series, span_of, with_values
from deeplfm.terms.local_level import SCALE
from deeplfm.terms.spectrum import Array, SinusoidFit, fit_sinusoids, matching_pursuit
from deeplfm.training import Rows

_N_NODES = 6  # of each force: they carry a bandwidth exactly up to polynomials of degree 11


@dataclass(frozen=True, repr=False)
class Sinusoids(Term):
    """Narrow-band forces at frequencies found by matching pursuit, for each output its own.

    A bandwidth is the uncertainty of a frequency, so the interval of a forecast widens with the
    distance from the data. Beside the sinusoids there is one force at frequency zero, a slow level.

    Attributes:
        n: at most so many for each output; the information criterion may support fewer.
        bandwidth: standard deviation of a frequency, in units of one over the record length: how far
            a phase may drift over the record.
        jitter: the same, relative to the frequency, as when the clock of the system is not steady.
        learn_bandwidth: train the bandwidths; otherwise they stay.
        system: the linear system that the forces drive.
    """

    term_name: ClassVar[str] = "sinusoids"
    state_space_arguments: ClassVar[tuple[str, ...]] = ("n",)
    n: int = 20
    bandwidth: float = 0.5
    jitter: float = 0.0
    learn_bandwidth: bool = False
    system: str = "ode1"

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Find the sinusoids, and take them out of the rows."""
        refuse_shared(self, context)
        found = [matching_pursuit(*series, self.n) for series in all_series(rows)]
        bandwidth = Bandwidth(self.bandwidth, self.jitter, self.learn_bandwidth)
        return narrow_band_plan(self.term_name, self.system, rows, found, self.n, bandwidth)


class Bandwidth(NamedTuple):
    """Bandwidth of narrow-band forces, as :class:`Sinusoids` has it."""

    of_record: float
    of_frequency: float = 0.0
    is_learned: bool = False


def narrow_band_plan(
    name: str,
    system: str,
    rows: Rows,
    found: list[SinusoidFit],
    n_forces: int,
    bandwidth: Bandwidth,
) -> Plan:
    """One block whose forces are the sinusoids of each output, and what these leave of the rows."""
    config = BlockConfig(
        system,
        "original",
        n_forces=n_forces + 1,
        n_features=_N_NODES,
        frequencies="nodes",
        options=running(system),
        name=name,
    )
    length, series = span_of(rows), all_series(rows)

    @torch.no_grad()
    def initialise(block: Block) -> None:
        features = block.features
        sensitivity = torch.zeros_like(features.sensitivity)
        center = torch.zeros_like(features.center)
        for d, fit in enumerate(found):
            frequency = torch.as_tensor(fit.frequency[: fit.n_supported])
            amplitude = torch.as_tensor(fit.amplitude[: fit.n_supported]) / math.sqrt(2)
            own = slice(1, fit.n_supported + 1)
            center[d, 0, own] = frequency.to(center)
            sensitivity[d, 0, own] = (amplitude / features.gain(frequency)[d, 0]).to(sensitivity)
        sensitivity[:, :, 0] = SCALE
        features.center.copy_(center)
        features.set_sensitivity(sensitivity)
        spread = bandwidth.of_record / length + bandwidth.of_frequency * center
        features.log_lengthscale.copy_(torch.log(math.sqrt(features.spectral_variance) / spread))
        features.log_lengthscale.requires_grad_(bandwidth.is_learned)

    left = [_residual(*pair, fit) for pair, fit in zip(series, found, strict=True)]
    return Plan([BlockPlan(of_time(rows, config), initialise)], with_values(rows, left))


def _residual(time: Array, value: Array, found: SinusoidFit) -> Array:
    if len(time) < 3:
        return value
    return fit_sinusoids(time, value, found.frequency[: found.n_supported])[1]
