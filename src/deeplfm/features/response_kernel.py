r"""The response features of a linear system as a kernel of GPyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import ConfigError

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    from gpytorch.kernels import Kernel
    from linear_operator.operators import LowRankRootLinearOperator, MatmulLinearOperator


class ResponseKernel(Kernel):
    r"""k(x, x') = φ(x)ᵀ φ(x'), where φ are random Fourier response features.

    The prior covariance of a latent force model with fixed draws of standardised frequencies:
    lengthscales and the parameters of the system are trained. The covariance has rank K = 2QM, so that
    GPyTorch's exact inference takes O(N K²) and not O(N³).

    Args:
        system: name of the linear system, from ``deeplfm.features.SYSTEMS``.
        n_inputs: number P of inputs.
        n_features: number M of frequencies of each force.
        n_forces: number Q of forces.
        seed: of the frequencies.
        **options: further arguments of the feature map, such as ``lower_limit``.

    >>> kernel = ResponseKernel("ode1", n_features=30)
    >>> x = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    >>> kernel(x, x).to_dense().shape
    torch.Size([5, 5])
    """

    has_lengthscale = False

    def __init__(
        self,
        system: str = "ode1",
        n_inputs: int = 1,
        n_features: int = 100,
        n_forces: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> None:
        from deeplfm.features import feature_map

        super().__init__()
        self.features = feature_map(system)(n_inputs, n_forces, n_features, **options).double()
        generator = torch.Generator().manual_seed(seed)
        shape = self.features.frequency_shape
        draw = torch.randn(shape, generator=generator, dtype=torch.float64)
        self.register_buffer("standard_frequency", draw)

    def columns(self, x: Float[Tensor, "*B N P"]) -> Float[Tensor, "*B N K"]:
        """Features φ of the inputs."""
        mean, std = self.features.frequency_prior()
        frequency = mean + std * self.standard_frequency
        n_features = self.features.n_features
        weight = torch.full((n_features,), n_features**-0.5, dtype=frequency.dtype, device=x.device)
        flat = self.features(x.reshape(-1, x.shape[-1]).to(frequency.dtype), frequency, weight)
        return flat[0].reshape(*x.shape[:-1], -1).to(x.dtype)  # of the only group

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False, **_: Any
    ) -> Any:
        """Covariance of the rows of two inputs."""
        if last_dim_is_batch:
            raise ConfigError("ResponseKernel: last_dim_is_batch is not supported.")
        is_same = torch.equal(x1, x2)
        first = self.columns(x1)
        second = first if is_same else self.columns(x2)
        if diag:
            return (first * second).sum(-1)
        if is_same:
            return LowRankRootLinearOperator(first)
        return MatmulLinearOperator(first, second.transpose(-1, -2))
