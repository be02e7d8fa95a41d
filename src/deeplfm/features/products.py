r"""Products of feature matrices held as blocks of columns.

Blocks that do not depend on the sample have no sample dimension, so that what they cost is paid
once: Φ = [Φ₁ | Φ₂ | …] is never glued together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

FeatureBlocks = Sequence[Float[Tensor, "*S G N K"]]


class LazyColumns(Sequence[Tensor]):
    """Feature blocks that need not be made for every product."""

    @abstractmethod
    def diagonal_moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """See :func:`diagonal_moments`."""

    @abstractmethod
    def diagonal_squares(
        self, mean: Tensor, variance: Tensor, target: Tensor, weight: Tensor
    ) -> Tensor:
        """See :func:`diagonal_squares`."""


def multiply(
    features: FeatureBlocks, matrix: Float[Tensor, "*S G K U"]
) -> Float[Tensor, "*S G N U"]:
    """Φ times a matrix, in the precision of the matrix."""
    widths = [block.shape[-1] for block in features]
    products = []
    for block, part in zip(features, matrix.split(widths, dim=-2), strict=True):
        if block.dim() > part.dim():  # one matrix for all samples
            product = _unfold_samples(_fold_samples(block).to(part.dtype) @ part, block)
        else:
            product = block.to(part.dtype) @ part
        products.append(product)
    return add(products)


def diagonal_moments(
    features: FeatureBlocks, mean: Float[Tensor, "G K U"], variance: Float[Tensor, "G K U"]
) -> tuple[Float[Tensor, "*S G N U"], Float[Tensor, "*S G N U"]]:
    """ΦM and Φ²V: the moments of ΦW for independent weights."""
    if isinstance(features, LazyColumns):
        return features.diagonal_moments(mean, variance)
    widths = [block.shape[-1] for block in features]
    parts = zip(features, mean.split(widths, -2), variance.split(widths, -2), strict=True)
    means, variances = [], []
    for block, block_mean, block_variance in parts:
        moments = _DiagonalMoments.apply(_fold_samples(block), block_mean, block_variance)
        means.append(_unfold_samples(moments[0], block))
        variances.append(_unfold_samples(moments[1], block))
    return add(means), add(variances)


def diagonal_squares(
    features: FeatureBlocks,
    mean: Float[Tensor, "G K U"],
    variance: Float[Tensor, "G K U"],
    target: Float[Tensor, "G N U"],
    weight: Float[Tensor, "G N U"],
) -> Float[Tensor, ""]:
    """:func:`weighted_squares` of ΦW for independent weights."""
    if isinstance(features, LazyColumns):
        return features.diagonal_squares(mean, variance, target, weight)
    return weighted_squares(*diagonal_moments(features, mean, variance), target, weight)


def weighted_squares(
    mean: Float[Tensor, "*S G N U"],
    variance: Float[Tensor, "*S G N U"],
    target: Float[Tensor, "*#S G N U"],
    weight: Float[Tensor, "G N U"],
) -> Float[Tensor, ""]:
    """Σ_n λ_n E[(y_n − f_n)²] for f of these moments, the mean over samples where there are any."""
    return (weight * sample_mean((target - mean).square() + variance)).sum()


class _DiagonalMoments(torch.autograd.Function):
    """Keeps Φ and not Φ², and adds the two gradients of Φ while they are made."""

    @staticmethod
    def forward(ctx, features, mean, variance):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(features, mean, variance)
        return features @ mean, features.square() @ variance

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mean, grad_variance):  # type: ignore[no-untyped-def]
        features, mean, variance = ctx.saved_tensors
        weighted = (grad_variance @ variance.mT).mul_(features)
        grad_features = torch.baddbmm(
            weighted, grad_mean, mean.expand(len(features), -1, -1).mT, beta=2
        )
        by_mean = (grad_mean.mT @ features).mT.sum_to_size(mean.shape)
        by_variance = (grad_variance.mT @ features.square()).mT.sum_to_size(variance.shape)
        return grad_features, by_mean, by_variance


def add(parts: list[Tensor]) -> Tensor:
    """The sum of what several blocks contribute."""
    if not parts:
        raise ValueError("a layer needs at least one block of features")
    return sum(parts[1:], start=parts[0])


def row_quadratic(
    features: FeatureBlocks, covariance: Float[Tensor, "G K K"]
) -> Float[Tensor, "*S G N"]:
    """φᵀCφ of every row, for a symmetric C that needs no gradient."""
    widths = [block.shape[-1] for block in features]
    terms = []
    for i, (block, rows) in enumerate(zip(features, covariance.split(widths, -2), strict=True)):
        for j, part in enumerate(rows.split(widths, -1)[: i + 1]):
            terms.append(_quadratic(block, features[j], part) * (1 if i == j else 2))
    return add(terms)


def _quadratic(left: Tensor, right: Tensor, matrix: Tensor) -> Tensor:
    if left is right:
        return _SymmetricQuadratic.apply(left.to(matrix.dtype), matrix)
    # The sample-free side is multiplied, so that its product is made once.
    if left.dim() < right.dim():
        left, right, matrix = right, left, matrix.mT
    return (left.to(matrix.dtype) * (right.to(matrix.dtype) @ matrix.mT)).sum(-1)


class _SymmetricQuadratic(torch.autograd.Function):
    """φᵀCφ by rows; its gradient 2Cφ is the product that the forward pass already made."""

    @staticmethod
    def forward(ctx, features, matrix):  # type: ignore[no-untyped-def]
        product = features @ matrix
        ctx.save_for_backward(product)
        return (features * product).sum(-1)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (product,) = ctx.saved_tensors
        return 2 * gradient.unsqueeze(-1) * product, None


def weighted_gram(
    features: FeatureBlocks, precision: Float[Tensor, "G N U"]
) -> Float[Tensor, "G U K K"]:
    """Σ_n λ_n E_s[φ_n φ_nᵀ] for each unit, in float64; E_s is the mean over samples."""
    blocks = [block.to(torch.float64) for block in features]
    rows = []
    for i, left in enumerate(blocks):
        row = [_mean_outer(left, right, precision) for right in blocks[: i + 1]]
        rows.append(row)
    full = [
        [rows[i][j] if j <= i else rows[j][i].mT for j in range(len(blocks))]
        for i in range(len(blocks))
    ]
    return torch.cat([torch.cat(row, dim=-1) for row in full], dim=-2)


def weighted_moment(
    features: FeatureBlocks, target: Float[Tensor, "G N U"]
) -> Float[Tensor, "G K U"]:
    """Σ_n E_s[φ_n] λ_n y_n, in float64, for targets already multiplied by λ."""
    means = [sample_mean(block.to(torch.float64)) for block in features]
    return torch.cat([mean.mT @ target for mean in means], dim=-2)


def _mean_outer(left: Tensor, right: Tensor, precision: Tensor) -> Tensor:
    if left.dim() != right.dim():  # one side is the same for all samples
        left, right = sample_mean(left), sample_mean(right)
    n_samples = left.shape[0] if left.dim() == 4 else 1
    left, right = _fold_samples(left), _fold_samples(right)
    weight = precision.repeat(1, n_samples, 1) / n_samples  # G SN U
    weighted = [(left * weight[..., u, None]).mT @ right for u in range(weight.shape[-1])]
    return torch.stack(weighted, dim=-3)


def _fold_samples(block: Tensor) -> Tensor:
    return block.transpose(0, 1).flatten(1, 2) if block.dim() == 4 else block  # G SN K


def _unfold_samples(folded: Tensor, block: Tensor) -> Tensor:
    """The inverse, for a product of the folded block."""
    if block.dim() == 3:
        return folded
    return folded.unflatten(1, (block.shape[0], block.shape[2])).transpose(0, 1)  # S G N ·


def sample_mean(block: Float[Tensor, "*S G N K"]) -> Float[Tensor, "G N K"]:
    """The mean over samples, where there are any."""
    return block.mean(0) if block.dim() == 4 else block
