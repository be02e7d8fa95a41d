r"""First-order ODE f' + γf = S u: the paper's response features (eq. 6)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from deeplfm.features.base import Tables
from deeplfm.features.harmonic import Coefficients, HarmonicMap, steady_coefficients
from deeplfm.features.harmonic import response_transients as response_transients

# Up to this |z| a response is written as a polynomial: the quotient would lose digits of gradients.
_RADIUS = 0.2
_NEARLY_ZERO = 1e-30  # kernels take a gain of 0 for one that no row may change


def response_coefficients(
    decay: Float[Tensor, "*#S G J"],
    frequency: Float[Tensor, "*S G J K"],
    gain: Float[Tensor, "*#S G J K"],
    extent: Float[Tensor, "*#S J"],
    lower_limit: float = 0.0,
) -> Coefficients:
    r"""Tables of Σ_j S_jk ∫ₐᵗ e^{−γ(t−τ)} e^{jωτ} dτ.

    The closed form e^{jωa}(e^{jωs} − e^{−γs})/(γ+jω), s = t − a, is a wave and a transient. It is 0/0 at
    γ+jω = 0, and near it wave and transient cancel. A column whose |γ+jω||s| stays small is written as
    what it then is, a polynomial of s with coefficients Σ_{i<n} (jω)^i (−γ)^{n−1−i} / n!, whose powers
    are transients too. Computed in float64: the tables are small, and their gradients are sums over all
    rows.

    Args:
        decay: γ ≥ 0 of each term.
        frequency: ω.
        gain: S, with the weight of the feature.
        extent: largest |s| of each term.
        lower_limit: a; with −∞ the transient has died out.
    """
    dtype = frequency.dtype
    gain = torch.where(gain == 0, gain + _NEARLY_ZERO, gain)
    decay, frequency, gain = (item.double() for item in (decay.unsqueeze(-1), frequency, gain))
    if math.isinf(lower_limit):
        amplitude = gain / torch.hypot(decay, frequency)
        phase = -torch.atan2(frequency, decay.expand_as(frequency))
        steady = frequency.unsqueeze(-2), amplitude, phase
        return steady_coefficients(*(item.to(dtype) for item in steady))
    radius = torch.hypot(decay.detach(), frequency.detach()) * extent[..., None, :, None]
    extent = torch.where(extent > 0, extent, 1.0)  # the unit of the powers
    reach = extent.double()[..., None, :, None]  # *#S 1 J 1
    is_near = radius < _RADIUS
    far_decay = torch.where(is_near, 1.0, decay)
    amplitude = torch.where(is_near, 0.0, gain) / torch.hypot(far_decay, frequency)
    turn = frequency * lower_limit
    phase = turn - torch.atan2(frequency, far_decay)
    # Whole turns are taken away while there are digits for them: the dtype may have few.
    phase = phase - 2 * math.pi * torch.round(phase.detach() / (2 * math.pi))
    transient_real = [-amplitude * torch.cos(phase)]
    transient_imag = [-amplitude * torch.sin(phase)]
    if bool(is_near.any()):
        w, c, g = (torch.where(is_near, item, 0.0) for item in (frequency, decay, gain))
        cosine, sine = torch.cos(turn), torch.sin(turn)
        power = torch.ones_like(w)  # (−γ)^(n−1)
        term_real, term_imag = torch.ones_like(w), torch.zeros_like(w)
        for n in range(1, _n_terms(float(radius[is_near].max()), dtype) + 1):
            g = g * reach / n
            transient_real.append(g * (term_real * cosine - term_imag * sine))
            transient_imag.append(g * (term_real * sine + term_imag * cosine))
            power = -c * power
            term_real, term_imag = power - w * term_imag, w * term_real
    samples = frequency.shape[:-3]
    tables = (
        frequency.unsqueeze(-2),
        amplitude,
        phase,
        torch.cat(transient_real, dim=-2),
        torch.cat(transient_imag, dim=-2),
        decay.squeeze(-1).expand(*samples, -1, -1),
        extent.expand(*samples, -1),
    )
    return Coefficients(*(item.to(dtype) for item in tables))


def _n_terms(radius: float, dtype: torch.dtype) -> int:
    """Terms of Σ zⁿ⁻¹/n! whose derivatives, 2n|z|ⁿ⁻¹/(n+1)! beside the first, a dtype can tell apart."""
    n, last = 2, 2 * radius / 3
    while last > 8 * torch.finfo(dtype).eps:
        n += 1
        last *= radius * n / ((n - 1) * (n + 1))
    return n


class FirstOrder(HarmonicMap):
    r"""Random Fourier response features of f' + γf = Σ_q S_q u_q, with k_u = exp(−r²/ℓ²).

    For several inputs the complex features are summed over the input dimensions, as in the paper;
    ``weighted_inputs`` multiplies each by α_m, its alternative for future work.

    Args:
        n_inputs: see :class:`FeatureMap`, as the other arguments not listed.
        n_forces: number Q of latent forces.
        n_features: number M of frequencies per force.
        n_groups: number G of parameter sets.
        extras: columns beside the force.
        shared_forces: all groups respond to the same forces.
        max_lengthscale: upper bound on ℓ.
        lower_limit: a, where the convolution begins. The paper's a = 0 forces f(0) = 0; −∞ is a
            system that was running long before the data.
        weighted_inputs: learn one weight α_m per input dimension.
        positive_sensitivity: S = |ρ| of the learned ρ, as in the authors' code.
    """

    spectral_variance: ClassVar[float] = 2.0
    is_additive: ClassVar[bool] = True
    has_force: ClassVar[bool] = True
    n_states: ClassVar[int] = 1

    def __init__(
        self,
        n_inputs: int,
        n_forces: int,
        n_features: int,
        n_groups: int = 1,
        extras: tuple[str, ...] = (),
        shared_forces: bool = False,
        max_lengthscale: float = math.inf,
        lower_limit: float = 0.0,
        weighted_inputs: bool = False,
        positive_sensitivity: bool = False,
    ) -> None:
        super().__init__(
            n_inputs, n_forces, n_features, n_groups, extras, shared_forces, max_lengthscale
        )
        self.positive_sensitivity = positive_sensitivity
        self.lower_limit = float(lower_limit)
        self.origin = self.lower_limit if math.isfinite(lower_limit) else 0.0
        self.log_decay = nn.Parameter(torch.zeros(n_groups, n_inputs))
        self.input_weight = nn.Parameter(torch.ones(n_inputs)) if weighted_inputs else None

    @property
    def sensitivity(self) -> Float[Tensor, "G P Q"]:
        """Sensitivity S of the system to each force."""
        sensitivity = super().sensitivity
        return sensitivity.abs() if self.positive_sensitivity else sensitivity

    @property
    def decay(self) -> Float[Tensor, "G P"]:
        """Decay γ of each input dimension."""
        return self.log_decay.exp()

    def transfer(self, frequency: Float[Tensor, " F"]) -> Complex[Tensor, "G P F"]:
        """1/(γ + jω)."""
        decay = self.decay.to(frequency.dtype).unsqueeze(-1)
        return 1 / torch.complex(*torch.broadcast_tensors(decay, frequency))

    @property
    def bandwidth(self) -> Float[Tensor, "G P"]:
        """γ, where the gain has fallen by √2."""
        return self.decay

    @torch.no_grad()
    def set_bandwidth(self, width: float | Float[Tensor, "#G #P"]) -> None:
        """γ = width."""
        self.log_decay.copy_(torch.as_tensor(width, dtype=torch.float64).log())

    @torch.no_grad()
    def growth(self, extent: Float[Tensor, " P"]) -> float:
        """γ × extent; without a transient nothing grows."""
        is_steady = math.isinf(self.lower_limit) and "initial_state" not in self.extras
        return 0.0 if is_steady else float((self.decay * extent).amax())

    def coefficients(
        self,
        frequency: Float[Tensor, "*S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
        extent: Float[Tensor, "*#S P"],
        inputs: slice = slice(None),
    ) -> Tables:
        """One term for each input dimension."""
        sensitivity = self.sensitivity
        if self.input_weight is not None:
            sensitivity = sensitivity * self.input_weight[:, None]
        gain = (sensitivity[..., None] * feature_weight.to(sensitivity.dtype)).flatten(-2)  # G P K
        frequency = frequency.flatten(-2)[..., inputs, :]
        return response_coefficients(
            self.decay[:, inputs],
            frequency.expand(*frequency.shape[:-3], self.n_groups, *frequency.shape[-2:]),
            gain[:, inputs],
            extent,
            self.lower_limit,
        )

    def initial_state(self, x: Float[Tensor, "*S 1 N P"]) -> Float[Tensor, "*S G N P"]:
        """Free decay e^{−γ(x−a)} of an unknown state at the lower limit (at 0 when a = −∞)."""
        return torch.exp(-self.decay[:, None, :] * (x - self.origin))
