r"""First-order ODE f' + γf = S u: the paper's response features (eq. 6)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from deeplfm.features.base import FeatureMap

# Below this |z| the quotient loses digits in its gradients; the series has none to lose.
_SERIES_RADIUS = 0.25
_SERIES_TERMS = {torch.float64: 12, torch.float32: 7}
_FEW = 0.05


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
    if max(time.dim(), decay.dim(), frequency.dim()) == 0:  # nonzero and index_put know no scalars
        real, imag = _FirstOrderResponse.apply(time[None], decay, frequency)
        return real[0], imag[0]
    return _FirstOrderResponse.apply(time, decay, frequency)


class _FirstOrderResponse(torch.autograd.Function):
    """The response with its own backward: nothing between inputs and results is kept."""

    @staticmethod
    def forward(ctx, time, decay, frequency):  # type: ignore[no-untyped-def]
        damping, phase = torch.broadcast_tensors(decay * time, frequency * time)
        half_sine, half_cosine = torch.sin(phase / 2), torch.cos(phase / 2)
        difference_real = -torch.expm1(-damping) - 2 * half_sine.square()
        difference_imag = 2 * half_sine * half_cosine
        real, imag = _divide(difference_real, difference_imag, decay, frequency)
        near = _NearZero(damping, phase)
        if near.exists:
            t, a, b = near.take(time, damping, phase)
            scale = t * torch.exp(-a)
            series = _series(a, b, near.n_terms, _VALUE_COEFFICIENTS)
            real, imag = near.put((real, imag), tuple(scale * part for part in series))
        ctx.save_for_backward(time, decay, frequency, real, imag)
        return real, imag

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_real, grad_imag):  # type: ignore[no-untyped-def]
        time, decay, frequency, real, imag = ctx.saved_tensors
        needs = ctx.needs_input_grad
        damping, phase = torch.broadcast_tensors(decay * time, frequency * time)
        cosine, sine = torch.cos(phase), torch.sin(phase)
        near = _NearZero(damping, phase)
        if near.exists and any(needs[1:]):  # t²e^{−γt} E'(z): ∂φ/∂ω is j times it
            t, a, b, value_real, value_imag = near.take(time, damping, phase, real, imag)
            scale = t.square() * torch.exp(-a)
            slope = _series(a, b, near.n_terms, _SLOPE_COEFFICIENTS)
            slope_real, slope_imag = (scale * part for part in slope)
        grad_time = grad_decay = grad_frequency = None
        if needs[0]:  # φ' = e^{jωt} − γφ
            grad_time = grad_real * (cosine - decay * real) + grad_imag * (sine - decay * imag)
            grad_time = grad_time.sum_to_size(time.shape)
        if needs[1]:  # (t e^{−γt} − φ)/(γ+jω)
            part = _divide(time * torch.exp(-damping) - real, -imag, decay, frequency)
            if near.exists:
                part = near.put(part, (slope_real - t * value_real, slope_imag - t * value_imag))
            grad_decay = (grad_real * part[0] + grad_imag * part[1]).sum_to_size(decay.shape)
        if needs[2]:  # j(t e^{jωt} − φ)/(γ+jω)
            part = _divide(time * cosine - real, time * sine - imag, decay, frequency)
            if near.exists:
                part = near.put(part, (slope_real, slope_imag))
            grad_frequency = grad_imag * part[0] - grad_real * part[1]
            grad_frequency = grad_frequency.sum_to_size(frequency.shape)
        return grad_time, grad_decay, grad_frequency


class _NearZero:
    """The elements with small |z|, gathered where they are few, all of them where they are many."""

    def __init__(self, damping: Tensor, phase: Tensor) -> None:
        self.mask = damping.square() + phase.square() < _SERIES_RADIUS**2
        count = int(self.mask.sum())
        self.exists = count > 0
        self.index = None
        if self.exists and count < _FEW * self.mask.numel():
            self.index = self.mask.nonzero(as_tuple=True)
        self.n_terms = _SERIES_TERMS[phase.dtype]

    def take(self, *items: Tensor) -> tuple[Tensor, ...]:
        """Values at these elements."""
        if self.index is None:
            return items
        return tuple(item.expand(self.mask.shape)[self.index] for item in items)

    def put(self, targets: tuple[Tensor, ...], values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Targets with these elements replaced."""
        pairs = zip(targets, values, strict=True)
        if self.index is None:
            return tuple(torch.where(self.mask, value, target) for target, value in pairs)
        return tuple(target.index_put(self.index, value) for target, value in pairs)


def _divide(real: Tensor, imag: Tensor, decay: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    """(real + j·imag)/(γ + jω)."""
    size = decay.square() + frequency.square()
    return (decay * real + frequency * imag) / size, (decay * imag - frequency * real) / size


def stationary_response(time: Tensor, decay: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    """Response e^{jωt}/(γ+jω) of a system that has been running for ever (lower limit −∞)."""
    phase = frequency * time
    return _divide(torch.cos(phase), torch.sin(phase), decay, frequency)


# E(z) = (e^z − 1)/z = Σ z^k/(k+1)!, and its derivative.
_VALUE_COEFFICIENTS = [1 / math.factorial(k + 1) for k in range(12)]
_SLOPE_COEFFICIENTS = [(k + 1) / math.factorial(k + 2) for k in range(12)]


def _series(
    real: Tensor, imag: Tensor, n_terms: int, coefficients: list[float]
) -> tuple[Tensor, Tensor]:
    """The first terms of a power series in z = real + j·imag, by Horner's rule."""
    *lower, highest = coefficients[:n_terms]
    sum_real, sum_imag = torch.full_like(real, highest), torch.zeros_like(imag)
    for coefficient in reversed(lower):
        sum_real, sum_imag = (
            real * sum_real - imag * sum_imag + coefficient,
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
