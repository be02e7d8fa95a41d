"""Predictive distributions that comparators share."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for


def of_functions(paths: Float[Tensor, "C N D"], noise_variance: Float[Tensor, "N D"]) -> Predictive:
    """Equally likely functions, such as draws of a posterior, and noise around each."""
    n_paths, _, n_outputs = paths.shape

    def draw(n_draws: int, seed: int) -> Tensor:
        pick = torch.randint(n_paths, (n_draws,), generator=generator_for(seed, "draw"))
        return paths[pick]

    weight = torch.full((n_paths, n_outputs), 1 / n_paths, dtype=paths.dtype)
    return Predictive(paths, torch.zeros_like(paths), noise_variance, weight, draw)


def scattered(
    mean: Float[Tensor, "N D"],
    noise_variance: Float[Tensor, "C N D"],
    weight: Float[Tensor, "C D"],
) -> Predictive:
    """One curve, and observations scattered about it: each a Gaussian, or a mixture of several widths.

    The curve itself is taken as certain, as by a model that learns its errors from held-out rows.
    """
    curves = mean.expand_as(noise_variance)
    return Predictive(curves, torch.zeros_like(curves), noise_variance, weight)


def paths(
    mean: Float[Tensor, " N"],
    covariance: Float[Tensor, "N N"],
    n_draws: int,
    generator: torch.Generator,
) -> Float[Tensor, "S N"]:
    """Whole functions of a Gaussian process, given its joint distribution at some rows.

    By eigenvectors, as the covariance of near rows is singular to rounding.
    """
    value, vector = torch.linalg.eigh(covariance)
    normal = torch.randn(n_draws, len(mean), generator=generator, dtype=mean.dtype)
    return mean + (normal * value.clamp_min(0.0).sqrt()) @ vector.T
