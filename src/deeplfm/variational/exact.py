"""The distribution q(W) of a last layer with Gaussian noise, in closed form."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.features.products import FeatureBlocks, multiply, row_quadratic
from deeplfm.variational.gaussian import ALL, Columns, FullCovariance


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
