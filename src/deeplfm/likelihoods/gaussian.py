r"""Gaussian likelihood: one noise variance per output, constant or a function of the input."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.columns import LayerColumns
from deeplfm.config import BlockConfig
from deeplfm.layers import Block
from deeplfm.variational.products import multiply

MOST_STRETCHES = 64  # of known targets that are remembered; of more gaps the longest count
_LOG_2PI = math.log(2 * math.pi)
_SHORTEST_GAP = (0.02, 3.0)  # in units of the reach, and of the typical step


class Gaussian(nn.Module):
    r"""y = f + e with e ~ N(0, σ_d²), or σ_d²(x) = σ_d² exp(ψ(x)ᵀv_d) from a head of its own.

    The head is a block of features on the original input whose weights v have a N(0, 1) prior and
    are point estimates; :meth:`penalty` is −log p(v) up to a constant. Predictions multiply the
    variance by ``inflation``, which held-out rows may set: training sees the noise it has fitted. In a
    series it grows with the distance from the data, from nothing inside to the whole of it beyond
    ``reach``: held-out rows after the end say little of what happens between two known values.

    Args:
        n_inputs: number of original input columns.
        n_outputs: number D of outputs.
        input_dependent: learn the variance as a function of the input.
        generator: source of the head's frequencies.
    """

    inflation: Tensor
    reach: Tensor
    support: Tensor

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        input_dependent: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(torch.full((n_outputs,), math.log(0.01)))
        self.register_buffer("inflation", torch.ones(n_outputs))
        self.register_buffer("reach", torch.tensor(math.inf))
        self.register_buffer("support", torch.full((n_outputs, MOST_STRETCHES, 2), math.inf))
        self.head: Block | None = None
        if input_dependent:
            config = BlockConfig(system="eq", n_features=20, frequencies="prior-fixed")
            self.head = Block(config, n_inputs, 0, 1, False, 1, generator)
            columns = self.head.features.n_columns
            self.head_weights = nn.Parameter(torch.zeros(columns, n_outputs))

    def variance(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Noise variance at each row."""
        log_variance = self.log_variance.expand(x.shape[-2], -1)
        if self.head is not None:
            columns = LayerColumns([self.head(x, 1)], 1, len(x)).whole()
            log_variance = log_variance + multiply(columns, self.head_weights[None])[0]
        return log_variance.exp()

    def predictive_variance(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Noise variance of a prediction at each row."""
        return self.variance(x) * self.inflation ** self.remoteness(x)

    def remoteness(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """How far a row is from known targets: 0 among them, 1 beyond reach or where no time is."""
        first, last = self.support.unbind(-1)  # D R
        if bool(self.reach.isinf()):
            return torch.ones(len(x), len(first), dtype=first.dtype, device=x.device)
        time = x[:, :1, None]
        outside = torch.maximum(first - time, time - last).amin(-1)  # N D
        return (outside / self.reach).clamp(0, 1)

    def set_support(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"], reach: float) -> None:
        """Remember where the targets of a series are known, but for gaps that do not matter.

        Args:
            x: times, in any order, and covariates.
            y: targets; NaN marks a missing one.
            reach: distance from which on all of the inflation counts.
        """
        self.reach.fill_(reach)
        self.support.fill_(math.inf)
        self.extend_support(x, y)

    @torch.no_grad()
    def extend_support(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        """Remember further known targets of a series."""
        if bool(self.reach.isinf()):
            return
        for d, known in enumerate((~y.isnan()).unbind(-1)):
            time = x[known, 0].sort().values
            if not len(time):
                continue
            least = _SHORTEST_GAP[0] * float(self.reach)
            if len(time) > 1:
                least = max(least, _SHORTEST_GAP[1] * float(time.diff().median()))
            before = self.support[d][self.support[d, :, 0].isfinite()]
            stretches = _merged(torch.cat([before, torch.stack([time, time], dim=-1)]), least)
            self.support[d] = math.inf
            self.support[d, : len(stretches)] = stretches

    def expected_log_prob(
        self,
        target: Float[Tensor, "N D"],
        mean: Float[Tensor, "*S N D"],
        variance: Float[Tensor, "*S N D"],
        noise_variance: Float[Tensor, "N D"],
    ) -> Float[Tensor, "*S N D"]:
        """E[log N(y; f, σ²)] under f ~ N(mean, variance), in closed form."""
        squares = (target - mean).square() + variance
        return -0.5 * (_LOG_2PI + noise_variance.log() + squares / noise_variance)

    def log_marginal(
        self,
        target: Float[Tensor, "N D"],
        mean: Float[Tensor, "*S N D"],
        variance: Float[Tensor, "*S N D"],
        noise_variance: Float[Tensor, "N D"],
    ) -> Float[Tensor, "*S N D"]:
        """Log density of y with f integrated out."""
        total = variance + noise_variance
        return -0.5 * (_LOG_2PI + total.log() + (target - mean).square() / total)

    def penalty(self) -> Float[Tensor, ""]:
        """Minus the log prior of the head's weights, up to a constant."""
        if self.head is None:
            return self.log_variance.new_zeros(())
        return 0.5 * self.head_weights.square().sum()


def mask_missing(
    target: Float[Tensor, "N D"],
) -> tuple[Float[Tensor, "N D"], Bool[Tensor, "N D"]]:
    """Targets with missing entries set to 0, and which are observed: masked before any arithmetic."""
    observed = ~target.isnan()
    return torch.where(observed, target, torch.zeros_like(target)), observed


def _merged(stretches: Float[Tensor, "n 2"], least: float) -> Float[Tensor, "m 2"]:
    """Stretches of time with no gap shorter than the least between them; of many, the longest gaps."""
    first, last = stretches[stretches[:, 0].argsort()].unbind(-1)
    last = last.cummax(0).values
    gap, before = (first[1:] - last[:-1]).topk(min(MOST_STRETCHES, len(first)) - 1)
    before = before[gap > least].sort().values
    return torch.stack(
        [torch.cat([first[:1], first[before + 1]]), torch.cat([last[before], last[-1:]])], dim=-1
    )
