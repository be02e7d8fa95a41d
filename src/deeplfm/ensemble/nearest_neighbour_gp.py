r"""Nearest-neighbour Gaussian process: a linear model, and residuals predicted from neighbouring rows.

Given its nearest rows, a function that is not very smooth hardly depends on distant ones. So each row is
predicted from its neighbours alone: exactly as by the Gaussian process of these rows, and for very many
rows.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.local_gp import MATERN12, MATERN32, N_NEIGHBOURS, NeighbourSearch
from deeplfm.ensemble.local_gp_fit import N_TAILS, fit_local_gp
from deeplfm.likelihoods import Likelihood
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.finished import is_kept
from deeplfm.terms.base import BuildContext
from deeplfm.training import Rows

_ROWS_AT_ONCE = 2000


@is_kept
class NearestNeighbourGP(nn.Module):
    r"""y = ΦW + r(x) + ε with a linear model ΦW and a Matérn process r of the inputs.

    Matérn-1/2 is white noise through f' + f/ℓ = u along every input, with the covariance
    s² exp(−Σ_p |x_p − x'_p|/ℓ_p); Matérn-3/2, of several inputs, has one derivative and a lengthscale for
    each input. ΦW is solved from all rows; given it, r at a row is predicted from its nearest neighbours.
    Errors are seldom Gaussian: their distribution is a mixture of several widths around one mean.
    """

    x: Tensor
    y: Tensor
    row_weight: Tensor
    log_lengthscale: Tensor
    log_scale: Tensor
    is_matern32: Tensor
    n_neighbours: Tensor
    tail_share: Tensor
    tail_scale: Tensor

    def __init__(self, config: ModelConfig, seed: int, n_rows: int = 0) -> None:
        super().__init__()
        self.linear = DeepLFM(config, seed)
        n_inputs, n_outputs = config.n_inputs, config.n_outputs
        self.register_buffer("x", torch.zeros(n_rows, n_inputs))
        self.register_buffer("y", torch.zeros(n_rows, n_outputs))
        self.register_buffer("row_weight", torch.ones(n_rows))
        self.register_buffer("log_lengthscale", torch.zeros(n_outputs, n_inputs))
        self.register_buffer("log_scale", torch.zeros(n_outputs))
        self.register_buffer("is_matern32", torch.zeros(n_outputs, dtype=torch.bool))
        self.register_buffer("n_neighbours", torch.full((n_outputs,), N_NEIGHBOURS))
        self.register_buffer("tail_share", torch.full((N_TAILS, n_outputs), 1 / N_TAILS))
        self.register_buffer("tail_scale", torch.ones(N_TAILS, n_outputs))
        self._searches: list[NeighbourSearch] | None = None

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""
        return {**self.linear.constructor_arguments, "n_rows": len(self.x)}

    @property
    def likelihood(self) -> Likelihood:
        """Noise, and its calibration."""
        return self.linear.likelihood

    @property
    def temperature(self) -> None:
        """None: neighbours have the weights that predict rows best."""
        return None

    @property
    def has_exact_output(self) -> bool:
        """The weights of the linear model are solved in closed form."""
        return True

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
            self.likelihood.set_support(x, y, reach)
        self.x, self.y = x, y
        self.row_weight = x.new_ones(len(x)) if row_weight is None else row_weight.to(x.dtype)
        self._searches = None

    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Statistics of the linear model."""
        return self.linear.statistics(x, y, row_weight)

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights of the linear model from statistics."""
        self.linear.solve(gram, moment)
        self._searches = None

    @torch.no_grad()
    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Add further rows to the linear model, and to the neighbours."""
        self.linear.condition_on(x, y, row_weight)
        weight = x.new_ones(len(x)) if row_weight is None else row_weight
        pairs = ((self.x, x), (self.y, y), (self.row_weight, weight))
        all_x, all_y, all_weight = (torch.cat([old, new.to(old)]) for old, new in pairs)
        self.set_train_data(all_x, all_y, all_weight)

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """At every row."""
        return torch.ones(len(x), dtype=torch.bool, device=x.device)

    def residual(self) -> Float[Tensor, "N D"]:
        """Residual of the linear model at the rows that are kept."""
        parts = [self.linear.moments(rows)[0][0] for rows in self.x.split(_ROWS_AT_ONCE)]
        return self.y - torch.cat(parts).to(self.y.dtype) if parts else self.y

    @torch.no_grad()
    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Components of all widths around the one mean of each row."""
        mean, variance = (
            torch.cat(part, dim=-2)
            for part in zip(*map(self.linear.moments, x.split(_ROWS_AT_ONCE)), strict=True)
        )
        found = [search.predict(x, *scales) for search, scales in self._by_output()]
        local_mean, local_variance = (
            torch.stack(part, dim=-1) for part in zip(*found, strict=True)
        )
        plain = self.likelihood.components(x, mean + local_mean, variance + local_variance)
        square = self.tail_scale.square()[:, None]  # C 1 D
        # A function along one input is a chain that can be drawn; of several inputs it is not.
        draw = (lambda n, seed: self._draw(x, n, seed)) if x.shape[1] == 1 else None
        return Predictive(
            plain.mean.expand(len(square), -1, -1),
            square * plain.variance,
            square * plain.noise,
            self.tail_share[:, None],
            draw,
        )

    @torch.no_grad()
    def _draw(self, x: Tensor, n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions: one of ΦW, and one of r."""
        generator = generator_for(seed, "draw", index=1, device=x.device)
        parts = [
            search.draw(x, *scales, n_draws, generator) for search, scales in self._by_output()
        ]
        return self.linear.draw(x, n_draws, seed) + torch.stack(parts, dim=-1).to(x.dtype)

    def _by_output(self) -> list[tuple[NeighbourSearch, tuple[Tensor, Tensor]]]:
        """Neighbours, and scale and noise variance, of each output."""
        if self._searches is None:
            residual, lengthscale = self.residual(), self.log_lengthscale.exp()
            self._searches = [
                NeighbourSearch(
                    self.x,
                    residual[:, d],
                    lengthscale[d],
                    self.row_weight,
                    MATERN32 if self.is_matern32[d] else MATERN12,
                    int(self.n_neighbours[d]),
                )
                for d in range(residual.shape[1])
            ]
        scales = zip(self.log_scale.exp(), self.linear.gaussian.log_variance.exp(), strict=True)
        return list(zip(self._searches, scales, strict=True))

    @torch.no_grad()
    def fit_residual(self, generator: torch.Generator) -> None:
        """Set kernel, lengthscales, noise and distribution of errors of each output."""
        for d, residual in enumerate(self.residual().unbind(dim=-1)):
            is_known = ~residual.isnan() & (self.row_weight > 0)
            found = fit_local_gp(
                self.x[is_known], residual[is_known], generator, self.row_weight[is_known]
            )
            self.log_lengthscale[d] = found.lengthscale.log()
            self.log_scale[d] = found.scale.log()
            self.is_matern32[d], self.n_neighbours[d] = found.is_matern32, found.n_neighbours
            self.linear.gaussian.log_variance[d] = found.noise_variance.log()
            self.tail_share[:, d], self.tail_scale[:, d] = found.tail_share, found.tail_scale


def nearest_neighbour_candidate(context: BuildContext, margin: float = 0.0) -> Candidate:
    """For tables, and for gaps of a series: neighbouring rows share what smooth features miss."""

    def build(rows: Rows, seed: int) -> NearestNeighbourGP:
        block = BlockConfig(
            "eq", n_features=0, frequencies="prior-fixed", extras=("constant", "trend")
        )
        output = LayerConfig(rows.y.shape[1], (block,), "exact", own_features=True)
        config = ModelConfig(
            rows.x.shape[1],
            (output,),
            input_dependent_noise=context.input_dependent_noise,
            n_samples=1,
            n_paths=1,
        )
        model = NearestNeighbourGP(config, seed).to(context.dtype).to(rows.x.device)
        model.set_train_data(rows.x, rows.y, rows.weight)
        model.solve(*model.statistics(rows.x, rows.y, rows.weight))
        model.fit_residual(generator_for(seed, "start"))
        return model

    return Candidate("nearest-neighbour GP", build, None, margin)
