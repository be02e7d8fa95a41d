r"""What all likelihoods share: predictions that held-out rows have calibrated."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

MOST_STRETCHES = 64  # of known targets that are remembered; of more gaps the longest count
_SHORTEST_GAP = (0.02, 3.0)  # in units of the reach, and of the typical step


class Components(NamedTuple):
    """A mixture of Gaussians for every row and output.

    Attributes:
        mean: component means.
        variance: component variances of the function.
        noise: component variances of the observation noise.
        weight: mixture weights; one row where all rows have the same.
    """

    mean: Float[Tensor, "C N D"]
    variance: Float[Tensor, "C N D"]
    noise: Float[Tensor, "C N D"]
    weight: Float[Tensor, "C _ D"]


class Likelihood(nn.Module):
    r"""What an observation is, given the function.

    Predictions multiply noise variances by ``inflation``, which held-out rows may set: training sees
    the noise it has fitted. In a series it grows with the distance from the data, from nothing inside
    to the whole of it beyond ``reach``: held-out rows after the end say little of what happens between
    two known values.

    Args:
        n_outputs: number D of outputs.
    """

    inflation: Tensor
    reach: Tensor
    support: Tensor

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.register_buffer("inflation", torch.ones(n_outputs))
        self.register_buffer("reach", torch.tensor(math.inf))
        self.register_buffer("support", torch.full((n_outputs, MOST_STRETCHES, 2), math.inf))

    @abstractmethod
    def components(
        self,
        x: Float[Tensor, "N P"],
        mean: Float[Tensor, "S N U"],
        variance: Float[Tensor, "S N U"],
    ) -> Components:
        """The prediction of each row, from the moments of the last layer for each sample."""

    def penalty(self) -> Float[Tensor, ""]:
        """Minus the log prior of its own parameters, up to a constant."""
        return self.inflation.new_zeros(())

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
