r"""A likelihood of any shape: bells that stand still, and functions that say which one rings."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.likelihoods.base import Components, Likelihood
from deeplfm.randomness import standard_normal

_LOG_2PI = math.log(2 * math.pi)
_NARROWEST = 0.01  # standard deviation of a bell: values that repeat must not pull it to a spike
_DRAWS = 16
_CERTAIN = 1e-6  # share of a bell that counts as the function: its own density stays finite


class MixtureDensity(Likelihood):
    r"""p(y | f) = Σ_k softmax(f)_k N(y; c_k, s_k²) for each output, with K functions f for each.

    Gaussian noise around one function cannot say that a value is either small or large. A mixture can:
    their places c and widths s are learned and the same for all rows, their weights are functions of
    the input.

    Args:
        n_outputs: number D of outputs.
        n_components: number K of bells for each.
    """

    def __init__(self, n_outputs: int, n_components: int) -> None:
        super().__init__(n_outputs)
        self.n_components = n_components
        self.center = nn.Parameter(torch.zeros(n_outputs, n_components))
        self.log_width = nn.Parameter(torch.zeros(n_outputs, n_components))

    @torch.no_grad()
    def place(self, y: Float[Tensor, "N D"], counts: Float[Tensor, "N D"]) -> None:
        """Put the bells where equal shares of the targets are, each as wide as the next is far.

        Args:
            y: targets.
            counts: how many each one stands for; none where it is missing.
        """
        levels = (
            torch.arange(self.n_components, dtype=y.dtype, device=y.device) + 0.5
        ) / self.n_components
        for d, (values, weight) in enumerate(zip(y.unbind(-1), counts.unbind(-1), strict=True)):
            known, order = values[weight > 0].sort()
            if not len(known):
                continue
            total = weight[weight > 0][order].cumsum(0)
            places = known[torch.searchsorted(total, levels * total[-1])]
            gaps = places.diff(append=2 * places[-1:] - places[-2:-1]).clamp_min(4 * _NARROWEST)
            self.center[d] = places
            self.log_width[d] = gaps.log()

    @property
    def bell_variance(self) -> Float[Tensor, "D K"]:
        """Variance of each bell."""
        return _NARROWEST**2 + (2 * self.log_width).exp()

    def log_prob(
        self, target: Float[Tensor, "N D"], function: Float[Tensor, "*S N DK"]
    ) -> Float[Tensor, "*S N D"]:
        """Log density of the targets given the functions."""
        variance = self.bell_variance
        squares = (target.unsqueeze(-1) - self.center).square() / variance
        bells = -0.5 * (_LOG_2PI + variance.log() + squares)  # N D K
        return torch.logsumexp(bells + self._log_weight(function), dim=-1)

    def components(
        self,
        x: Float[Tensor, "N P"],
        mean: Float[Tensor, "S N DK"],
        variance: Float[Tensor, "S N DK"],
    ) -> Components:
        """One component for each bell, its weight the average over samples of the functions."""
        generator = torch.Generator(mean.device).manual_seed(0)  # the same in every row and call
        noise = standard_normal(_DRAWS, (1, 1, mean.shape[-1]), mean, generator, is_antithetic=True)
        function = mean + variance.sqrt() * noise  # draws S N DK
        weight = self._log_weight(function).exp().mean((0, 1)).movedim(-1, 0)  # K N D
        center, width = (
            item.T.to(weight.dtype)[:, None].expand_as(weight)
            for item in (self.center, self.bell_variance)
        )
        noise = width * self.inflation ** self.remoteness(x)
        return Components(center, _CERTAIN * width, noise, weight)

    def _log_weight(self, function: Float[Tensor, "*S N DK"]) -> Float[Tensor, "*S N D K"]:
        return torch.log_softmax(function.unflatten(-1, self.center.shape), dim=-1)
