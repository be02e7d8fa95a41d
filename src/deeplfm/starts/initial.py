r"""Starting values, written into the blocks of a model."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.features import FirstOrder
from deeplfm.layers import Block
from deeplfm.model import DeepLFM
from deeplfm.starts.spectrum import Array, Periodogram, Pursuit, periodogram, pursue, typical_step
from deeplfm.training import Rows


def observed_series(rows: Rows, output: int) -> tuple[Array, Array]:
    """Times and values of one output where it is known."""
    known = ~rows.y[:, output].isnan()
    return (
        rows.x[known, 0].double().cpu().numpy(),
        rows.y[known, output].double().cpu().numpy(),
    )


@torch.no_grad()
def start_as_paper(model: DeepLFM, generator: torch.Generator, eq_lengthscale: float = 0.01) -> None:
    """The paper's appendix: ℓ = γ = 0.01 (output ℓ = 1), S ~ N(0, 1), noise variance 0.01.

    Args:
        model: what to set.
        generator: source of S.
        eq_lengthscale: of layers without a differential equation (DGPs).
    """
    for index, layer in enumerate(model.layers):
        is_output = index == len(model.layers) - 1
        for block in layer.blocks:
            features = block.features
            if isinstance(features, FirstOrder):
                features.log_lengthscale.fill_(0.0 if is_output else math.log(0.01))
                features.log_decay.fill_(math.log(0.01))
                noise = torch.randn(features.raw_sensitivity.shape, generator=generator)
                features.raw_sensitivity.copy_(noise)
            else:
                features.log_lengthscale.fill_(math.log(eq_lengthscale))
            block.frequencies.reset(features)
    model.likelihood.log_variance.fill_(math.log(0.01))


@torch.no_grad()
def set_frequencies(block: Block, frequency: Float[Tensor, "G P Q M"], spread: float) -> None:
    """Centre q(Ω), or the prior where Ω follows it, on given frequencies, and match S to them.

    Args:
        block: whose frequencies to set.
        frequency: Ω; for the ``nodes`` strategy its mean over M is the centre of each force.
        spread: standard deviation of q(ω).
    """
    features, frequencies = block.features, block.frequencies
    rms = frequency.square().mean(-1).sqrt().clamp_min(1e-6)  # G P Q
    if frequencies.strategy == "nodes":
        features.center.copy_(frequency.mean(-1))
        features.log_lengthscale.fill_(math.log(math.sqrt(features.spectral_variance) / spread))
    else:
        features.log_lengthscale.copy_(torch.log(math.sqrt(features.spectral_variance) / rms))
        if frequencies.is_variational:
            frequencies.mean.copy_(frequency)
            frequencies.log_std.fill_(math.log(spread))
    if isinstance(features, FirstOrder):  # 1/(γ+jω) would shrink the response to 1/|ω|
        features.set_sensitivity(rms)


@torch.no_grad()
def start_from_spectrum(block: Block, rows: Rows, rng: np.random.Generator) -> None:
    """Draw the frequencies of a block that sees time from the periodograms of all outputs."""
    shape = block.features.frequency_shape
    spectra = [periodogram(*observed_series(rows, d)) for d in range(rows.y.shape[1])]
    n_draws = math.prod(shape)
    source = rng.integers(len(spectra), size=n_draws)
    drawn = np.stack([spectrum.draw(n_draws, rng) for spectrum in spectra])[source, range(n_draws)]
    signed = drawn * rng.choice([-1.0, 1.0], n_draws)
    frequency = torch.as_tensor(signed).reshape(shape).to(block.features.center.dtype)
    set_frequencies(block, frequency, spread=_resolution(rows) / 20)


@torch.no_grad()
def start_from_pursuit(
    block: Block, rows: Rows, bandwidth: float, jitter: float
) -> list[Pursuit]:
    r"""Make every force of a ``nodes`` block a line of its own output, found by matching pursuit.

    Force 0 stays at frequency zero and carries the level and slow trend. Forces beyond the number
    of lines that the evidence supports get no sensitivity.

    Args:
        block: one group for each output.
        rows: training rows.
        bandwidth: standard deviation of each line's frequency, in units of one over the record
            length: how far a phase may drift over the record.
        jitter: relative standard deviation of a frequency, as when the clock of the system wanders.
    """
    features = block.features
    decay = features.decay if isinstance(features, FirstOrder) else None
    length = float(rows.x.max() - rows.x.min()) or 1.0
    found = []
    sensitivity = torch.zeros_like(features.sensitivity)
    center = torch.zeros_like(features.center)
    for d in range(rows.y.shape[1]):
        time, value = observed_series(rows, d)
        pursuit = pursue(time, value, features.n_forces - 1)
        found.append(pursuit)
        n_lines = pursuit.n_supported
        frequency = torch.as_tensor(pursuit.frequency[:n_lines])
        response = torch.hypot(frequency, decay[d, 0].double()) if decay is not None else 1.0
        center[d, 0, 1 : n_lines + 1] = frequency
        amplitude = torch.as_tensor(pursuit.amplitude[:n_lines]) / math.sqrt(2)
        sensitivity[d, 0, 1 : n_lines + 1] = amplitude * response
    sensitivity[:, :, 0] = 0.3
    features.center.copy_(center)
    features.set_sensitivity(sensitivity)
    spread = bandwidth / length + jitter * center
    features.log_lengthscale.copy_(torch.log(math.sqrt(features.spectral_variance) / spread))
    return found


@torch.no_grad()
def start_broad(block: Block, rows: Rows, scale: Float[Tensor, " G"]) -> None:
    """Make a block a broad-band residual: it fits what is left between rows and forgets beyond."""
    time = rows.x[:, 0].double().cpu().numpy()
    width = 0.15 * math.pi / typical_step(time)
    features = block.features
    features.log_lengthscale.fill_(math.log(math.sqrt(features.spectral_variance) / width))
    if isinstance(features, FirstOrder):
        features.log_decay.fill_(math.log(0.1 * width))
        scale = scale * width
    features.set_sensitivity(scale[:, None, None].expand_as(features.sensitivity))


def _resolution(rows: Rows) -> float:
    return 2 * math.pi / (float(rows.x.max() - rows.x.min()) or 1.0)


__all__ = [
    "Periodogram",
    "observed_series",
    "set_frequencies",
    "start_as_paper",
    "start_broad",
    "start_from_pursuit",
    "start_from_spectrum",
]
