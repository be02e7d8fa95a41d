"""From the user's units to the model's and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from deeplfm.predictive import Predictive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Affine maps of inputs and outputs.

    Series have their time mapped to [0, 1] over the training rows, as in the paper; the columns of a
    table are standardised. Outputs are standardised over their known values.
    """

    x_shift: Array
    x_scale: Array
    y_shift: Array
    y_scale: Array

    @classmethod
    def of(cls, x: Array, y: Array, is_series: bool) -> Scaling:
        """The scaling that training data ask for."""
        if is_series:
            x_shift, x_scale = x.min(0), np.ptp(x, axis=0)
        else:
            x_shift, x_scale = x.mean(0), x.std(0)
        y_shift, y_scale = np.nanmean(y, axis=0), np.nanstd(y, axis=0)
        return cls(x_shift, _nonzero(x_scale), y_shift, _nonzero(y_scale))

    def inputs(self, x: Array) -> Array:
        """Inputs in the model's units."""
        return (x - self.x_shift) / self.x_scale

    def outputs(self, y: Array) -> Array:
        """Outputs in the model's units."""
        return (y - self.y_shift) / self.y_scale

    def predictive(self, posterior: Predictive) -> Predictive:
        """A prediction in the user's units."""
        return Rescaled(posterior, torch.as_tensor(self.y_shift), torch.as_tensor(self.y_scale))


class Rescaled(Predictive):
    """A prediction after an affine map of each output."""

    def __init__(
        self, inner: Predictive, shift: Float[Tensor, " D"], scale: Float[Tensor, " D"]
    ) -> None:
        self._inner, self._shift, self._scale = inner, shift, scale
        mean, variance, noise, weight = (
            item.cpu().double()
            for item in (
                inner.component_mean,
                inner.component_variance,
                inner.component_noise,
                inner.weight,
            )
        )
        square = scale.square()
        super().__init__(
            mean * scale + shift,
            variance * square,
            noise * square,
            weight,
            draw=lambda n_draws, seed: self.sample(n_draws, seed, latent=True),
        )

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """Whole functions."""
        return self._inner.sample(n_draws, seed, latent).cpu().double() * self._scale + self._shift


def _nonzero(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)
