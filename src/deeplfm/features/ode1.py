r"""First-order ODE f' + γf = S u: the paper's response features (eq. 6)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.features.base import FeatureMap

# Below this |z| the quotient loses digits in its gradients; the series has none to lose.
_SERIES_RADIUS = 0.25
_SERIES_TERMS = 12


def first_order_response(time: Tensor, decay: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    r"""Response ∫₀ᵗ e^{−γ(t−τ)} e^{jωτ} dτ of a first-order system to a wave, as real and imaginary part.

    The closed form (e^{jωt} − e^{−γt})/(γ+jω) is 0/0 at γ+jω = 0 and its gradients lose all digits
    near it. Away from zero the difference is written with expm1 and half angles, which cancel
    nothing; for |z| = |(γ+jω)t| below 0.25 the series t·e^{−γt}·Σ z^k/(k+1)! takes over.

    Args:
        time: t, of either sign (hidden layers feed negative values).
        decay: γ ≥ 0.
        frequency: ω.

    Returns:
        Real and imaginary part, of the broadcast shape.

    >>> import torch
    >>> first_order_response(torch.tensor(2.0), torch.tensor(0.0), torch.tensor(0.0))
    (tensor(2.), tensor(0.))
    """
    damping, phase = torch.broadcast_tensors(decay * time, frequency * time)
    if damping.dim() == 0:  # nonzero and index_put know no scalars
        real, imag = first_order_response(time[None], decay, frequency)
        return real[0], imag[0]
    small = damping.square() + phase.square() < _SERIES_RADIUS**2
    any_small = bool(small.any())

    size = decay.square() + frequency.square()
    if any_small:
        size = torch.where(small, 1.0, size)  # keeps the unused branch away from 0/0 in backward
    half_sine, half_cosine = torch.sin(phase / 2), torch.cos(phase / 2)
    difference_real = -torch.expm1(-damping) - 2 * half_sine.square()
    difference_imag = 2 * half_sine * half_cosine
    real = (decay * difference_real + frequency * difference_imag) / size
    imag = (decay * difference_imag - frequency * difference_real) / size
    if not any_small:
        return real, imag

    where = small.nonzero(as_tuple=True)
    t, a, b = (item.expand(small.shape)[where] for item in (time, damping, phase))
    series_real, series_imag = _expm1_quotient_series(a, b)
    scale = t * torch.exp(-a)
    return (
        real.index_put(where, scale * series_real),
        imag.index_put(where, scale * series_imag),
    )


def stationary_response(time: Tensor, decay: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    """Response e^{jωt}/(γ+jω) of a system that has been running for ever (lower limit −∞)."""
    size = decay.square() + frequency.square()
    cosine, sine = torch.cos(frequency * time), torch.sin(frequency * time)
    return (
        (decay * cosine + frequency * sine) / size,
        (decay * sine - frequency * cosine) / size,
    )


def _expm1_quotient_series(real: Tensor, imag: Tensor) -> tuple[Tensor, Tensor]:
    """(e^z − 1)/z = Σ z^k/(k+1)! for small z = real + j·imag, by Horner's rule."""
    sum_real = torch.full_like(real, 1 / math.factorial(_SERIES_TERMS))
    sum_imag = torch.zeros_like(imag)
    for k in range(_SERIES_TERMS - 1, 0, -1):
        sum_real, sum_imag = (
            real * sum_real - imag * sum_imag + 1 / math.factorial(k),
            real * sum_imag + imag * sum_real,
        )
    return sum_real, sum_imag


class FirstOrder(FeatureMap):
    r"""Random Fourier response features of f' + γf = Σ_q S_q u_q, with k_u = exp(−r²/ℓ²).

    For several inputs the complex features are summed over the input dimensions, as in the paper;
    ``weighted_inputs`` multiplies each by α_m, its alternative for future work.

    Args:
        n_inputs: see :class:`FeatureMap`, as the other arguments not listed.
        n_forces: number Q of latent forces.
        n_features: number M of frequencies per force.
        n_groups: number G of parameter sets.
        extras: columns beside the force.
        shared_forces: all groups hear the same forces.
        max_lengthscale: upper bound on ℓ.
        lower_limit: a, where the convolution begins. The paper's a = 0 forces f(0) = 0; −∞ is a
            system that was running long before the data.
        weighted_inputs: learn one weight α_m per input dimension.
    """

    spectral_variance: ClassVar[float] = 2.0

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
    ) -> None:
        super().__init__(
            n_inputs, n_forces, n_features, n_groups, extras, shared_forces, max_lengthscale
        )
        self.lower_limit = float(lower_limit)
        self.log_decay = nn.Parameter(torch.zeros(n_groups, n_inputs))
        self.input_weight = nn.Parameter(torch.ones(n_inputs)) if weighted_inputs else None

    @property
    def decay(self) -> Float[Tensor, "G P"]:
        """Decay γ of each input dimension."""
        return self.log_decay.exp()

    def waves(
        self, x: Float[Tensor, "*#S 1 N P"], frequency: Float[Tensor, "*#S #G P Q M"]
    ) -> tuple[Float[Tensor, "*S G N Q M"], ...]:
        """Re and Im of Σ_p S_pq φ(x_p; γ_p, ω_pqm)."""
        sensitivity = self.sensitivity
        if self.input_weight is not None:
            sensitivity = sensitivity * self.input_weight[:, None]
        terms = [
            self._response(
                x[..., p, None, None],  # ... 1 N 1 1
                self.decay[:, p, None, None, None],
                frequency[..., p, :, :].unsqueeze(-3),  # ... G 1 Q M
                sensitivity[:, None, p, :, None],
            )
            for p in range(self.n_inputs)
        ]
        real, imag = zip(*terms, strict=True)
        return _sum(real), _sum(imag)

    def initial_state(self, x: Float[Tensor, "*S 1 N P"]) -> Float[Tensor, "*S G N P"]:
        """Free decay e^{−γ(x−a)} of an unknown state at the lower limit (at 0 when a = −∞)."""
        origin = self.lower_limit if math.isfinite(self.lower_limit) else 0.0
        return torch.exp(-self.decay[:, None, :] * (x - origin))

    def _response(
        self, x: Tensor, decay: Tensor, frequency: Tensor, sensitivity: Tensor
    ) -> tuple[Tensor, Tensor]:
        if math.isinf(self.lower_limit):
            real, imag = stationary_response(x, decay, frequency)
        else:
            real, imag = first_order_response(x - self.lower_limit, decay, frequency)
            if self.lower_limit != 0:  # the wave arrives at the limit with phase ωa
                cosine = torch.cos(frequency * self.lower_limit)
                sine = torch.sin(frequency * self.lower_limit)
                real, imag = real * cosine - imag * sine, real * sine + imag * cosine
        return sensitivity * real, sensitivity * imag


def _sum(terms: tuple[Tensor, ...]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
