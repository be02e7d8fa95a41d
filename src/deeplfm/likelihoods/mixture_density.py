r"""Mixture density: Gaussian components at fixed places, whose weights are functions of the input."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.likelihoods.base import LOG_2PI, Components, Likelihood
from deeplfm.randomness import standard_normal

_LEAST_STD = 0.01  # of a component: values that repeat would otherwise shrink it to a spike
_DRAWS = 16
_FUNCTION_SHARE = 1e-6  # of a component's variance, so that the density of the function is finite


class MixtureDensity(Likelihood):
    r"""p(y | f) = Σ_k softmax(f)_k N(y; c_k, s_k²) for each output, with K functions f for each.

    It represents targets with several modes, which Gaussian noise cannot. Centres c and widths s are
    learned and the same for all rows; the weights are functions of the input.
    """

    def __init__(self, n_outputs: int, n_components: int) -> None:
        super().__init__(n_outputs)
        self.n_components = n_components
        self.center = nn.Parameter(torch.zeros(n_outputs, n_components))
        self.log_width = nn.Parameter(torch.zeros(n_outputs, n_components))

    @torch.no_grad()
    def initialise(self, y: Float[Tensor, "N D"], counts: Float[Tensor, "N D"]) -> None:
        """Put the centres at quantiles of the targets, each as wide as the distance to the next."""
        levels = (
            torch.arange(self.n_components, dtype=y.dtype, device=y.device) + 0.5
        ) / self.n_components
        for d, (values, weight) in enumerate(zip(y.unbind(-1), counts.unbind(-1), strict=True)):
            observed, order = values[weight > 0].sort()
            if not len(observed):
                continue
            total = weight[weight > 0][order].cumsum(0)
            center = observed[torch.searchsorted(total, levels * total[-1])]
            gaps = center.diff(append=2 * center[-1:] - center[-2:-1]).clamp_min(4 * _LEAST_STD)
            self.center[d] = center
            self.log_width[d] = gaps.log()

    @property
    def component_variance(self) -> Float[Tensor, "D K"]:
        """Variance of each component."""
        return _LEAST_STD**2 + (2 * self.log_width).exp()

    def log_prob(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        function: Float[Tensor, "*S N DK"],
    ) -> Float[Tensor, "*S N D"]:
        """Log density of the targets given the functions."""
        variance = self.component_variance
        squares = (target.unsqueeze(-1) - self.center).square() / variance
        log_normal = -0.5 * (LOG_2PI + variance.log() + squares)  # N D K
        return torch.logsumexp(log_normal + self._log_weight(function), dim=-1)

    def components(
        self,
        x: Float[Tensor, "N P"],
        mean: Float[Tensor, "S N DK"],
        variance: Float[Tensor, "S N DK"],
    ) -> Components:
        """One component for each centre, its weight the average over samples of the functions."""
        generator = torch.Generator(mean.device).manual_seed(0)  # the same in every row and call
        noise = standard_normal(_DRAWS, (1, 1, mean.shape[-1]), mean, generator, is_antithetic=True)
        function = mean + variance.sqrt() * noise  # draws S N DK
        weight = self._log_weight(function).exp().mean((0, 1)).movedim(-1, 0)  # K N D
        center, component_variance = (
            item.T.to(weight.dtype)[:, None].expand_as(weight)
            for item in (self.center, self.component_variance)
        )
        inflated = component_variance * self.inflation ** self.remoteness(x)
        return Components(center, _FUNCTION_SHARE * component_variance, inflated, weight)

    def _log_weight(self, function: Float[Tensor, "*S N DK"]) -> Float[Tensor, "*S N D K"]:
        return torch.log_softmax(function.unflatten(-1, self.center.shape), dim=-1)
