"""Predictive distributions that comparators share."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.predictive import Predictive
from deeplfm.randomness import generator_for


def of_functions(paths: Float[Tensor, "C N D"], noise_variance: Float[Tensor, "N D"]) -> Predictive:
    """Equally likely functions, such as draws of a posterior, and noise around each.

    Args:
        paths: values of each function.
        noise_variance: of an observation.
    """
    n_paths, _, n_outputs = paths.shape

    def draw(n_draws: int, seed: int) -> Tensor:
        pick = torch.randint(n_paths, (n_draws,), generator=generator_for(seed, "draw"))
        return paths[pick]

    weight = torch.full((n_paths, n_outputs), 1 / n_paths, dtype=paths.dtype)
    return Predictive(paths, torch.zeros_like(paths), noise_variance, weight, draw)


class Scatter(Predictive):
    """One curve, and observations scattered about it: each a Gaussian, or a mixture of several widths.

    The curve itself is taken as certain, as by a model that learns its errors from held-out rows.

    Args:
        mean: the curve.
        noise_variance: of each component.
        weight: of each component; each column sums to one.
    """

    def __init__(
        self,
        mean: Float[Tensor, "N D"],
        noise_variance: Float[Tensor, "C N D"],
        weight: Float[Tensor, "C D"],
    ) -> None:
        curves = mean.expand_as(noise_variance)
        super().__init__(
            curves,
            torch.zeros_like(curves),
            noise_variance,
            weight,
            draw=lambda n_draws, _: mean.expand(n_draws, *mean.shape),
        )

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """The curve, with independent errors unless latent; each error is of one component."""
        curve = self._draw(n_draws, seed)
        if latent:
            return curve
        generator = generator_for(seed, "observation")
        n_rows, n_outputs = curve.shape[1:]
        pick = torch.stack(
            [
                torch.multinomial(share, n_draws * n_rows, replacement=True, generator=generator)
                for share in self.weight.T
            ],
            dim=-1,
        ).reshape(n_draws, n_rows, n_outputs)
        variance = self.component_noise.gather(0, pick)
        return curve + variance.sqrt() * torch.randn(
            curve.shape, generator=generator, dtype=curve.dtype
        )


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
