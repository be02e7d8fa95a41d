r"""The base of all likelihoods, and Gaussian noise, for which all objectives have closed forms."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.config import BlockConfig
from deeplfm.errors import ConfigError
from deeplfm.features.columns import LayerColumns
from deeplfm.features.products import multiply
from deeplfm.layers import Block, Layer

MAX_SEGMENTS = 64  # of observed time that are stored; where there are more, the longest gaps count
_SHORTEST_GAP = (0.02, 3.0)  # in units of the reach, and of the median time step
LOG_2PI = math.log(2 * math.pi)
_NOISE_VARIANCE = 0.01  # before training, of standardised outputs
_HEAD_FEATURES = 20  # of noise that depends on the input, which varies slowly


class Components(NamedTuple):
    """A mixture of Gaussians for every row and output."""

    mean: Float[Tensor, "C N D"]
    variance: Float[Tensor, "C N D"]
    noise: Float[Tensor, "C N D"]
    weight: Float[Tensor, "C _ D"]


class Likelihood(nn.Module):
    r"""p(y | f): the distribution of an observation, given the values f of the last layer.

    A new likelihood needs :meth:`log_prob` and :meth:`components`; closed forms of
    :meth:`expected_log_prob` and :meth:`log_marginal` make training faster where they exist.

    Predictions multiply noise variances by ``inflation``, which held-out rows may set: training fits
    the noise of the rows it sees. In a series the inflation grows with the distance from the data, from
    1 inside to its full value beyond ``reach``, because held-out rows after the end are no evidence
    about gaps between two observed values.
    """

    inflation: Tensor
    reach: Tensor
    support: Tensor

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.register_buffer("inflation", torch.ones(n_outputs))
        self.register_buffer("reach", torch.tensor(math.inf))
        self.register_buffer("support", torch.full((n_outputs, MAX_SEGMENTS, 2), math.inf))

    @abstractmethod
    def log_prob(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        function: Float[Tensor, "*S N U"],
    ) -> Float[Tensor, "*S N D"]:
        """Log density of targets given values of the last layer."""

    @abstractmethod
    def components(
        self,
        x: Float[Tensor, "N P"],
        mean: Float[Tensor, "S N U"],
        variance: Float[Tensor, "S N U"],
    ) -> Components:
        """The prediction of each row, from the moments of the last layer for each sample."""

    def expected_log_prob(
        self,
        layer: Layer,
        features: LayerColumns,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        weight: Float[Tensor, "N D"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, ""]:
        """Σ_nd w_nd E_q[log p(y_nd | f_n)]; by samples of f unless a likelihood has a closed form."""
        function = layer.sample(features, generator)
        log_density = self.log_prob(x, target.to(function.dtype), function).mean(0)
        return (weight.to(log_density.dtype) * log_density).sum()

    def log_marginal(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        mean: Float[Tensor, "*S N U"],
        variance: Float[Tensor, "*S N U"],
    ) -> Float[Tensor, "*S N D"]:
        """Log density of targets with f ~ N(mean, variance) integrated out."""
        raise ConfigError(
            f"likelihood: {type(self).__name__} has no closed form for the objective 'predictive'. "
            "Use 'sampled-predictive' or 'elbo'."
        )

    def penalty(self) -> Float[Tensor, ""]:
        """Minus the log prior of its own parameters, up to a constant."""
        return self.inflation.new_zeros(())

    def remoteness(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Distance of a row from observed times in units of ``reach``, at most 1; 1 for tables."""
        first, last = self.support.unbind(-1)  # D R
        if bool(self.reach.isinf()):
            return torch.ones(len(x), len(first), dtype=first.dtype, device=x.device)
        time = x[:, :1, None]
        outside = torch.maximum(first - time, time - last).amin(-1)  # N D
        return (outside / self.reach).clamp(0, 1)

    def set_support(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"], reach: float) -> None:
        """Store the segments of time in which the targets of a series are observed."""
        self.reach.fill_(reach)
        self.support.fill_(math.inf)
        self.extend_support(x, y)

    @torch.no_grad()
    def extend_support(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        """Add further observed targets of a series to the segments."""
        if bool(self.reach.isinf()):
            return
        for d, observed in enumerate((~y.isnan()).unbind(-1)):
            time = x[observed, 0].sort().values
            if not len(time):
                continue
            shortest = _SHORTEST_GAP[0] * float(self.reach)
            if len(time) > 1:
                shortest = max(shortest, _SHORTEST_GAP[1] * float(time.diff().median()))
            before = self.support[d][self.support[d, :, 0].isfinite()]
            segments = _merge(torch.cat([before, torch.stack([time, time], dim=-1)]), shortest)
            self.support[d] = math.inf
            self.support[d, : len(segments)] = segments


class Gaussian(Likelihood):
    r"""y = f + e with e ~ N(0, σ_d²), or σ_d²(x) = σ_d² exp(ψ(x)ᵀv_d) from a noise head.

    The head is a block of features on the original input whose weights v have a N(0, 1) prior and
    are point estimates; :meth:`penalty` is −log p(v) up to a constant.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        input_dependent: bool = False,
        is_shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_outputs)
        n_variances = 1 if is_shared else n_outputs
        self.log_variance = nn.Parameter(torch.full((n_variances,), math.log(_NOISE_VARIANCE)))
        self.head: Block | None = None
        if input_dependent:
            config = BlockConfig(system="eq", n_features=_HEAD_FEATURES, frequencies="prior-fixed")
            self.head = Block(config, n_inputs, 0, 1, False, 1, generator)
            columns = self.head.features.n_columns
            self.head_weights = nn.Parameter(torch.zeros(columns, n_outputs))

    def variance(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Noise variance at each row."""
        log_variance = self.log_variance.expand(x.shape[-2], len(self.inflation))
        if self.head is not None:
            columns = LayerColumns([self.head(x, 1)], 1, len(x)).whole()
            log_variance = log_variance + multiply(columns, self.head_weights[None])[0]
        return log_variance.exp()

    def predictive_variance(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N D"]:
        """Noise variance of a prediction at each row."""
        return self.variance(x) * self.inflation ** self.remoteness(x)

    def precision(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Targets without gaps, and the noise precision of each: 0 where the target is missing."""
        target, observed = mask_missing(y)
        precision = observed / self.variance(x)
        if row_weight is not None:
            precision = precision * row_weight[:, None]
        return target, precision

    def components(
        self,
        x: Float[Tensor, "N P"],
        mean: Float[Tensor, "S N D"],
        variance: Float[Tensor, "S N D"],
    ) -> Components:
        """One component for each sample, all of the same weight."""
        noise = self.predictive_variance(x).to(mean.dtype).expand_as(mean)
        weight = mean.new_full((len(mean), 1, mean.shape[-1]), 1 / len(mean))
        return Components(mean, variance, noise, weight)

    def log_prob(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        function: Float[Tensor, "*S N D"],
    ) -> Float[Tensor, "*S N D"]:
        """Density N(y; f, σ²)."""
        return self.log_marginal(x, target, function, torch.zeros_like(function))

    def expected_log_prob(
        self,
        layer: Layer,
        features: LayerColumns,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        weight: Float[Tensor, "N D"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, ""]:
        """Σ w E[log N(y; f, σ²)] = Σ w log N(y; y, σ²) − ½ Σ w E[(y − f)²]/σ², moments not stored."""
        variance = self.variance(x)
        squares = layer.squares(features, target, weight / variance)
        weight, log_variance = (item.to(squares.dtype) for item in (weight, variance.log()))
        return -0.5 * ((weight * (LOG_2PI + log_variance)).sum() + squares)

    def log_marginal(
        self,
        x: Float[Tensor, "N P"],
        target: Float[Tensor, "N D"],
        mean: Float[Tensor, "*S N D"],
        variance: Float[Tensor, "*S N D"],
    ) -> Float[Tensor, "*S N D"]:
        """Density N(y; mean, variance + σ²)."""
        total = variance + self.variance(x).to(mean.dtype)
        return -0.5 * (LOG_2PI + total.log() + (target - mean).square() / total)

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


def _merge(segments: Float[Tensor, "n 2"], shortest_gap: float) -> Float[Tensor, "m 2"]:
    """Join segments of time across gaps that are short, or shorter than the MAX_SEGMENTS longest."""
    first, last = segments[segments[:, 0].argsort()].unbind(-1)
    last = last.cummax(0).values
    gap, before = (first[1:] - last[:-1]).topk(min(MAX_SEGMENTS, len(first)) - 1)
    before = before[gap > shortest_gap].sort().values
    return torch.stack(
        [torch.cat([first[:1], first[before + 1]]), torch.cat([last[before], last[-1:]])], dim=-1
    )
