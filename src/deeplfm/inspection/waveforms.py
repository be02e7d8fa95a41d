"""Waves and forces of a layer that hears time, from the distribution of its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from deeplfm.features.harmonic import HarmonicMap
from deeplfm.layers import Block, Layer
from deeplfm.randomness import generator_for


def hears_time(block: Block) -> bool:
    """Whether time is all that a block sees."""
    is_first = block.columns is None or block.columns == [0]  # the others are covariates
    return not block.sees_hidden and block.features.n_inputs == 1 and is_first


def makes_waves(block: Block) -> bool:
    """Whether a block adds waves of time to an output."""
    return hears_time(block) and isinstance(block.features, HarmonicMap)


def is_driven(block: Block) -> bool:
    """Whether a block is an equation in time, driven by a force."""
    return hears_time(block) and block.features.has_force


def force_moments(
    layer: Layer, block: Block, x: Float[Tensor, "N P"], force: int | None = None
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
    """Mean and standard deviation of a block's force: all that enters, or one force with S = 1."""
    features = block.features
    time = block.originals(x).double()  # N 1
    wave = _frequency(block)[:, 0].unsqueeze(1) * time[:, :, None]  # G N Q M
    size = block.frequencies.feature_weight.double().expand_as(wave)
    if force is None:
        size = size * features.sensitivity.double()[:, 0, None, :, None]
    else:
        size = size * torch.nn.functional.one_hot(torch.tensor(force), features.n_forces)[:, None]
    waves = torch.cat([(size * wave.cos()).flatten(-2), (size * wave.sin()).flatten(-2)], dim=-1)
    before = _columns_before(block, layer)
    columns = waves.new_zeros(*waves.shape[:-1], layer.weights.mean.shape[-2])
    columns[..., before : before + waves.shape[-1]] = waves
    mean, variance = layer.weights.moments_of([columns.to(layer.weights.mean.dtype)])
    return layer.by_output(mean), layer.by_output(variance).clamp_min(0).sqrt()


def power_of_lines(
    layer: Layer, blocks: Sequence[Block], output: int
) -> tuple[Float[Tensor, " L"], Float[Tensor, " L"]]:
    """Frequency and power of the lines of one output, in the mean of q(W) and over 0 ≤ t ≤ 1."""
    waves = [_waves(block, layer, output) for block in blocks]
    frequency, amplitude = (
        torch.cat([values.flatten() for values in item]) for item in zip(*waves, strict=True)
    )
    share = _mean_products(frequency, amplitude)
    lines, powers = [], []
    for block, (own, _) in zip(blocks, waves, strict=True):
        part, share = share[: own.numel()].view_as(own), share[own.numel() :]
        if block.frequencies.strategy == "nodes":
            own, part = own.mean(-1), part.sum(-1)
        lines.append(own.flatten())
        powers.append(part.flatten().clamp_min(0))
    return torch.cat(lines), torch.cat(powers)


def _waves(
    block: Block, layer: Layer, output: int
) -> tuple[Float[Tensor, "Q M"], Complex[Tensor, "Q M"]]:
    """ω and c of the waves Re c e^{jωt} that a block adds to an output, in the mean of q(W)."""
    group, unit = divmod(output, layer.n_units)
    features = block.features
    frequency = _frequency(block)
    frequency = frequency.expand(features.n_groups, *frequency.shape[1:])[group, 0]  # Q M
    size = features.sensitivity.double()[group, 0, :, None] * block.frequencies.feature_weight
    before = _columns_before(block, layer)
    weights = layer.weights.mean.double()
    weights = weights.expand(layer.n_groups, *weights.shape[1:])[group, before:, unit]
    real, imaginary = weights[: 2 * size.numel()].view(2, *size.shape)
    transfer = features.transfer(frequency.flatten())[group, 0].view_as(frequency)
    return frequency, torch.complex(real, -imaginary) * size * transfer


def _mean_products(
    frequency: Float[Tensor, " K"], amplitude: Complex[Tensor, " K"]
) -> Float[Tensor, " K"]:
    """Mean of each wave times the sum of all over 0 ≤ t ≤ 1; these add up to that sum's mean square."""

    def overlap(turn: Tensor) -> Tensor:  # ∫ e^{jωt} dt
        return torch.polar(torch.sinc(turn / (2 * math.pi)), turn / 2)

    against = overlap(frequency - frequency[:, None]) @ amplitude
    along = overlap(frequency + frequency[:, None]) @ amplitude
    return (amplitude.conj() * against + amplitude * along).real / 2


def _columns_before(block: Block, layer: Layer) -> int:
    return sum(b.features.n_columns for b in layer.blocks[: list(layer.blocks).index(block)])


def _frequency(block: Block) -> Float[Tensor, "G P Q M"]:
    """Ω as prediction uses it; of its first draw where each sample has one of its own."""
    generator = generator_for(0, "prediction")
    frequency = block.frequencies(block.features, 1, generator).double()
    return frequency[0] if frequency.dim() == 5 else frequency
