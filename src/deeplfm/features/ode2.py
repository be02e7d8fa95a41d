r"""Second-order equation f'' + 2ζω₀f' + ω₀²f = S u: a mass on a spring with friction."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.features.response import Response

_RESOLUTION = 1e-18  # of the series of cos √z and sin √z/√z, |z| ≤ 1, in float64


class SecondOrder(Response):
    r"""Random Fourier response features of m f'' + c f' + k f = Σ_q S_q u_q, with k_u = exp(−r²/ℓ²).

    Mass and sensitivity cannot be identified separately, so m = 1. The natural frequency ω₀ = √(k/m)
    and the damping ratio ζ = c/(2√(km)) are positive, so the system is stable: underdamped for ζ < 1 and
    overdamped for ζ > 1. It starts critically damped, at ω₀ = ζ = 1. Its arguments are those of
    :class:`Response`.
    """

    n_states: ClassVar[int] = 2

    def __init__(
        self, n_inputs: int, n_forces: int, n_features: int, n_groups: int = 1, **options: Any
    ) -> None:
        super().__init__(n_inputs, n_forces, n_features, n_groups, **options)
        self.log_natural_frequency = nn.Parameter(torch.zeros(n_groups, n_inputs))
        self.log_damping = nn.Parameter(torch.zeros(n_groups, n_inputs))

    @property
    def polynomial(self) -> Float[Tensor, "G P 2"]:
        """2ζω₀ = c/m and ω₀² = k/m, in float64: near ζ = 1 their difference matters."""
        natural, damping = (
            self.log_natural_frequency.double().exp(),
            self.log_damping.double().exp(),
        )
        return torch.stack([2 * damping * natural, natural.square()], dim=-1)

    @torch.no_grad()
    def set_bandwidth(self, width: float | Float[Tensor, "#G #P"]) -> None:
        """ω₀ = width; the damping ratio is kept."""
        self.log_natural_frequency.copy_(torch.as_tensor(width, dtype=torch.float64).log())

    def free_response(
        self, time: Float[Tensor, "B P N"], polynomial: Float[Tensor, "B P 2"]
    ) -> tuple[Float[Tensor, "B P N"], ...]:
        r"""h_1 = e^{−αs} sin(ws)/w and h_0 = e^{−αs} cos(ws) + α h_1, with α = ζω₀ and w² = Δ = ω₀² − α².

        Both are even in w, so smooth functions of Δ: series of Δs² where that is small for all rows,
        exponentials where Δ < 0.
        """
        alpha = polynomial[..., :1] / 2
        delta = polynomial[..., 1:] - alpha.square()
        size = delta.detach() * time.detach().square().amax(-1, keepdim=True)
        is_oscillating, is_overdamped = size > 1, size < -1
        is_critical = ~(is_oscillating | is_overdamped)
        parts = []
        for is_own, safe, pair in (
            (is_oscillating, 1.0, _oscillating),
            (is_overdamped, -1.0, _overdamped),
            (is_critical, 0.0, _critical),
        ):
            if bool(is_own.all()):
                parts = [pair(time, alpha, delta)]
            elif bool(is_own.any()):  # other inputs take part with values that cannot overflow
                own_time, own_delta = (
                    torch.where(is_own, item, other) for item, other in ((time, 0.0), (delta, safe))
                )
                cosine, sine = pair(own_time, alpha, own_delta)
                parts.append((torch.where(is_own, cosine, 0.0), torch.where(is_own, sine, 0.0)))
        cosine, sine = (sum(items[1:], start=items[0]) for items in zip(*parts, strict=True))
        return cosine + alpha * sine, sine


Pair = tuple[Float[Tensor, "B P N"], Float[Tensor, "B P N"]]  # e^{−αs} cos(ws), e^{−αs} sin(ws)/w


def _oscillating(time: Tensor, alpha: Tensor, delta: Tensor) -> Pair:
    root, envelope = delta.sqrt(), torch.exp(-alpha * time)
    angle = root * time
    return envelope * angle.cos(), envelope * angle.sin() / root


def _overdamped(time: Tensor, alpha: Tensor, delta: Tensor) -> Pair:
    root = (-delta).sqrt()
    fast = alpha + root
    slow = (alpha.square() + delta) / fast  # α − κ, without cancellation
    late, early = torch.exp(-slow * time), torch.exp(-fast * time)
    return (late + early) / 2, (late - early) / (2 * root)


def _critical(time: Tensor, alpha: Tensor, delta: Tensor) -> Pair:
    """Σ (−Δs²)ⁿ/(2n)! and s Σ (−Δs²)ⁿ/(2n+1)!, for |Δs²| ≤ 1."""
    envelope, square = torch.exp(-alpha * time), -delta * time.square()
    n_terms, size = 1, float(square.detach().abs().max())
    while size**n_terms / math.factorial(2 * n_terms) > _RESOLUTION:  # and all derivatives by Δ
        n_terms += 1
    cosine = sine = torch.ones_like(square)
    for n in range(n_terms, 0, -1):
        cosine = 1 + square / ((2 * n - 1) * 2 * n) * cosine
        sine = 1 + square / (2 * n * (2 * n + 1)) * sine
    return envelope * cosine, envelope * time * sine
