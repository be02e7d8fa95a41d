r"""Latent forces and hidden layers of a fitted model, as curves over time.

Where f' + γf = u and u(τ) = Σ_s a_s cos ω_sτ + b_s sin ω_sτ, the response is f(t) = Σ_s a_s Re φ_s + b_s
Im φ_s with the same a and b; likewise for every linear system. So q(W) of a layer is also the posterior
of its forces: a force is the same weights times other columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.inspection.fitted import FittedModel, as_array
from deeplfm.layers import Block, Layer
from deeplfm.randomness import generator_for, numpy_for
from deeplfm.statespace import ClocksLFM
from deeplfm.statespace.phases import Array

_N_PATHS = 200  # of the phase of a clock


@dataclass(frozen=True)
class Curve:
    """A function of time with its standard deviation."""

    label: str
    member: str
    mean: Float64[ndarray, " N"]
    std: Float64[ndarray, " N"]


@torch.no_grad()
def forces(fitted: FittedModel, x: Float[Tensor, "N P"]) -> list[Curve]:
    """Forces as they enter the differential equations in time: f' + γf = Σ_q S_q u_q.

    For each output the member of largest weight: one curve for each block of its output layer, in units
    of the output over units of time to the order of the equation; and one for each unit of its first
    hidden layer. Outputs that share their forces (the classical latent force model) have one curve for
    each force, in units of its own standard deviation.
    """
    curves: list[Curve] = []
    for index, outputs in fitted.heaviest().items():
        model, member = fitted.layered[index], fitted.members[index]
        first, last = model.layers[0], model.output_layer
        if first is not last:
            units = range(first.n_groups * first.n_units)
            names = {unit: (f"layer 1, unit {unit + 1}", 1.0) for unit in units}
            curves += _entering(first, x, member, names, fitted.time_scale)
        if last.shared_weights:
            curves += _shared(last, x, member)
        else:
            scaled = {d: (fitted.outputs[d], float(fitted.output_scale[d])) for d in outputs}
            curves += _entering(last, x, member, scaled, fitted.time_scale)
    return curves


@torch.no_grad()
def hidden_layers(fitted: FittedModel, x: Float[Tensor, "N P"]) -> list[Curve]:
    """Units of every hidden layer, over the paths that prediction uses; of a clock, its rate."""
    curves = []
    for member, clocks in zip(fitted.members, fitted.average.members, strict=True):
        if isinstance(clocks, ClocksLFM):
            curves += _rates(clocks, member, as_array(x[:, 0]), fitted.time_scale)
    for index, model in fitted.layered.items():
        member = fitted.members[index]
        for depth, values in enumerate(model.hidden_values(x), start=1):
            mean, std = as_array(values.mean(0)), as_array(values.std(0, correction=0))
            for unit in range(mean.shape[-1]):
                label = f"layer {depth}, unit {unit + 1}"
                curves.append(Curve(label, member, mean[:, unit], std[:, unit]))
    return curves


def _rates(model: ClocksLFM, member: str, time: Array, time_scale: float) -> list[Curve]:
    """Rate of each clock, in cycles per unit of the user's time, at times of the record."""
    fitted, n_clocks = model.fitted, len(model.config.clocks)
    grid, center = fitted.grid, fitted.posterior.state
    laws = grid.knots(fitted.priors)
    border, knots = fitted.posterior.draw(numpy_for(0, "draw"), _N_PATHS)
    knots = knots + center.knots[:, None]
    last = grid.begin + grid.width * (grid.count - 1)
    ends = [np.clip(time + side * grid.width, grid.begin, last) for side in (-0.5, 0.5)]
    curves = []
    for c in range(n_clocks):
        before, after = (laws.columns(end, c) @ knots for end in ends)
        moved = (after - before) / np.maximum(ends[1] - ends[0], 1e-12)[:, None]
        rate = (moved + center.frequency[c] + border[c - n_clocks]) / (2 * np.pi * time_scale)
        curves.append(Curve(f"clock {c + 1}: rate", member, rate.mean(1), rate.std(1)))
    return curves


def sees_only_time(block: Block) -> bool:
    """Whether time is all that a block depends on."""
    is_first = block.columns is None or block.columns == [0]  # the others are covariates
    return not block.sees_hidden and block.features.n_inputs == 1 and is_first


def is_driven(block: Block) -> bool:
    """Whether a block is a differential equation in time, driven by forces."""
    return sees_only_time(block) and block.features.has_force


def block_label(name: str, block: Block, layer: Layer) -> str:
    """A name, with that of the block where the layer has several differential equations."""
    has_several = sum(map(is_driven, layer.blocks)) > 1
    return f"{name}, {block.name}" if has_several and block.name else name


def force_moments(
    layer: Layer, block: Block, x: Float[Tensor, "N P"], force: int | None = None
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
    """Mean and standard deviation of Σ_q S_q u_q of a block, or of one force u_q."""
    features = block.features
    time = block.originals(x).double()  # N 1
    phase = frequencies_of(block)[:, 0].unsqueeze(1) * time[:, :, None]  # G N Q M
    size = block.frequencies.feature_weight.double().expand_as(phase)
    if force is None:
        size = size * features.sensitivity.double()[:, 0, None, :, None]
    else:
        size = size * torch.nn.functional.one_hot(torch.tensor(force), features.n_forces)[:, None]
    parts = [(size * wave).flatten(-2) for wave in (phase.cos(), phase.sin())]
    columns = phase.new_zeros(*parts[0].shape[:-1], layer.weights.mean.shape[-2])
    first = columns_of(block, layer).start
    columns[..., first : first + 2 * parts[0].shape[-1]] = torch.cat(parts, dim=-1)
    mean, variance = layer.weights.moments_of([columns.to(layer.weights.mean.dtype)])
    if layer.shared_weights:  # decays and sensitivities are estimated too
        spread = layer.parameter_spread.to(columns.dtype)
        variance = variance + (columns @ spread).square().sum(-1, keepdim=True)
    return layer.by_output(mean), layer.by_output(variance).clamp_min(0).sqrt()


def columns_of(block: Block, layer: Layer) -> slice:
    """Columns of Φ, and rows of W, of a block."""
    return layer.column_slices()[list(layer.blocks).index(block)]


def frequencies_of(block: Block) -> Float[Tensor, "G P Q M"]:
    """Ω as prediction uses it; the first draw where each sample has its own."""
    generator = generator_for(0, "prediction")
    frequency = block.frequencies(block.features, 1, generator).double()
    return frequency[0] if frequency.dim() == 5 else frequency


def _entering(
    layer: Layer,
    x: Float[Tensor, "N P"],
    member: str,
    outputs: dict[int, tuple[str, float]],
    time_scale: float,
) -> Iterator[Curve]:
    """Force of every differential equation in time of a layer, for outputs with a name and a unit."""
    for block in filter(is_driven, layer.blocks):
        mean, std = map(as_array, force_moments(layer, block, x))
        for d, (name, scale) in outputs.items():
            rate = scale / time_scale**block.features.n_states
            label = block_label(name, block, layer)
            yield Curve(label, member, rate * mean[:, d], rate * std[:, d])


def _shared(layer: Layer, x: Float[Tensor, "N P"], member: str) -> Iterator[Curve]:
    for block in filter(is_driven, layer.blocks):
        for q in range(block.features.n_forces):
            mean, std = map(as_array, force_moments(layer, block, x, force=q))
            yield Curve(f"force {q + 1}", member, mean[:, 0], std[:, 0])
