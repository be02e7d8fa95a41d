"""Hidden layers that are latent force models of time, and features of their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.layers import Block, Layer
from deeplfm.randomness import generator_for, numpy_for
from deeplfm.terms.base import (
    BlockPlan,
    BuildContext,
    HiddenPlan,
    Plan,
    Term,
    of_time,
    refuse_shared,
    running,
)
from deeplfm.terms.initial import all_series, mean_field, span_of, with_values
from deeplfm.terms.spectrum import periodogram
from deeplfm.training import Rows

N_SAMPLES, N_PATHS = 4, 16  # of the hidden layers
_DECAY = 0.1
_FEATURES_BESIDE, _SENSITIVITY_BESIDE = (
    30,
    0.03,
)  # of a deep path beside other terms: it starts small
_LEFT_ALONE = 0.05  # of the variance, that a deep path alone leaves to noise


@dataclass(frozen=True, repr=False)
class Deep(Term):
    """The paper's hidden layers, with starting frequencies from the spectrum and an exact output layer.

    Beside other terms the deep path starts small, so that the model begins as the sum of the others and
    deepens as the data ask.

    Attributes:
        hidden: width of each hidden layer.
        system: linear system of the layers.
        n_forces: number of latent forces of a hidden layer.
        n_features: number of frequencies of each force.
    """

    term_name: ClassVar[str] = "deep"
    has_hidden_layer: ClassVar[bool] = True
    hidden: tuple[int, ...] = (3,)
    system: str = "ode1"
    n_forces: int = 1
    n_features: int = 100

    @property
    def first_block(self) -> BlockConfig:
        """A block of a hidden layer."""
        return BlockConfig(
            self.system,
            n_forces=self.n_forces,
            n_features=self.n_features,
            options=running(self.system),
            name="deep",
        )

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Hidden layers at random functions of the frequencies in the spectrum of the rows."""
        refuse_shared(self, context)
        is_alone = all(
            term.is_residual or term.term_name == "covariates" for term in context.beside
        )
        output = BlockConfig(
            self.system,
            "all" if is_alone else "hidden",
            n_features=self.n_features if is_alone else _FEATURES_BESIDE,
            options=running(self.system),
            name="deep",
        )

        def initialise_hidden(layers: list[Layer]) -> None:
            generator = generator_for(context.seed, "start")
            for layer in layers:
                initialise_layer(layer, generator)
            _from_spectrum(layers[0].blocks[0], rows, numpy_for(context.seed, "start"))

        def initialise(block: Block) -> None:
            initialise_output(block)
            if not is_alone:
                sensitivity = block.features.sensitivity
                block.features.set_sensitivity(torch.full_like(sensitivity, _SENSITIVITY_BESIDE))

        first = of_time(rows, self.first_block)
        layers = tuple(LayerConfig(width, (first,), is_antithetic=True) for width in self.hidden)
        share = math.sqrt(_LEFT_ALONE) if is_alone else 1.0
        left = with_values(rows, [share * value for _, value in all_series(rows)])
        hidden = HiddenPlan(layers, initialise_hidden, N_SAMPLES, N_PATHS)
        return Plan([BlockPlan(output, initialise)], left, hidden)


@torch.no_grad()
def initialise_layer(layer: Layer, generator: torch.Generator) -> None:
    """Weights drawn from their prior, with a small variance: a random function to begin with."""
    mean_field(layer).mean.normal_(generator=generator)
    mean_field(layer).log_std.fill_(math.log(0.1))
    for block in layer.blocks:
        block.features.set_bandwidth(_DECAY)
        block.frequencies.reset(block.features)


@torch.no_grad()
def initialise_output(block: Block) -> None:
    """Deep features of order one over the range of hidden values."""
    block.features.set_bandwidth(_DECAY)
    block.frequencies.reset(block.features)
    block.frequencies.log_std.fill_(math.log(0.1))
    block.frequencies.mean.copy_(block.frequencies.noise[0] * block.features.frequency_prior()[1])


@torch.no_grad()
def _from_spectrum(block: Block, rows: Rows, rng: np.random.Generator) -> None:
    """Draw the frequencies of a block of time from the periodograms of all outputs."""
    shape = block.features.frequency_shape
    spectra = [
        periodogram(time, value) for time, value in all_series(rows) if len(np.unique(time)) > 2
    ]
    if not spectra:
        return
    n_draws = math.prod(shape)
    source = rng.integers(len(spectra), size=n_draws)
    drawn = np.stack([spectrum.draw(n_draws, rng) for spectrum in spectra])[source, range(n_draws)]
    signed = drawn * rng.choice([-1.0, 1.0], n_draws)
    frequency = torch.as_tensor(signed).reshape(shape).to(block.features.center.dtype)
    _set_frequencies(block, frequency, spread=2 * math.pi / span_of(rows) / 20)


def _set_frequencies(block: Block, frequency: Float[Tensor, "G P Q M"], spread: float) -> None:
    """Centre q(Ω) of a block of time on given frequencies, with prior and sensitivity to match.

    A system shrinks a wave of high frequency; the sensitivity makes up for it.
    """
    features, frequencies = block.features, block.frequencies
    rms = frequency.square().mean(-1).sqrt().clamp_min(1e-6)  # G P Q
    features.log_lengthscale.copy_(torch.log(math.sqrt(features.spectral_variance) / rms))
    frequencies.mean.copy_(frequency)
    frequencies.log_std.fill_(math.log(spread))
    features.set_sensitivity((1 / features.gain(rms.flatten())[:1, :1]).view_as(rms))
