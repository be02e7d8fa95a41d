r"""Columns of equations of second and higher order whose frequency is near a root: resonance."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

# |root − jω| × extent up to which wave and transient, which nearly cancel, are written as a series.
RADIUS = 0.2


def companion(polynomial: Float[Tensor, "*B n"]) -> Float[Tensor, "*B n n"]:
    """The matrix of the states f, f', … f⁽ⁿ⁻¹⁾."""
    order = polynomial.shape[-1]
    shifted = torch.diag(polynomial.new_ones(order - 1), 1)[:-1].expand(
        *polynomial.shape[:-1], -1, -1
    )
    return torch.cat([shifted, -polynomial.flip(-1).unsqueeze(-2)], dim=-2)


def resonance(
    polynomial: Tensor, wave: Tensor, reach: Tensor
) -> tuple[Bool[Tensor, "*S G J K"], Complex[Tensor, "*S G J K"]] | None:
    """Columns whose jω is near a root of P, and that root; nothing where there are none."""
    roots = torch.linalg.eigvals(companion(polynomial))  # G J n
    if not bool(((roots.real.abs() * reach) < RADIUS).any()):
        return None
    distance = (wave.unsqueeze(-1) - roots.unsqueeze(-2)).abs()  # *S G J K n
    least, which = distance.min(-1)
    root = roots.unsqueeze(-2).expand_as(distance).gather(-1, which.unsqueeze(-1)).squeeze(-1)
    is_near = least * reach < RADIUS
    return (is_near, root) if bool(is_near.any()) else None


def series_near_root(
    polynomial: Tensor,
    wave: Tensor,
    root: Tensor,
    reach: Tensor,
    is_near: Tensor,
    n_terms: int,
) -> list[list[Complex[Tensor, "*S G J K"]]]:
    r"""Gains of h_k (s/e)^m for each k, m = 0, 1, …, where jω is near a root r.

    With P(D) = Q(D)(D − r) and q = jω − r, the response is (ψ − Σ_k ψ⁽ᵏ⁾(0) h_k)/Q(jω), where
    ψ = s e^{rs} Σ_m (qs)^m/(m+1)! and e^{rs} = Σ_k rᵏ h_k.
    """
    order = polynomial.shape[-1]
    ones = torch.ones_like(wave)
    wave, root = (torch.where(is_near, item, ones) for item in (wave, root))
    factors = [ones, *(item.unsqueeze(-1) * ones for item in polynomial.unbind(-1))]
    # a Newton step from a root that is known: it changes nothing but has the root's gradient
    value, slope = torch.zeros_like(root), torch.zeros_like(root)
    for factor in factors:
        value, slope = value * root + factor, slope * root + value.detach()
    root = root - value / slope
    quotient, remainder = torch.zeros_like(wave), torch.zeros_like(wave)
    for factor in factors[:-1]:  # synthetic division of P by (D − r), evaluated at jω
        remainder = remainder * root + factor
        quotient = quotient * wave + remainder
    scale = torch.where(is_near, 1.0, 0.0) / torch.where(is_near, quotient, ones)
    found = [[torch.zeros_like(wave)]]
    derivative = ones  # ψ⁽ᵏ⁾(0), k = 1, 2, …
    for k in range(1, order):
        found.append([-scale * derivative])
        derivative = root**k + wave * derivative
    for m in range(n_terms):
        scale = scale * reach / (m + 1)
        for k, gains in enumerate(found):
            gains.append(scale * root**k)
        scale = scale * (wave - root)
    return found
