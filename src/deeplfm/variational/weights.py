r"""Gaussian distributions q(W) of a layer's weights, with prior N(0, 1) on every entry.

W has shape G K U: groups of outputs with features of their own, columns of Φ, units of a group.
With weights shared by the groups (the classical LFM, one force for all outputs) the first is 1.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from deeplfm.errors import ConfigError
from deeplfm.features.products import (
    FeatureBlocks,
    diagonal_moments,
    multiply,
    row_quadratic,
)

Columns = slice | Int64[Tensor, " k"]
ALL = slice(None)


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


class Exact(FullCovariance):
    r"""The best q(W) of a last layer with Gaussian noise, in closed form (no gradient descent).

    Its natural parameters are the precision A = I + Σ_n λ_n E[φφᵀ] and the shift b = Σ_n λ_n y_n E[φ]
    (λ the noise precision, 0 for missing values). :meth:`step` moves them towards an estimate from a
    batch: the whole way for a full batch, part of it for a mini-batch, which is a natural-gradient
    step. Held in float64: near-equal frequencies with little noise are indefinite in float32.
    """

    precision: Tensor
    shift: Tensor

    def __init__(self, n_groups: int, n_columns: int, n_units: int) -> None:
        nn.Module.__init__(self)
        eye = torch.eye(n_columns, dtype=torch.float64).expand(n_groups, n_units, -1, -1).clone()
        zeros = torch.zeros(n_groups, n_columns, n_units, dtype=torch.float64)
        self.register_buffer("precision", eye)
        self.register_buffer("shift", zeros)
        self.register_buffer("mean", zeros.clone())
        self.register_buffer("_root", eye.clone())

    @property
    def root(self) -> Float[Tensor, "G U K K"]:
        """R, upper triangular here: the inverse transposed factor of the precision."""
        return self._root

    def coefficients(self, columns: Columns = ALL) -> tuple[Tensor, ...]:
        """Mean and covariance A⁻¹."""
        root = self._root[:, :, columns]
        return self.mean[:, columns], root @ root.mT

    @staticmethod
    def moments(
        features: FeatureBlocks, *known: Tensor
    ) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
        """ΦM and φᵀA⁻¹φ; cheaper than through the root, since no gradient reaches A."""
        mean, covariance = known
        variances = [row_quadratic(features, unit) for unit in covariance.unbind(dim=1)]
        return multiply(features, mean), torch.stack(variances, dim=-1)

    @torch.no_grad()
    def step(
        self,
        gram: Float[Tensor, "G U K K"],
        moment: Float[Tensor, "G K U"],
        rate: float = 1.0,
    ) -> None:
        """Move the natural parameters towards (I + gram, moment)."""
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        self.precision = torch.lerp(self.precision, gram + eye, rate)
        self.shift = torch.lerp(self.shift, moment, rate)
        self.refresh()

    @torch.no_grad()
    def condition_on(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Condition on further rows: the posterior so far is their prior."""
        self.precision = self.precision + gram
        self.shift = self.shift + moment
        self.refresh()

    def refresh(self) -> None:
        """Mean and root of the natural parameters."""
        eye = torch.eye(self.precision.shape[-1], dtype=torch.float64, device=self.precision.device)
        factor = torch.linalg.cholesky(self.precision)
        self._root = torch.linalg.solve_triangular(factor, eye, upper=False).mT.contiguous()
        whitened = torch.einsum("guji,gju->giu", self._root, self.shift)
        self.mean = torch.einsum("guij,gju->giu", self._root, whitened)

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        """Move with the module, but stay in float64."""
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.dtype != torch.float64:
                self._buffers[name] = kept[name].to(buffer.device)
        return self


FAMILIES: dict[str, type[GaussianWeights]] = {
    "mean-field": MeanField,
    "full": FullCovariance,
    "exact": Exact,
}


def gaussian_weights(family: str) -> type[GaussianWeights]:
    """The q(W) registered under a name."""
    try:
        return FAMILIES[family]
    except KeyError:
        raise ConfigError(
            f"weights: {family!r} is not known. Choose one of {', '.join(FAMILIES)}."
        ) from None
