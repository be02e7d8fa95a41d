"""Spectra of a fitted model: power of its sinusoids, and gains of its differential equations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Complex, Float, Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.features import Response
from deeplfm.inspection.fitted import FittedModel, as_array
from deeplfm.inspection.forces import (
    block_label,
    columns_of,
    frequencies_of,
    is_driven,
    sees_only_time,
)
from deeplfm.layers import Block, Layer

_GAIN_DECADES = (1.5, 3.0)  # shown below and above the bandwidth of a system
_GAIN_POINTS = 200
_FEWEST_CYCLES = 0.01  # in the record: slower sinusoids are its level


@dataclass(frozen=True)
class Spectrum:
    """A function of frequency, in cycles per unit of time."""

    label: str
    member: str
    frequency: Float64[ndarray, " F"]
    value: Float64[ndarray, " F"]


@torch.no_grad()
def filters(fitted: FittedModel) -> list[Spectrum]:
    """Gain |H(jω)| of the differential equations in time, in units of time to the order of each."""
    found = []
    for label, member, block, group in systems_in_time(fitted):
        features = block.features
        center = math.log10(float(features.bandwidth.median()))
        below, above = _GAIN_DECADES
        frequency = torch.logspace(
            center - below, center + above, _GAIN_POINTS, dtype=torch.float64
        )
        cycles = as_array(frequency) / (2 * math.pi * fitted.time_scale)
        gain = as_array(features.gain(frequency)[group, 0])
        found.append(Spectrum(label, member, cycles, fitted.time_scale**features.n_states * gain))
    return found


@torch.no_grad()
def spectrum(fitted: FittedModel) -> list[Spectrum]:
    """Power of the sinusoids of time in each output, from the member of largest weight that has any.

    A sin 2πft has power A²/2 at f. Powers add up to the mean square over the record: sinusoids that are
    too near to each other to be distinguished in it share the power of their sum (none for one that
    only cancels others), and the sinusoids of a narrow-band force are one line. Those with less than
    0.01 cycles in the record are left out: they are its level.
    """
    found = []
    for d, output in enumerate(fitted.outputs):
        for index in fitted.average.weight[:, d].argsort(descending=True).tolist():
            model = fitted.layered.get(index)
            if model is None:
                continue
            blocks = list(filter(_has_sinusoids, model.output_layer.blocks))
            if not blocks:
                continue
            frequency, power = power_of_sinusoids(model.output_layer, blocks, d)
            cycles = frequency.abs() / (2 * math.pi)  # in the record
            order = cycles.argsort()
            order = order[cycles[order] > _FEWEST_CYCLES]
            found.append(
                Spectrum(
                    output,
                    fitted.members[index],
                    as_array(cycles[order]) / fitted.time_scale,
                    as_array(power[order]) * float(fitted.output_scale[d]) ** 2,
                )
            )
            break
    return found


def power_of_sinusoids(
    layer: Layer, blocks: Sequence[Block], output: int
) -> tuple[Float[Tensor, " L"], Float[Tensor, " L"]]:
    """Frequency and power of the lines of one output, in the mean of q(W) and over 0 ≤ t ≤ 1."""
    parts = [_sinusoids(block, layer, output) for block in blocks]
    frequency, amplitude = (
        torch.cat([values.flatten() for values in item]) for item in zip(*parts, strict=True)
    )
    share = _mean_products(frequency, amplitude)
    lines, powers = [], []
    for block, (own, _) in zip(blocks, parts, strict=True):
        part, share = share[: own.numel()].view_as(own), share[own.numel() :]
        if block.frequencies.strategy == "nodes":
            own, part = own.mean(-1), part.sum(-1)
        lines.append(own.flatten())
        powers.append(part.flatten().clamp_min(0))
    return torch.cat(lines), torch.cat(powers)


def _has_sinusoids(block: Block) -> bool:
    """Whether the columns of a block are the real and imaginary responses to e^{jωt}."""
    return sees_only_time(block) and block.features.columns_per_frequency == 2


def _sinusoids(
    block: Block, layer: Layer, output: int
) -> tuple[Float[Tensor, "Q M"], Complex[Tensor, "Q M"]]:
    """ω and c of the sinusoids Re c e^{jωt} that a block adds to an output, in the mean of q(W)."""
    group, unit = divmod(output, layer.n_units)
    features = block.features
    frequency = frequencies_of(block)
    frequency = frequency.expand(features.n_groups, *frequency.shape[1:])[group, 0]  # Q M
    size = features.sensitivity.double()[group, 0, :, None] * block.frequencies.feature_weight
    weights = layer.weights.mean.double()[:, columns_of(block, layer)]
    weights = weights.expand(layer.n_groups, *weights.shape[1:])[group, :, unit]
    real, imaginary = weights[: 2 * size.numel()].view(2, *size.shape)
    transfer = features.transfer(frequency.flatten())[group, 0].view_as(frequency)
    return frequency, torch.complex(real, -imaginary) * size * transfer


def _mean_products(
    frequency: Float[Tensor, " K"], amplitude: Complex[Tensor, " K"]
) -> Float[Tensor, " K"]:
    """Mean over 0 ≤ t ≤ 1 of each sinusoid times the sum of all: shares of that sum's mean square."""

    def overlap(turn: Tensor) -> Tensor:  # ∫ e^{jωt} dt
        return torch.polar(torch.sinc(turn / (2 * math.pi)), turn / 2)

    against = overlap(frequency - frequency[:, None]) @ amplitude
    along = overlap(frequency + frequency[:, None]) @ amplitude
    return (amplitude.conj() * against + amplitude * along).real / 2


@dataclass(frozen=True)
class Equation:
    """f⁽ⁿ⁾ + p₁ f⁽ⁿ⁻¹⁾ + … + p_n f = Σ_q S_q u_q, whose input is time.

    Attributes:
        label: layer, and output and term where there are several.
        member: name of the model that it belongs to.
        coefficients: p₁ … p_n, where p_i is in units of time to the power −i: the decay γ of a
            first-order system, c/m and k/m of a second-order one.
    """

    label: str
    member: str
    coefficients: Float64[ndarray, " n"]

    @property
    def time_constant(self) -> float:
        """Time in which the slowest free response falls to 1/e."""
        return float(-1 / np.roots([1.0, *self.coefficients]).real.max())


@torch.no_grad()
def equations(fitted: FittedModel) -> list[Equation]:
    """Linear differential equations in time, of all layers of all members."""
    found = []
    for label, member, block, group in systems_in_time(fitted):
        if isinstance(block.features, Response):
            polynomial = as_array(block.features.polynomial[group, 0])
            powers = np.arange(1, len(polynomial) + 1)
            found.append(Equation(label, member, polynomial / fitted.time_scale**powers))
    return found


def systems_in_time(fitted: FittedModel) -> Iterator[tuple[str, str, Block, int]]:
    """Label, member, block and group of every system that time and forces drive."""
    for index, model in fitted.layered.items():
        member = fitted.members[index]
        for depth, layer in enumerate(model.layers, 1):
            for block in filter(is_driven, layer.blocks):
                is_active = block.features.sensitivity.flatten(1).any(1)
                has_owners = len(is_active) == len(fitted.outputs) > 1
                for group in is_active.nonzero()[:, 0].tolist():
                    owner = f", {fitted.outputs[group]}" if has_owners else ""
                    yield block_label(f"layer {depth}{owner}", block, layer), member, block, group
