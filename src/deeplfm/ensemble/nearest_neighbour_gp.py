r"""A table's rest: what the nearest rows have left over, beside features × Gaussian weights.

Of a function that is not very smooth distant rows say nothing that near ones have not said. So each row
is predicted from its neighbours alone: exactly as by the Gaussian process of these rows, and for very
many rows.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.config import ModelConfig
from deeplfm.ensemble.local_gp import N_NEIGHBOURS, ROUGH, SMOOTH, NeighbourSearch
from deeplfm.likelihoods.base import Components
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for

N_TAILS = 4
_ROWS_AT_ONCE = 2000


class NearestNeighbourGP(DeepLFM):
    r"""A model y = ΦW + r(x) + ε whose rest r is a rough or a smooth process of the inputs.

    White noise through f' + f/ℓ = u along every input has the covariance s² exp(−Σ_p |x_p − x'_p|/ℓ_p);
    the smooth one, of several inputs, is Matérn's with one derivative and a lengthscale for each.
    ΦW is solved from all rows; given it, r at a row is known from its nearest neighbours. Errors are
    seldom Gaussian: their distribution is a mixture of bells of several widths around one mean.

    Args:
        config: of ΦW and the noise.
        seed: as for any model.
        n_rows: rows that it keeps; :meth:`set_train_data` fills them.
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
    is_smooth: Tensor
    n_heard: Tensor
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
        self.register_buffer("is_smooth", torch.zeros(n_outputs, dtype=torch.bool))
        self.register_buffer("n_heard", torch.full((n_outputs,), N_NEIGHBOURS))
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
    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Take rows as the neighbours of all others."""
        if reach is not None:
            super().set_train_data(x, y, row_weight, reach)
        self.x, self.y = x, y
        self.row_weight = x.new_ones(len(x)) if row_weight is None else row_weight.to(x.dtype)
        self._searches = None

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights of ΦW from statistics."""
        super().solve(gram, moment)
        self._searches = None

    @torch.no_grad()
    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Add further rows to the weights, and to the neighbours."""
        super().condition_on(x, y, row_weight)
        weight = x.new_ones(len(x)) if row_weight is None else row_weight
        pairs = ((self.x, x), (self.y, y), (self.row_weight, weight))
        all_x, all_y, all_weight = (torch.cat([old, new.to(old)]) for old, new in pairs)
        self.set_train_data(all_x, all_y, all_weight)

    def rest(self) -> Float[Tensor, "N D"]:
        """What ΦW leaves of the rows that are kept."""
        parts = [
            super(NearestNeighbourGP, self)._moments(rows)[0][0]
            for rows in self.x.split(_ROWS_AT_ONCE)
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
        """MixtureDensity of all widths around the one mean."""
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
                NeighbourSearch(
                    self.x,
                    rest[:, d],
                    lengthscale[d],
                    self.row_weight,
                    SMOOTH if self.is_smooth[d] else ROUGH,
                    int(self.n_heard[d]),
                )
                for d in range(rest.shape[1])
            ]
        sizes = zip(self.log_scale.exp(), self.gaussian.log_variance.exp(), strict=True)
        return list(zip(self._searches, sizes, strict=True))
