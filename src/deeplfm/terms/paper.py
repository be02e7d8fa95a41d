r"""The paper's own model: as its text describes it, and as the authors' public code trains it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.terms.base import BuildContext, NamedModel
from deeplfm.terms.initial import mean_field
from deeplfm.training import Phase, Rows, Schedule

_N_SAMPLES = 100


@dataclass(frozen=True, repr=False)
class Paper(NamedModel):
    """The paper's text: var-fixed frequencies, mean-field weights, ELBO, AdamW, batches of 1000.

    Attributes:
        hidden: width of each hidden layer.
        n_forces: number of latent forces.
        n_features: number of frequencies of each force.
        system: linear system of the layers; ``"eq"`` and ``"arc1"`` give deep Gaussian processes.
    """

    term_name: ClassVar[str] = "paper"
    n_steps: ClassVar[int] = 1000  # the paper gives no number
    is_calibrated: ClassVar[bool] = False
    default_dtype: ClassVar[torch.dtype] = torch.float32
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100
    system: str = "ode1"

    def schedule(self, n_steps: int) -> Schedule:
        """The evidence lower bound, in batches."""
        return Schedule("elbo", (Phase(n_steps),), batch_size=1000)

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model with the starting values of the paper's appendix."""
        block = BlockConfig(
            self.system, n_forces=self.n_forces, n_features=self.n_features, name="deep"
        )
        hidden = tuple(LayerConfig(width, (block,)) for width in self.hidden)
        output = LayerConfig(rows.y.shape[1], (block,), own_features=True)
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*hidden, output),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=_N_SAMPLES,
            n_paths=_N_SAMPLES,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        initialise_as_paper(model, generator_for(context.seed, "start"))
        return model


@torch.no_grad()
def initialise_as_paper(model: DeepLFM, generator: torch.Generator) -> None:
    """The paper's appendix: ℓ = γ = 0.01 (output ℓ = 1), S ~ N(0, 1), noise variance 0.01.

    Deep Gaussian processes start alike, the output layer too: with ℓ = 0.01 there they do not train. On
    tables they start at the number of inputs of the layer. The text is silent on q(W); here hidden
    weights start at draws from their prior with a small variance.
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
            features.set_bandwidth(0.01)
            if features.has_force:
                noise = torch.randn(features.raw_sensitivity.shape, generator=generator)
                features.raw_sensitivity.copy_(noise)
            elif is_table:
                lengthscale = features.n_inputs
            features.log_lengthscale.fill_(math.log(lengthscale))
            block.frequencies.reset(features)
    model.gaussian.log_variance.fill_(math.log(0.01))


_ONE_SAMPLE, _WEIGHTS, _FREQUENCIES = 51, 150, 200  # steps of the first three phases
_DECAY, _HIDDEN_LENGTHSCALE, _NOISE = 0.01, 0.01, math.exp(-2)
_OUTPUT_LENGTHSCALE = math.exp(0.01)  # the code stores 0.01 as a logarithm


@dataclass(frozen=True, repr=False)
class Reference(NamedModel):
    """The deep latent force model of the authors' public code, which differs from the paper's text.

    - All outputs share the frequencies of the last layer and one noise variance. Each has its own
      decay, sensitivity and weights.
    - Sensitivities are positive, |ρ|/√Q. Lengthscales stay where they start.
    - The objective is the log-mean-exp over *sampled* outputs, not the ELBO, and counts the KL of the
      last layer once for each output.
    - Weights start at their prior, the noise variance at e⁻². Both train from the first step, with one
      sample for 51 steps; frequencies join after 201 steps, the other parameters after 401. Batches
      hold all rows.

    Predictions mix ``n_samples`` paths of the hidden layers and integrate the output weights, which the
    code samples.

    Attributes:
        hidden: width of each hidden layer.
        n_forces: number Q of latent forces.
        n_features: number of frequencies of each force.
        n_samples: Monte Carlo samples of a step.
        n_restarts: how often it is trained from other initial values. Frequencies lock on to those of
            the data or they do not; the objective of the training rows shows which.
    """

    term_name: ClassVar[str] = "reference"
    n_steps: ClassVar[int] = 2000  # the code trains for a time limit
    is_calibrated: ClassVar[bool] = False
    default_dtype: ClassVar[torch.dtype] = torch.float32
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100
    n_samples: int = 100
    n_restarts: int = 1

    def schedule(self, n_steps: int) -> Schedule:
        """AdamW on all rows, in four phases."""
        phases = (
            Phase(_ONE_SAMPLE, ("weights", "noise"), n_samples=1),
            Phase(_WEIGHTS, ("weights", "noise")),
            Phase(_FREQUENCIES, ("weights", "noise", "frequencies")),
            Phase(n_steps),
        )
        starts = accumulate((phase.n_steps for phase in phases), initial=0)
        return Schedule(
            "sampled-predictive",
            tuple(
                replace(phase, n_steps=max(0, min(phase.n_steps, n_steps - start)))
                for phase, start in zip(phases, starts, strict=False)
            ),
            batch_size=None,
            learning_rate=0.01,
            weight_decay=0.01,
            std_rate=0.5,  # the code's parameters are log variances
        )

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model with the starting values of the code."""
        n_outputs = rows.y.shape[1]
        block = BlockConfig(
            "ode1",
            n_forces=self.n_forces,
            n_features=self.n_features,
            options={"positive_sensitivity": True},
            name="deep",
        )
        output = LayerConfig(
            n_outputs,
            (block,),
            own_features=True,
            shared_frequencies=True,
            kl_weight=float(n_outputs),
        )
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*(LayerConfig(width, (block,)) for width in self.hidden), output),
            input_dependent_noise=context.input_dependent_noise,
            shared_noise=True,
            n_samples=self.n_samples,
            n_paths=self.n_samples,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        _initialise(model, generator_for(context.seed, "start"))
        return model


@torch.no_grad()
def _initialise(model: DeepLFM, generator: torch.Generator) -> None:
    """γ = 0.01, S = |N(0, 1)|/√Q, q(W) and q(Ω) at their priors."""
    for layer in model.layers:
        is_output = layer is model.output_layer
        (block,) = layer.blocks
        features = block.features
        features.set_bandwidth(_DECAY)
        draw = torch.randn(features.raw_sensitivity.shape, generator=generator)
        features.raw_sensitivity.copy_(draw)
        features.sensitivity_unit.fill_(1 / math.sqrt(features.n_forces))
        lengthscale = _OUTPUT_LENGTHSCALE if is_output else _HIDDEN_LENGTHSCALE
        features.log_lengthscale.fill_(math.log(lengthscale)).requires_grad_(False)
        block.frequencies.reset(features)
    model.gaussian.log_variance.fill_(math.log(_NOISE))
