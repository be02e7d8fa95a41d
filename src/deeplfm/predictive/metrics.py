"""Scores of predictions, one per output, over the rows where the target is observed."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.predictive.mixture import Predictive


def nmse(
    mean: Float[Tensor, "N D"],
    target: Float[Tensor, "N D"],
    counts: Float[Tensor, "N D"] | None = None,
) -> Float[Tensor, " D"]:
    """Mean squared error over the variance of the scored targets; predicting their mean scores 1."""
    share = torch.where(target.isnan(), 0, 1.0 if counts is None else counts)
    share = share / share.sum(0)
    known = target.nan_to_num(0.0)
    centre = (share * known).sum(0)
    return (share * (mean - known).square()).sum(0) / (share * (known - centre).square()).sum(0)


def mnll(posterior: Predictive, target: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
    """Mean negative log density of an observation, noise included."""
    return -posterior.log_prob(target).nanmean(0)


def coverage(
    posterior: Predictive, target: Float[Tensor, "N D"], level: float = 0.95
) -> Float[Tensor, " D"]:
    """Fraction of observations inside the central interval of the given level."""
    position = posterior.cdf(target)
    inside = ((position - 0.5).abs() <= level / 2).to(target.dtype)
    return torch.where(target.isnan(), torch.nan, inside).nanmean(0)
