r"""A table's rough rest: what the nearest rows have left over, beside features × Gaussian weights.

Of a rough function distant rows say nothing that near ones have not said. So each row is predicted from
its few neighbours alone: exactly as by the Gaussian process of these rows, and for very many rows.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from deeplfm.config import ModelConfig
from deeplfm.likelihoods.base import Components
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for

N_NEIGHBOURS, N_TAILS = 16, 4
_ROWS_AT_ONCE = 2000
_LEAST_NOISE = 1e-6  # variance, in standardised units: rows may coincide


class Neighbours(DeepLFM):
    r"""A model y = ΦW + r(x) + ε whose rest r is an Ornstein–Uhlenbeck process of the inputs.

    White noise through f' + f/ℓ = u along every input has the covariance s² exp(−Σ_p |x_p − x'_p|/ℓ_p).
    ΦW is solved from all rows; given it, r at a row is known from its nearest neighbours. Errors are
    seldom Gaussian: their distribution is a mixture of bells of several widths around one mean.

    Args:
        config: of ΦW and the noise.
        seed: as for any model.
        n_rows: rows that it keeps; :meth:`remember` fills them.
    """

    kind: ClassVar[str] = "neighbours"
    keeps_rows: ClassVar[bool] = True
    most_rows: ClassVar[int] = 200_000
    is_tempered: ClassVar[bool] = False
    x: Tensor
    y: Tensor
    row_weight: Tensor
    log_lengthscale: Tensor
    log_scale: Tensor
    tail_share: Tensor
    tail_scale: Tensor

    def __init__(self, config: ModelConfig, seed: int, n_rows: int = 0) -> None:
        super().__init__(config, seed)
        n_inputs, n_outputs = config.n_inputs, config.n_outputs
        self.register_buffer("x", torch.zeros(n_rows, n_inputs))
        self.register_buffer("y", torch.zeros(n_rows, n_outputs))
        self.register_buffer("row_weight", torch.ones(n_rows))
        self.register_buffer("log_lengthscale", torch.zeros(n_outputs, n_inputs))
        self.register_buffer("log_scale", torch.zeros(n_outputs))
        self.register_buffer("tail_share", torch.full((N_TAILS, n_outputs), 1 / N_TAILS))
        self.register_buffer("tail_scale", torch.ones(N_TAILS, n_outputs))
        self._searches: list[NeighbourSearch] | None = None

    @property
    def draws_functions(self) -> bool:
        """Along one input, where a rough function is a chain; of several, no few numbers tell it."""
        return self.config.n_inputs == 1

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows that it keeps."""
        return {"n_rows": len(self.x)}

    @torch.no_grad()
    def remember(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Take rows as the neighbours of all others."""
        if reach is not None:
            super().remember(x, y, row_weight, reach)
        self.x, self.y = x, y
        self.row_weight = x.new_ones(len(x)) if row_weight is None else row_weight.to(x.dtype)
        self._searches = None

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights of ΦW from statistics."""
        super().solve(gram, moment)
        self._searches = None

    @torch.no_grad()
    def absorb(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Add further rows to the weights, and to the neighbours."""
        super().absorb(x, y, row_weight)
        weight = x.new_ones(len(x)) if row_weight is None else row_weight
        pairs = ((self.x, x), (self.y, y), (self.row_weight, weight))
        all_x, all_y, all_weight = (torch.cat([old, new.to(old)]) for old, new in pairs)
        self.remember(all_x, all_y, all_weight)

    def rest(self) -> Float[Tensor, "N D"]:
        """What ΦW leaves of the rows that are kept."""
        parts = [
            super(Neighbours, self)._moments(rows)[0][0] for rows in self.x.split(_ROWS_AT_ONCE)
        ]
        return self.y - torch.cat(parts).to(self.y.dtype) if parts else self.y

    def _moments(
        self, x: Float[Tensor, "N P"]
    ) -> tuple[Float[Tensor, "S N D"], Float[Tensor, "S N D"]]:
        """Those of ΦW and of the rest, given the neighbours."""
        mean, variance = super()._moments(x)
        local_mean, local_variance = self.rest_at(x)
        return mean + local_mean, variance + local_variance

    def _predict(self, x: Tensor) -> Components:
        """Bells of all widths around the one mean."""
        found = super()._predict(x)
        share, square = self.tail_share[:, None], self.tail_scale.square()[:, None]  # C 1 D
        mean = found.mean.expand(len(share), -1, -1)
        return Components(mean, square * found.variance, square * found.noise, share)

    @torch.no_grad()
    def rest_at(self, x: Float[Tensor, "N P"]) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Mean and variance of r at some rows."""
        found = [search.krige(x, *sizes) for search, sizes in self._by_output()]
        means, variances = zip(*found, strict=True)
        return torch.stack(means, dim=-1), torch.stack(variances, dim=-1)

    @torch.no_grad()
    def _draw(self, x: Tensor, n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions: one of ΦW, and one of r."""
        generator = generator_for(seed, "draw", index=1, device=x.device)
        rests = [search.draw(x, *sizes, n_draws, generator) for search, sizes in self._by_output()]
        return super()._draw(x, n_draws, seed) + torch.stack(rests, dim=-1).to(x.dtype)

    def _by_output(self) -> list[tuple[NeighbourSearch, tuple[Tensor, Tensor]]]:
        """Rows to be found, and scale and noise variance, of each output."""
        if self._searches is None:
            rest, lengthscale = self.rest(), self.log_lengthscale.exp()
            self._searches = [
                NeighbourSearch(self.x, rest[:, d], lengthscale[d], self.row_weight)
                for d in range(rest.shape[1])
            ]
        sizes = zip(self.log_scale.exp(), self.gaussian.log_variance.exp(), strict=True)
        return list(zip(self._searches, sizes, strict=True))


class NeighbourSearch:
    """Rows with a known value, to be found by their distance in units of the lengthscales.

    Args:
        x: all rows.
        value: of each; NaN where it is missing.
        lengthscale: ℓ along each input.
        row_weight: what each row counts; rows of no weight are not there.
    """

    def __init__(
        self,
        x: Float[Tensor, "N P"],
        value: Float[Tensor, " N"],
        lengthscale: Float[Tensor, " P"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        from scipy.spatial import cKDTree

        weight = torch.ones_like(value) if row_weight is None else row_weight
        is_known = ~value.isnan() & (weight > 0)
        self.rate = 1 / lengthscale.double()
        self.x = x[is_known].double() * self.rate
        self.value, self.weight = value[is_known].double(), weight[is_known].double()
        self.tree = cKDTree(self.x.cpu().numpy()) if len(self.x) else None
        self.order = self.x[:, 0].argsort() if x.shape[1] == 1 else None

    def nearest(self, x: Float[Tensor, "N P"], n: int) -> Int64[Tensor, "N m"]:
        """The n nearest rows of each, or all where they are fewer.

        Along one input half of them on each side: of a gap both ends speak, however long it is.
        """
        if self.tree is None:
            return torch.zeros(len(x), 0, dtype=torch.long, device=x.device)
        if self.order is not None:
            n = min(n, len(self.x))
            here = (x.double() * self.rate)[:, 0].contiguous()
            place = torch.searchsorted(self.x[self.order, 0], here)
            first = (place - n // 2).clamp(0, len(self.x) - n)
            return self.order[first[:, None] + torch.arange(n, device=x.device)]
        order = np.arange(1, min(n, len(self.x)) + 1)
        _, index = self.tree.query((x.double() * self.rate).cpu().numpy(), k=order, p=1)
        return torch.as_tensor(index, device=x.device).long()

    def others(self, own: Int64[Tensor, " N"], n: int) -> Int64[Tensor, "N m"]:
        """The n nearest of some of the rows themselves, without each itself."""
        index = self.nearest(self.x[own] / self.rate, n + 1)
        order = (index == own[:, None]).long().argsort(dim=1, stable=True)  # itself to the end
        return index.gather(1, order)[:, :-1]

    def krige(
        self, x: Float[Tensor, "N P"], scale: Tensor, noise_variance: Tensor
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Mean and variance of the function at some rows."""
        parts = [
            self._krige(
                rows.double() * self.rate, self.nearest(rows, N_NEIGHBOURS), scale, noise_variance
            )
            for rows in x.split(_ROWS_AT_ONCE)
        ]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean.to(x.dtype), variance.to(x.dtype)

    def krige_others(
        self, own: Int64[Tensor, " N"], scale: Tensor, noise_variance: Tensor
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Mean and variance of the function at some of the rows, as the others tell them."""
        index = self.others(own, N_NEIGHBOURS)
        return self._krige(self.x[own], index, scale, noise_variance)

    def draw(
        self,
        x: Float[Tensor, "N 1"],
        scale: Tensor,
        noise_variance: Tensor,
        n_draws: int,
        generator: torch.Generator,
    ) -> Float[Tensor, "S N"]:
        """Functions along one input: paths of the process, moved to what is known (Matheron's rule)."""
        here = x.double() * self.rate
        path = scale * ornstein_uhlenbeck(torch.cat([self.x, here])[:, 0], n_draws, generator)
        known, asked = path.split([len(self.x), len(x)], dim=1)
        noise = torch.randn(known.shape, generator=generator, dtype=known.dtype, device=x.device)
        missed = self.value - known - (noise_variance / self.weight).sqrt() * noise
        index = self.nearest(x, N_NEIGHBOURS)
        weight, _ = self._weights(here, index, scale, noise_variance)
        return asked + torch.stack([(weight * one[index]).sum(-1) for one in missed])

    def _krige(
        self, here: Tensor, index: Tensor, scale: Tensor, noise_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        weight, variance = self._weights(here, index, scale, noise_variance)
        return (weight * self.value[index]).sum(-1), variance

    def _weights(
        self, here: Tensor, index: Tensor, scale: Tensor, noise_variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        near = self.x[index]
        return kriging_weights(
            (near[:, :, None] - near[:, None]).abs().sum(-1),
            (near - here[:, None]).abs().sum(-1),
            scale.double(),
            noise_variance.double() / self.weight[index],
        )


def ornstein_uhlenbeck(
    place: Float[Tensor, " N"], n_draws: int, generator: torch.Generator
) -> Float[Tensor, "S N"]:
    """Paths of the process of covariance e^{−|t − t'|}, at places in any order."""
    noise = torch.randn(
        (len(place), n_draws), generator=generator, dtype=place.dtype, device=place.device
    )
    ordered, order = place.sort()
    keep = torch.exp(-ordered.diff())
    for n, share in enumerate(keep, start=1):
        noise[n] = share * noise[n - 1] + (1 - share.square()).sqrt() * noise[n]
    return torch.empty_like(noise).index_copy(0, order, noise).mT


def kriging_weights(
    between: Float[Tensor, "N m m"],
    distance: Float[Tensor, "N m"],
    scale: Float[Tensor, ""],
    noise_variance: Float[Tensor, "*#N #m"],
) -> tuple[Float[Tensor, "N m"], Float[Tensor, " N"]]:
    """How much noisy values of neighbours say of the process s² e^{−d} at rows, and what they leave.

    Args:
        between: distances of the neighbours from each other.
        distance: of the neighbours from the row.
        scale: s.
        noise_variance: of their values.

    Returns:
        Weights of these values in the mean of the process, and its variance.
    """
    prior = scale.square()
    noise = (noise_variance + _LEAST_NOISE).expand_as(distance)
    gram = prior * torch.exp(-between) + torch.diag_embed(noise)
    covariance = prior * torch.exp(-distance)
    root = torch.linalg.cholesky(gram)
    weight = torch.cholesky_solve(covariance.unsqueeze(-1), root).squeeze(-1)
    return weight, (prior - (weight * covariance).sum(-1)).clamp_min(0)
