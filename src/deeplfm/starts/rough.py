r"""How rough a table is, by the evidence of an Ornstein–Uhlenbeck process of its inputs."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

_STEPS, _RATE = 60, 0.1
_LEAST_NOISE = 1e-3  # standard deviation


class Roughness(NamedTuple):
    """What the evidence says of one output.

    Attributes:
        lengthscale: along each input.
        scale: standard deviation of the function.
        noise_variance: of the rest.
    """

    lengthscale: Float[Tensor, " P"]
    scale: float
    noise_variance: float


@torch.enable_grad()
def find_roughness(x: Float[Tensor, "N P"], y: Float[Tensor, " N"]) -> Roughness:
    """Maximise the evidence of y = f(x) + noise; costs N³, so give some hundreds of rows.

    Args:
        x: inputs, standardised.
        y: targets, standardised; none missing.
    """
    x, y = x.double(), y.double()
    n_rows, n_inputs = x.shape
    distance = (x[:, None] - x).abs()  # N N P
    # One lengthscale for all inputs together would be that of their sum of distances.
    start = torch.full((n_inputs,), math.log(2.0 * n_inputs), dtype=x.dtype, device=x.device)
    log_lengthscale = start.requires_grad_()
    rest = torch.tensor([0.0, math.log(0.3)], dtype=x.dtype, device=x.device).requires_grad_()
    optimiser = torch.optim.Adam([log_lengthscale, rest], lr=_RATE)
    eye = torch.eye(n_rows, dtype=x.dtype, device=x.device)
    for _ in range(_STEPS):
        optimiser.zero_grad()
        scale, noise = rest.exp().unbind()
        kernel = scale.square() * torch.exp(-distance @ torch.exp(-log_lengthscale))
        root = torch.linalg.cholesky(kernel + (noise.square() + _LEAST_NOISE**2) * eye)
        half = torch.linalg.solve_triangular(root, y[:, None], upper=False)
        loss = 0.5 * half.square().sum() + root.diagonal().log().sum()
        loss.backward()
        optimiser.step()
    scale, noise = rest.detach().exp().unbind()
    return Roughness(
        log_lengthscale.detach().exp(), float(scale), float(noise.square() + _LEAST_NOISE**2)
    )
