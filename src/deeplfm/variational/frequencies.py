r"""Distributions of the spectral frequencies Ω, and how they are turned into numbers."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.errors import ConfigError
from deeplfm.features import FeatureMap

STRATEGIES = ("prior-fixed", "var-fixed", "var-resampled", "nodes")


class Frequencies(nn.Module):
    r"""Frequencies Ω of one feature map, by one of four strategies.

    - ``prior-fixed``: Ω = c + √v/ℓ·ε with ε drawn once; ℓ is learned through Ω.
    - ``var-fixed`` (the paper): q(Ω) = N(m, s²), Ω = m + s·ε with ε drawn once; ℓ is learned
      through KL[q(Ω) ‖ p(Ω)].
    - ``var-resampled``: the same q, a new ε for every step and sample.
    - ``nodes``: prior-fixed with ε at Gauss–Hermite nodes in place of random ones. M nodes carry a
      force of bandwidth √v/ℓ exactly up to polynomials of degree 2M − 1, so that the uncertainty of
      a frequency reaches the forecast in closed form: the weights of neighbouring nodes are what a
      tangent ∂φ/∂ω is to first order.

    The noise ε is shared by all samples (as in both public codes) unless ``n_noise`` asks for
    several, one per sample (the indices of the paper's text); sample r then uses ε_{r mod n_noise}.
    """

    noise: Tensor
    feature_weight: Tensor

    def __init__(
        self,
        features: FeatureMap,
        strategy: str = "var-fixed",
        n_noise: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if strategy not in STRATEGIES:
            raise ConfigError(
                f"frequencies: strategy {strategy!r} is not known. "
                f"Choose one of {', '.join(STRATEGIES)}."
            )
        self.strategy = strategy
        shape = features.frequency_shape
        n_features = shape[-1]
        # In float64 until the model's dtype is known: nodes must not keep the digits of float32.
        weight = torch.full((n_features,), 1 / math.sqrt(max(1, n_features)), dtype=torch.float64)
        if strategy == "nodes":
            nodes, weights = np.polynomial.hermite_e.hermegauss(n_features)
            noise = torch.as_tensor(nodes).expand(1, *shape).clone()
            weight = torch.as_tensor(np.sqrt(weights / weights.sum()))
        else:
            noise = torch.randn(n_noise, *shape, generator=generator).double()
        self.register_buffer("noise", noise)
        self.register_buffer("feature_weight", weight)
        if self.is_variational:
            self.mean = nn.Parameter(torch.zeros(shape))
            self.log_std = nn.Parameter(torch.zeros(shape))
            self.reset(features)

    @property
    def is_variational(self) -> bool:
        """Whether Ω has a learned distribution of its own."""
        return self.strategy.startswith("var")

    @property
    def differs_by_sample(self) -> bool:
        """Whether features depend on the sample even where inputs do not."""
        return self.strategy == "var-resampled" or self.noise.shape[0] > 1

    @torch.no_grad()
    def reset(self, features: FeatureMap) -> None:
        """Set q(Ω) to the prior."""
        if self.is_variational:
            mean, std = features.frequency_prior()
            self.mean.copy_(mean.expand_as(self.mean))
            self.log_std.copy_(std.log().expand_as(self.log_std))

    def forward(
        self, features: FeatureMap, n_samples: int, generator: torch.Generator | None = None
    ) -> Float[Tensor, "*S G P Q M"]:
        """Frequencies for a number of samples; without a sample dimension where all are equal."""
        if self.strategy == "var-resampled":
            noise = torch.randn(
                n_samples,
                *self.mean.shape,
                generator=generator,
                dtype=self.mean.dtype,
                device=self.mean.device,
            )
        elif self.differs_by_sample:
            noise = self.noise[torch.arange(n_samples, device=self.noise.device) % len(self.noise)]
        else:
            noise = self.noise[0]
        noise = noise.to(features.log_lengthscale.dtype)
        if self.is_variational:
            return self.mean + self.log_std.exp() * noise
        mean, std = features.frequency_prior()
        return mean + std * noise

    def kl(self, features: FeatureMap) -> Float[Tensor, ""]:
        """KL[q(Ω) ‖ p(Ω)]; zero where Ω follows its prior."""
        if not self.is_variational:
            return features.log_lengthscale.new_zeros(())
        prior_mean, prior_std = features.frequency_prior()
        log_ratio = self.log_std - prior_std.log()  # 0, to the last bit, at q = p
        shift = (self.mean - prior_mean) / prior_std
        return 0.5 * (torch.expm1(2 * log_ratio) - 2 * log_ratio + shift.square()).sum()
