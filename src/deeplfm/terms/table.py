"""Models of a table, whose inputs are several and none of which is time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.layers import Block, Layer
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.terms.base import BuildContext, NamedModel, running, set_noise
from deeplfm.terms.deep import N_PATHS, N_SAMPLES, initialise_layer, initialise_output
from deeplfm.terms.initial import mean_field
from deeplfm.training import Phase, Rows, Schedule

_AT_ONCE = 5000  # rows of a step; the weights of fewer rows are solved in each step
_LINEAR, _SMOOTH = 0.3, 0.5  # prior standard deviation of each slope, and of the smooth function
_SMOOTH_NOISE = 0.3  # variance, before training


@dataclass(frozen=True, repr=False)
class Smooth(NamedModel):
    """A straight line and a smooth function of all inputs, with exact weights.

    The scale of the line and of the smooth function along each input is trained by the evidence. So what
    the rows do not show is shrunk, which suits tables of few rows.

    Attributes:
        n_features: number of frequencies of the smooth function.
    """

    term_name: ClassVar[str] = "smooth"
    has_hidden_layer: ClassVar[bool] = False
    n_features: int = 100

    def schedule(self, n_steps: int) -> Schedule:
        """The evidence of all rows, or of many, natural-gradient steps of the exact weights."""
        return Schedule(
            "collapsed",
            (Phase(n_steps),),
            batch_size=_AT_ONCE,
            learning_rate=0.05,
            final_rate_fraction=0.05,
            weight_decay=0.0,
            natural_rate=0.3,
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model of nearly straight lines."""
        n_inputs, n_outputs = rows.x.shape[1], rows.y.shape[1]
        block = BlockConfig(
            "eq",
            "original",
            n_features=self.n_features,
            frequencies="prior-fixed",
            extras=("constant", "trend"),
            name=self.term_name,
        )
        config = ModelConfig(
            n_inputs=n_inputs,
            layers=(LayerConfig(n_outputs, (block,), "exact", own_features=True),),
            input_dependent_noise=context.input_dependent_noise,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        features = model.output_layer.block(self.term_name).features
        with torch.no_grad():
            features.log_lengthscale.fill_(math.log(2 * math.sqrt(n_inputs)))
            features.set_sensitivity(torch.full_like(features.sensitivity, _SMOOTH))
            features.log_extra_scale[:, 1:].fill_(math.log(_LINEAR))
        set_noise(model, torch.full((n_outputs,), _SMOOTH_NOISE))
        return model


_SHALLOW_FEATURES = 100
_NOISE = 0.1  # variance, before training


@dataclass(frozen=True, repr=False)
class Table(NamedModel):
    """Hidden layers, and beside them smooth features of the inputs, with exact output weights.

    Attributes:
        hidden: width of each hidden layer.
        n_forces: number of latent forces of a hidden layer.
        n_features: number of frequencies of each force.
        system: linear system of the deep path.
    """

    term_name: ClassVar[str] = "table"
    n_steps: ClassVar[int] = 100
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100
    system: str = "ode1"

    def schedule(self, n_steps: int) -> Schedule:
        """Mini-batches, with natural-gradient steps of the exact output weights."""
        return Schedule(
            "collapsed",
            (Phase(n_steps),),
            batch_size=1000,
            learning_rate=0.01,
            final_rate_fraction=0.05,
            weight_decay=0.0,
            natural_rate=0.1,
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model whose hidden layers start at random functions of the inputs."""
        deep = BlockConfig(
            self.system, n_features=self.n_features, options=running(self.system), name="deep"
        )
        first = BlockConfig(
            self.system,
            n_forces=self.n_forces,
            n_features=self.n_features,
            extras=("trend",),
            options=running(self.system),
            name="deep",
        )
        shallow = BlockConfig(
            "eq",
            "original",
            n_features=_SHALLOW_FEATURES,
            extras=("constant", "trend"),
            name="smooth",
        )
        hidden = tuple(LayerConfig(width, (first,), is_antithetic=True) for width in self.hidden)
        output = LayerConfig(rows.y.shape[1], (deep, shallow), "exact", own_features=True)
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*hidden, output),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=N_SAMPLES,
            n_paths=N_PATHS,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        generator = generator_for(context.seed, "start")
        for layer in model.layers[:-1]:
            initialise_layer(layer, generator)
        initialise_output(model.output_layer.block("deep"))
        initialise_fine(model.output_layer.block("smooth"))
        set_noise(model, torch.full((rows.y.shape[1],), _NOISE))
        return model


def n_components_of(rows: Rows) -> int:
    """Components of a mixture density that the rows of a table can determine."""
    n_known = int((~rows.y.isnan()).sum(0).min())
    return max(2, min(_MOST_COMPONENTS, n_known // _ROWS_PER_COMPONENT))


@torch.no_grad()
def initialise_fine(block: Block) -> None:
    """Frequencies for a standardised table: a quarter of the usual distance of two rows is resolved."""
    features, frequencies = block.features, block.frequencies
    features.log_lengthscale.fill_(math.log(0.25 * math.sqrt(features.n_inputs)))
    frequencies.mean.copy_(frequencies.noise[0] * features.frequency_prior()[1])
    frequencies.log_std.fill_(math.log(0.01))


_N_SAMPLES, _N_PATHS = 1, 8  # of the hidden layers
_HIDDEN_LENGTHSCALE, _HIDDEN_SCALE = 0.5, 0.5
_OUTPUT_LENGTHSCALE, _LOGIT_SCALE = 0.3, 3.0
_WEIGHT_STD, _HIDDEN_WEIGHT_STD, _FREQUENCY_STD = 0.1, 0.03, 0.01  # initial, of q(W) and q(Ω)
_MOST_COMPONENTS, _ROWS_PER_COMPONENT = 24, 50


@dataclass(frozen=True, repr=False)
class DeepTable(NamedModel):
    """Hidden layers, and a mixture density whose weights are functions of the hidden values alone.

    Each layer is the response of a Gaussian smoothing filter to Gaussian-process forces on its inputs
    (``"eq"``): a response along single inputs (``"ode1"``) is additive, and tables have interactions.
    Nothing passes by the hidden layers. They are wide, and a constant and linear functions of the
    inputs are among their columns, so that no input is lost on the way.

    Attributes:
        hidden: width of each hidden layer.
        n_features: number of frequencies of the last layer.
        n_hidden_features: number of frequencies of a hidden layer.

    >>> str(DeepTable((16, 16), n_features=100))
    'deeptable((16, 16), n_features=100)'
    """

    term_name: ClassVar[str] = "deeptable"
    n_steps: ClassVar[int] = 800
    is_calibrated: ClassVar[bool] = False
    default_dtype: ClassVar[torch.dtype] = torch.float32
    hidden: tuple[int, ...] = (16,)
    n_features: int = 200
    n_hidden_features: int = 50

    def schedule(self, n_steps: int) -> Schedule:
        """The evidence lower bound, in batches of 1000 rows, with a rate that falls to zero."""
        return Schedule(
            "elbo",
            (Phase(n_steps),),
            batch_size=1000,
            learning_rate=0.03,
            final_rate_fraction=0.02,
            weight_decay=0.0,
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """Random functions of the inputs in the hidden layers; components at quantiles of the targets."""
        n_outputs, n_components = rows.y.shape[1], n_components_of(rows)
        block = BlockConfig(
            "eq", n_features=self.n_hidden_features, extras=("constant", "trend"), name="deep"
        )
        last = replace(block, inputs="hidden", n_features=self.n_features)
        hidden = tuple(LayerConfig(width, (block,)) for width in self.hidden)
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*hidden, LayerConfig(n_outputs * n_components, (last,))),
            n_samples=_N_SAMPLES,
            n_paths=_N_PATHS,
            n_components=n_components,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        generator = generator_for(context.seed, "start")
        for layer in model.layers[:-1]:
            _initialise(layer, _HIDDEN_LENGTHSCALE, _HIDDEN_SCALE, _HIDDEN_WEIGHT_STD)
            mean_field(layer).mean.data.normal_(generator=generator)
        _initialise(model.output_layer, _OUTPUT_LENGTHSCALE, _LOGIT_SCALE, _WEIGHT_STD)
        model.mixture_density.initialise(rows.y, rows.counts)
        return model


@torch.no_grad()
def _initialise(layer: Layer, lengthscale: float, scale: float, std: float) -> None:
    """Functions of a lengthscale, for each of P inputs in units of √P, and of a size."""
    (block,) = layer.blocks
    features, frequencies = block.features, block.frequencies
    features.log_lengthscale.fill_(math.log(lengthscale * math.sqrt(features.n_inputs)))
    features.set_sensitivity(torch.full_like(features.sensitivity, scale))
    frequencies.mean.copy_(frequencies.noise[0] * features.frequency_prior()[1])
    frequencies.log_std.fill_(math.log(_FREQUENCY_STD))
    mean_field(layer).log_std.fill_(math.log(std))
