r"""Gaussian likelihood: one noise variance per output, constant or a function of the input."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.config import BlockConfig
from deeplfm.features.columns import LayerColumns
from deeplfm.features.products import multiply
from deeplfm.layers import Block, Layer
from deeplfm.likelihoods.base import Components, Likelihood, mask_missing

_LOG_2PI = math.log(2 * math.pi)
_NOISE_VARIANCE = 0.01  # before training, of standardised outputs
_HEAD_FEATURES = 20  # of noise that depends on the input, which varies slowly


class Gaussian(Likelihood):
    r"""y = f + e with e ~ N(0, σ_d²), or σ_d²(x) = σ_d² exp(ψ(x)ᵀv_d) from a noise head.

    The head is a block of features on the original input whose weights v have a N(0, 1) prior and
    are point estimates; :meth:`penalty` is −log p(v) up to a constant.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        input_dependent: bool = False,
        is_shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_outputs)
        n_variances = 1 if is_shared else n_outputs
        self.log_variance = nn.Parameter(torch.full((n_variances,), math.log(_NOISE_VARIANCE)))
        self.head: Block | None = None
        if input_dependent:
            config = BlockConfig(system="eq", n_features=_HEAD_FEATURES, frequencies="prior-fixed")
            self.head = Block(config, n_inputs, 0, 1, False, 1, generator)
            columns = self.head.features.n_columns
            self.head_weights = nn.Parameter(torch.zeros(columns, n_outputs))

    def variance(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Noise variance at each row."""
        log_variance = self.log_variance.expand(x.shape[-2], len(self.inflation))
        if self.head is not None:
            columns = LayerColumns([self.head(x, 1)], 1, len(x)).whole()
            log_variance = log_variance + multiply(columns, self.head_weights[None])[0]
        return log_variance.exp()

    def predictive_variance(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Noise variance of a prediction at each row."""
        return self.variance(x) * self.inflation ** self.remoteness(x)

    def precision(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Targets without gaps, and the noise precision of each: 0 where the target is missing."""
        target, observed = mask_missing(y)
        precision = observed / self.variance(x)
        if row_weight is not None:
            precision = precision * row_weight[:, None]
        return target, precision

    def components(
        self,
        x: Float[Tensor, "N P"],
        mean: Float[Tensor, "S N D"],
        variance: Float[Tensor, "S N D"],
    ) -> Components:
        """One component for each sample, all of the same weight."""
        noise = self.predictive_variance(x).to(mean.dtype).expand_as(mean)
        weight = mean.new_full((len(mean), 1, mean.shape[-1]), 1 / len(mean))
        return Components(mean, variance, noise, weight)

    def log_prob(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        function: Float[Tensor, "*S N D"],
    ) -> Float[Tensor, "*S N D"]:
        """Density N(y; f, σ²)."""
        return self.log_marginal(x, target, function, torch.zeros_like(function))

    def expected_log_prob(
        self,
        layer: Layer,
        features: LayerColumns,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        weight: Float[Tensor, "N D"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, ""]:
        """Σ w E[log N(y; f, σ²)] = Σ w log N(y; y, σ²) − ½ Σ w E[(y − f)²]/σ², moments not stored."""
        variance = self.variance(x)
        squares = layer.squares(features, target, weight / variance)
        weight, log_variance = (item.to(squares.dtype) for item in (weight, variance.log()))
        return -0.5 * ((weight * (_LOG_2PI + log_variance)).sum() + squares)

    def log_marginal(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        mean: Float[Tensor, "*S N D"],
        variance: Float[Tensor, "*S N D"],
    ) -> Float[Tensor, "*S N D"]:
        """Density N(y; mean, variance + σ²)."""
        total = variance + self.variance(x).to(mean.dtype)
        return -0.5 * (_LOG_2PI + total.log() + (target - mean).square() / total)

    def penalty(self) -> Float[Tensor, ""]:
        """Minus the log prior of the head's weights, up to a constant."""
        if self.head is None:
            return self.log_variance.new_zeros(())
        return 0.5 * self.head_weights.square().sum()
