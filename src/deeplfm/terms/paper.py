"""The paper's own model, as its text describes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
