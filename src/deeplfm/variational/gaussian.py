r"""Gaussian distributions q(Ω) of the frequencies and q(W) of the weights, found by gradients.

W has shape G K U: groups of outputs with features of their own, columns of Φ, units of a group, and the
prior N(0, 1) on every entry. With weights shared by the groups (the classical LFM, one force for all
outputs) the first is 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from deeplfm.errors import ConfigError
from deeplfm.features import FeatureMap
from deeplfm.features.products import FeatureBlocks, diagonal_moments, multiply

STRATEGIES = ("prior-fixed", "var-fixed", "var-resampled", "nodes")
Columns = slice | Int64[Tensor, " k"]
ALL = slice(None)


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


class GaussianWeights(nn.Module):
    """The contract of q(W): moments of ΦW, draws of W, and its KL from the prior."""

    mean: Tensor

    @abstractmethod
    def coefficients(self, columns: Columns = ALL) -> tuple[Tensor, ...]:
        """Tensors of q that give the moments of ΦW, or of some columns of Φ and their weights."""

    @staticmethod
    @abstractmethod
    def moments(
        features: FeatureBlocks, *known: Tensor
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """Mean and variance of ΦW for each row, from the columns and :meth:`coefficients`."""

    @abstractmethod
    def draw(self, noise: Float[Tensor, "S G K U"]) -> Float[Tensor, "S G K U"]:
        """Weights from standard normal noise."""

    @abstractmethod
    def kl(self) -> Float[Tensor, ""]:
        """KL[q(W) ‖ N(0, I)]."""

    def moments_of(
        self, features: FeatureBlocks
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """Mean and variance of ΦW for each row."""
        return self.moments(features, *self.coefficients())


class MeanField(GaussianWeights):
    """Independent entries (the paper). Starts at the prior's variance, means at zero."""

    def __init__(self, n_groups: int, n_columns: int, n_units: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(n_groups, n_columns, n_units))
        self.log_std = nn.Parameter(torch.zeros(n_groups, n_columns, n_units))

    def coefficients(self, columns: Columns = ALL) -> tuple[Tensor, ...]:
        """M and V."""
        return self.mean[:, columns], (2 * self.log_std[:, columns]).exp()

    @staticmethod
    def moments(
        features: FeatureBlocks, *known: Tensor
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """ΦM and Φ²V."""
        mean, variance = known
        return diagonal_moments(features, mean, variance)

    def draw(self, noise: Float[Tensor, "S G K U"]) -> Float[Tensor, "S G K U"]:
        """Mean plus scaled noise."""
        return self.mean + self.log_std.exp() * noise

    def kl(self) -> Float[Tensor, ""]:
        """Sum of univariate divergences."""
        variance = (2 * self.log_std).exp()
        return 0.5 * (variance + self.mean.square() - 1 - 2 * self.log_std).sum()


class FullCovariance(GaussianWeights):
    """One covariance R Rᵀ over the K columns of each unit, R lower triangular with a log diagonal."""

    def __init__(self, n_groups: int, n_columns: int, n_units: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(n_groups, n_columns, n_units))
        self.raw_root = nn.Parameter(torch.zeros(n_groups, n_units, n_columns, n_columns))

    @property
    def root(self) -> Float[Tensor, "G U K K"]:
        """R, with covariance R Rᵀ."""
        diagonal = self.raw_root.diagonal(dim1=-2, dim2=-1).exp()
        return self.raw_root.tril(-1) + torch.diag_embed(diagonal)

    def coefficients(self, columns: Columns = ALL) -> tuple[Tensor, ...]:
        """Mean and root."""
        return self.mean[:, columns], self.root[:, :, columns]

    @staticmethod
    def moments(
        features: FeatureBlocks, *known: Tensor
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """ΦM, and the squared length of φᵀR."""
        mean, root = known
        lengths = [multiply(features, unit).square().sum(-1) for unit in root.unbind(dim=1)]
        return multiply(features, mean), torch.stack(lengths, dim=-1)

    def draw(self, noise: Float[Tensor, "S G K U"]) -> Float[Tensor, "S G K U"]:
        """Mean plus R times noise."""
        return self.mean + torch.einsum("guij,sgju->sgiu", self.root, noise.to(self.mean.dtype))

    def kl(self) -> Float[Tensor, ""]:
        """½(tr C + mᵀm − K − log|C|), summed over groups and units."""
        return self.kl_by_group().sum()

    def kl_by_group(self) -> Float[Tensor, " G"]:
        """The divergence of each group."""
        root = self.root
        log_determinant = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum((-2, -1))
        squares = root.square().sum((-3, -2, -1)) + self.mean.square().sum((-2, -1))
        return 0.5 * (squares - self.mean[0].numel() - log_determinant)
