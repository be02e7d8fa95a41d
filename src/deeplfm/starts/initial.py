r"""Starting values, written into the blocks of a model."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.features import FirstOrder
from deeplfm.layers import Block, Layer
from deeplfm.model import DeepLFM
from deeplfm.starts.composition import find_composition
from deeplfm.starts.spectrum import Array, Pursuit, periodogram, pursue, typical_step
from deeplfm.training import Rows
from deeplfm.variational import MeanField

_LEAST_NOISE = 1e-6  # variance, in standardised units


def observed_series(rows: Rows, output: int) -> tuple[Array, Array]:
    """Times and values of one output where it is known."""
    known = ~rows.y[:, output].isnan()
    return (
        rows.x[known, 0].double().cpu().numpy(),
        rows.y[known, output].double().cpu().numpy(),
    )


@torch.no_grad()
def start_as_paper(model: DeepLFM, generator: torch.Generator) -> None:
    """The paper's appendix: ℓ = γ = 0.01 (output ℓ = 1), S ~ N(0, 1), noise variance 0.01.

    Deep Gaussian processes mirror it, the output layer too: with ℓ = 0.01 there as well they learn
    nothing. On tables they start at the number of inputs of the layer.
    The text is silent on q(W). At its prior, hidden values would be independent noise in every row and
    nothing could be learned from them; so hidden weights start at draws of it, with little doubt.

    Args:
        model: what to set.
        generator: source of S.
    """
    is_table = model.config.n_inputs > 1
    for index, layer in enumerate(model.layers):
        is_output = index == len(model.layers) - 1
        weights = mean_field(layer)
        weights.log_std.fill_(math.log(0.1))
        if not is_output:
            weights.mean.copy_(torch.randn(weights.mean.shape, generator=generator))
        for block in layer.blocks:
            features = block.features
            lengthscale = 1.0 if is_output else 0.01
            if isinstance(features, FirstOrder):
                features.log_decay.fill_(math.log(0.01))
                noise = torch.randn(features.raw_sensitivity.shape, generator=generator)
                features.raw_sensitivity.copy_(noise)
            elif is_table:
                lengthscale = features.n_inputs
            features.log_lengthscale.fill_(math.log(lengthscale))
            block.frequencies.reset(features)
    model.gaussian.log_variance.fill_(math.log(0.01))


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
    series = [observed_series(rows, d) for d in range(rows.y.shape[1])]
    spectra = [periodogram(time, value) for time, value in series if len(np.unique(time)) > 2]
    if not spectra:
        return
    n_draws = math.prod(shape)
    source = rng.integers(len(spectra), size=n_draws)
    drawn = np.stack([spectrum.draw(n_draws, rng) for spectrum in spectra])[source, range(n_draws)]
    signed = drawn * rng.choice([-1.0, 1.0], n_draws)
    frequency = torch.as_tensor(signed).reshape(shape).to(block.features.center.dtype)
    set_frequencies(block, frequency, spread=_resolution(rows) / 20)


def lines_of(rows: Rows, most: int) -> list[Pursuit]:
    """Lines of every output, found one by one."""
    return [pursue(*observed_series(rows, d), most) for d in range(rows.y.shape[1])]


@torch.no_grad()
def start_from_lines(
    block: Block, rows: Rows, found: list[Pursuit], bandwidth: float, jitter: float
) -> None:
    r"""Make every force of a ``nodes`` block a line of its own output.

    Force 0 stays at frequency zero and carries the level and slow trend. Forces beyond the number
    of lines that the evidence supports get no sensitivity.

    Args:
        block: one group for each output.
        rows: training rows.
        found: lines of each output.
        bandwidth: standard deviation of each line's frequency, in units of one over the record
            length: how far a phase may drift over the record.
        jitter: relative standard deviation of a frequency, as when the clock of the system wanders.
    """
    features = block.features
    decay = features.decay if isinstance(features, FirstOrder) else None
    length = float(rows.x.max() - rows.x.min()) or 1.0
    sensitivity = torch.zeros_like(features.sensitivity)
    center = torch.zeros_like(features.center)
    for d, lines in enumerate(found):
        n_lines = lines.n_supported
        frequency = torch.as_tensor(lines.frequency[:n_lines])
        response = torch.hypot(frequency, decay[d, 0].double()) if decay is not None else 1.0
        center[d, 0, 1 : n_lines + 1] = frequency
        amplitude = torch.as_tensor(lines.amplitude[:n_lines]) / math.sqrt(2)
        sensitivity[d, 0, 1 : n_lines + 1] = amplitude * response
    sensitivity[:, :, 0] = 0.3
    features.center.copy_(center)
    features.set_sensitivity(sensitivity)
    features.log_extra_scale.fill_(math.log(0.3))
    spread = bandwidth / length + jitter * center
    features.log_lengthscale.copy_(torch.log(math.sqrt(features.spectral_variance) / spread))


@torch.no_grad()
def start_broad(block: Block, rows: Rows, scale: Float[Tensor, " G"]) -> None:
    """Make a block a broad-band residual: it fits what is left between rows and forgets beyond."""
    time = rows.x[:, 0].double().cpu().numpy()
    width = 0.15 * math.pi / typical_step(time)
    features = block.features
    spread_evenly(block, width)
    if isinstance(features, FirstOrder):
        features.log_decay.fill_(math.log(0.1 * width))
        scale = scale * width
    features.set_sensitivity(scale[:, None, None].expand_as(features.sensitivity))


def start_rest(model: DeepLFM, broad: Block, rows: Rows, found: list[Pursuit]) -> None:
    """Noise, and a broad-band residual of the same size, from what the lines of each output leave."""
    left = torch.tensor([lines.residual_variance[lines.n_supported] for lines in found])
    set_noise(model, left)
    start_broad(broad, rows, left.clamp_min(_LEAST_NOISE).sqrt().to(broad.features.center.dtype))


@torch.no_grad()
def spread_evenly(block: Block, width: float) -> None:
    """Give the frequencies of a block a bandwidth, and put them at quantiles, not left to chance."""
    features = block.features
    level = 0.5 + (torch.arange(features.n_features, dtype=torch.float64) + 0.5) / (
        2 * features.n_features
    )  # above the median only: −ω is the same wave
    block.frequencies.noise.copy_(torch.special.ndtri(level).expand_as(block.frequencies.noise))
    features.log_lengthscale.fill_(math.log(math.sqrt(features.spectral_variance) / width))


@torch.no_grad()
def start_fine(block: Block) -> None:
    """Frequencies for a standardised table: a quarter of the usual distance of two rows is seen."""
    features, frequencies = block.features, block.frequencies
    features.log_lengthscale.fill_(math.log(0.25 * math.sqrt(features.n_inputs)))
    frequencies.mean.copy_(frequencies.noise[0] * features.frequency_prior()[1])
    frequencies.log_std.fill_(math.log(0.01))


@torch.no_grad()
def start_hidden(layer: Layer, generator: torch.Generator) -> None:
    """Weights drawn from their prior, with little doubt: a random warp to begin with."""
    mean_field(layer).mean.normal_(generator=generator)
    mean_field(layer).log_std.fill_(math.log(0.1))
    for block in layer.blocks:
        if isinstance(block.features, FirstOrder):
            block.features.log_decay.fill_(math.log(0.1))
        block.frequencies.reset(block.features)


@torch.no_grad()
def start_deep(block: Block) -> None:
    """Deep features of order one over the range of hidden values."""
    if isinstance(block.features, FirstOrder):
        block.features.log_decay.fill_(math.log(0.1))
    block.frequencies.reset(block.features)
    block.frequencies.log_std.fill_(math.log(0.1))
    block.frequencies.mean.copy_(block.frequencies.noise[0] * block.features.frequency_prior()[1])


@torch.no_grad()
def start_from_composition(
    model: DeepLFM, rows: Rows, output: int, generator: torch.Generator, n_search_steps: int
) -> None:
    """Write a composition into hidden unit and features of one output."""
    hidden, last = model.layers
    inner, outer = hidden.blocks[0].features, last.blocks[0].features
    if not isinstance(inner, FirstOrder):
        raise ConfigError("start: a composition needs a first-order hidden layer.")
    time, value = (torch.as_tensor(item) for item in observed_series(rows, output))
    if len(time) < 3:
        return
    with torch.enable_grad():
        found = find_composition(
            time, value, generator, n_lines=inner.n_forces, n_steps=n_search_steps
        )
    size = torch.hypot(found.frequency, inner.decay[output, 0].double())
    inner.center[output, 0] = found.frequency
    inner.center.requires_grad_(True)
    sensitivity = inner.sensitivity
    sensitivity[output, 0] = size
    inner.set_sensitivity(sensitivity)
    # cos and sin of the search are a rotation of Re and Im of e^{jωt}/(γ+jω) times its size.
    angle = torch.atan2(found.frequency, inner.decay[output, 0].double())
    real = found.cosine * angle.cos() + found.sine * angle.sin()
    imag = found.sine * angle.cos() - found.cosine * angle.sin()
    mean_field(hidden).mean[output, :, 0] = torch.cat([real, imag, torch.tensor([found.slope])])
    mean_field(hidden).log_std[output] = math.log(0.03)
    others = torch.full_like(outer.sensitivity[output], 0.01)
    others[output] = found.scale
    sensitivity = outer.sensitivity
    sensitivity[output] = others
    outer.set_sensitivity(sensitivity)
    outer.log_lengthscale[output] = math.log(found.lengthscale * math.sqrt(2))
    model.gaussian.log_variance[output] = 2 * math.log(found.noise_std)


@torch.no_grad()
def set_noise(model: DeepLFM, variance: Float[Tensor, " D"]) -> None:
    """Start the noise of each output, never at zero."""
    model.gaussian.log_variance.copy_(variance.clamp_min(_LEAST_NOISE).log())


def mean_field(layer: Layer) -> MeanField:
    """The weights of a layer that start at some mean, with some doubt."""
    if not isinstance(layer.weights, MeanField):
        raise ConfigError("start: this start needs mean-field weights.")
    return layer.weights


def _resolution(rows: Rows) -> float:
    return 2 * math.pi / (float(rows.x.max() - rows.x.min()) or 1.0)
