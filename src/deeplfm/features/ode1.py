r"""First-order equation f' + γf = S u: the paper's response features (eq. 6)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.features.response import Response


class FirstOrder(Response):
    r"""Random Fourier response features of f' + γf = Σ_q S_q u_q, with k_u = exp(−r²/ℓ²).

    Its arguments are those of :class:`Response`.
    """

    n_states: ClassVar[int] = 1

    def __init__(
        self, n_inputs: int, n_forces: int, n_features: int, n_groups: int = 1, **options: Any
    ) -> None:
        super().__init__(n_inputs, n_forces, n_features, n_groups, **options)
        self.log_decay = nn.Parameter(torch.zeros(n_groups, n_inputs))

    @property
    def decay(self) -> Float[Tensor, "G P"]:
        """Decay γ of each input dimension."""
        return self.log_decay.exp()

    @property
    def polynomial(self) -> Float[Tensor, "G P 1"]:
        """γ."""
        return self.decay.unsqueeze(-1)

    @torch.no_grad()
    def set_bandwidth(self, width: float | Float[Tensor, "#G #P"]) -> None:
        """γ = width."""
        self.log_decay.copy_(torch.as_tensor(width, dtype=torch.float64).log())

    def free_response(
        self, time: Float[Tensor, "B P N"], polynomial: Float[Tensor, "B P 1"]
    ) -> tuple[Float[Tensor, "B P N"], ...]:
        """e^{−γs}."""
        return (torch.exp(-polynomial * time),)
