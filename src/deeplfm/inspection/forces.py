r"""Looking inside a fitted model: forces, hidden layers, filters and the spectrum it has learned.

Where f' + γf = u and u(τ) = Σ_s a_s cos ω_sτ + b_s sin ω_sτ, the response is f(t) = Σ_s a_s Re φ_s + b_s
Im φ_s with the same a and b. So the weights of a layer are a posterior of its forces as well: a force
is those weights on other columns, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.inspection.waveforms import (
    force_moments,
    hears_time,
    is_driven,
    makes_waves,
    power_of_lines,
)
from deeplfm.layers import Block, Layer
from deeplfm.selection.average import ModelAverage

_FILTER_DECADES, _FILTER_POINTS = 3, 200
_FEWEST_CYCLES = 0.01  # in the record: slower waves are a level


@dataclass(frozen=True)
class Curve:
    """A function of time with a band.

    Attributes:
        label: what it is.
        member: which model of the stack it belongs to.
        mean: expected value of every row.
        std: standard deviation of every row.
    """

    label: str
    member: str
    mean: Float64[ndarray, " N"]
    std: Float64[ndarray, " N"]


@dataclass(frozen=True)
class Spectrum:
    """A function of frequency, in cycles per unit of time.

    Attributes:
        label: what it is.
        member: which model of the stack it belongs to.
        frequency: in increasing order.
        value: power of a wave, or gain of a filter.
    """

    label: str
    member: str
    frequency: Float64[ndarray, " F"]
    value: Float64[ndarray, " F"]


@dataclass(frozen=True)
class Inspector:
    """The models of a stack, and what their units are to the user.

    Attributes:
        stack: fitted models.
        members: their names.
        is_for_gaps: which of them were calibrated for gaps.
        outputs: names of the outputs.
        time_scale: one unit of the models' time, in the user's.
        output_scale: one unit of each output, in the user's.
    """

    stack: ModelAverage
    members: Sequence[str]
    is_for_gaps: Sequence[bool]
    outputs: Sequence[str]
    time_scale: float
    output_scale: Float64[ndarray, " D"]

    @torch.no_grad()
    def forces(self, x: Float[Tensor, "N P"]) -> list[Curve]:
        """Forces as they enter the equations whose input is time: f' + γf = Σ_q S_q u_q.

        Of the heaviest member for each output, in units of the output over units of time, one curve
        for each block of its last layer; and of the first hidden layer where that member has one.
        Outputs that share their forces (the classical latent force model) have one curve for each
        force, in units of its own standard deviation.
        """
        curves = []
        for index, outputs in self._heaviest().items():
            model, member = self.stack.members[index], self.members[index]
            first, last = model.layers[0], model.output_layer
            if first is not last:
                for block, mean, std in _driven(first, x):
                    for unit in range(mean.shape[-1]):
                        name = _named(f"layer 1, unit {unit + 1}", block, first)
                        curves.append(self._curve(name, member, mean, std, unit, 1.0))
            if last.shared_weights:
                curves += self._shared(member, last, x)
                continue
            for block, mean, std in _driven(last, x):
                for d in outputs:
                    name = _named(self.outputs[d], block, last)
                    curves.append(self._curve(name, member, mean, std, d, self.output_scale[d]))
        return curves

    @torch.no_grad()
    def hidden_layers(self, x: Float[Tensor, "N P"]) -> list[Curve]:
        """What each hidden layer does to time: its units, over the paths that prediction uses."""
        curves = []
        for index in self._shown:
            model, member = self.stack.members[index], self.members[index]
            for depth, values in enumerate(model.hidden_values(x), start=1):
                mean, std = values.mean(0), values.std(0, correction=0)
                for unit in range(mean.shape[-1]):
                    name = f"layer {depth}, unit {unit + 1}"
                    curves.append(Curve(name, member, _array(mean[:, unit]), _array(std[:, unit])))
        return curves

    @torch.no_grad()
    def filters(self) -> list[Spectrum]:
        """What the equations whose input is time let through: |G(jω)|, in units of time."""
        found: list[Spectrum] = []
        for index in self._shown:
            model, member = self.stack.members[index], self.members[index]
            layers = model.layers if model.is_function_of_time else ()
            for depth, layer in enumerate(layers, start=1):
                for block in layer.blocks:
                    if block.features.has_force and hears_time(block):
                        found += self._filters_of(f"layer {depth}", member, layer, block)
        return found

    @torch.no_grad()
    def spectrum(self) -> list[Spectrum]:
        """Power of the waves of time in each output, from the heaviest member that has any.

        A sin 2πft has power A²/2 at f. Powers add up to the mean square over the record: waves too near
        to each other to be told apart in it share what they make together (none for a wave that only
        takes from others), and the waves of a narrow-band force are one line. Those that are no waves
        within the record are left out: they carry its level.
        """
        found = []
        for d, output in enumerate(self.outputs):
            for index in self.stack.weight[:, d].argsort(descending=True).tolist():
                model = self.stack.members[index]
                if index not in self._shown or not model.is_function_of_time:
                    continue
                blocks = list(filter(makes_waves, model.output_layer.blocks))
                if blocks:
                    frequency, power = power_of_lines(model.output_layer, blocks, d)
                    cycles = frequency.abs() / (2 * math.pi)  # in the record
                    order = cycles.argsort()
                    order = order[cycles[order] > _FEWEST_CYCLES]
                    cycles = cycles / self.time_scale
                    scale = float(self.output_scale[d]) ** 2
                    found.append(
                        Spectrum(
                            output,
                            self.members[index],
                            _array(cycles[order]),
                            scale * _array(power[order]),
                        )
                    )
                    break
        return found

    @property
    def _shown(self) -> list[int]:
        """Members that forecast; copies for gaps would show the same twice."""
        return [m for m, is_for_gaps in enumerate(self.is_for_gaps) if not is_for_gaps]

    def _heaviest(self) -> dict[int, list[int]]:
        """The function of time that says most about each output."""
        chosen: dict[int, list[int]] = {}
        in_time = [m for m in self._shown if self.stack.members[m].is_function_of_time]
        if not in_time:
            return chosen
        for d, place in enumerate(self.stack.weight[in_time].argmax(0).tolist()):
            index = in_time[place]
            chosen.setdefault(index, []).append(d)
        return chosen

    def _curve(
        self, name: str, member: str, mean: Tensor, std: Tensor, column: int, scale: float
    ) -> Curve:
        factor = float(scale) / self.time_scale
        return Curve(
            name, member, factor * _array(mean[:, column]), factor * _array(std[:, column])
        )

    def _shared(self, member: str, layer: Layer, x: Tensor) -> list[Curve]:
        curves = []
        for block in filter(is_driven, layer.blocks):
            for q in range(block.features.n_forces):
                mean, std = force_moments(layer, block, x, force=q)
                curves.append(
                    Curve(f"force {q + 1}", member, _array(mean[:, 0]), _array(std[:, 0]))
                )
        return curves

    def _filters_of(
        self, label: str, member: str, layer: Layer, block: Block
    ) -> Iterator[Spectrum]:
        knee = float(block.features.bandwidth.median())
        frequency = torch.logspace(
            math.log10(knee) - _FILTER_DECADES / 2,
            math.log10(knee) + _FILTER_DECADES,
            _FILTER_POINTS,
            dtype=torch.float64,
        )
        gain = block.features.gain(frequency)[:, 0]  # G F
        hears = block.features.sensitivity.flatten(1).any(1)
        for group, values in enumerate(gain):
            if not hears[group]:
                continue
            owner = f", {self.outputs[group]}" if len(gain) == len(self.outputs) > 1 else ""
            yield Spectrum(
                _named(label + owner, block, layer),
                member,
                _array(frequency) / (2 * math.pi * self.time_scale),
                self.time_scale * _array(values),
            )


def _driven(layer: Layer, x: Tensor) -> Iterator[tuple[Block, Tensor, Tensor]]:
    """Blocks that are equations in time, with moments of the force of each output of the layer."""
    for block in filter(is_driven, layer.blocks):
        mean, std = force_moments(layer, block, x)
        yield block, mean, std


def _named(name: str, block: Block, layer: Layer) -> str:
    """Blocks of one layer are told apart by the kind of force that they listen to."""
    if sum(map(is_driven, layer.blocks)) < 2:
        return name
    return f"{name}, {'lines' if block.frequencies.strategy == 'nodes' else 'broad band'}"


def _array(values: Tensor) -> Float64[ndarray, " n"]:
    return values.double().cpu().numpy()
