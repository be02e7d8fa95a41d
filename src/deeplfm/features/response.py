r"""Responses of a linear differential equation with constant coefficients to latent forces.

A system is a subclass of :class:`Response` that gives its characteristic polynomial, its bandwidth and,
to be fast, the closed form of its free response. All else follows here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from deeplfm.errors import ConfigError
from deeplfm.features.base import Coefficients
from deeplfm.features.harmonic import HarmonicCoefficients, HarmonicMap, steady_coefficients
from deeplfm.features.resonance import RADIUS, companion, resonance, series_near_root

_NEARLY_ZERO = 1e-30  # a gain of exactly 0 gets no gradient
_WIDE_RADIUS = 0.5  # that of resonance, for jω and several roots near 0: each one loses a factor


class Response(HarmonicMap):
    r"""Random Fourier response features of P(D) f = Σ_q S_q u_q, with k_u = exp(−r²/ℓ²).

    P(D) = Dⁿ + p₁Dⁿ⁻¹ + … + p_n is the characteristic polynomial of each group and input. From rest at
    the lower limit a, a wave e^{jωt} has the response

        φ(t) = H(jω) e^{jωa} [e^{jωs} − Σ_{k<n} (jω)ᵏ h_k(s)],   s = t − a,   H = 1/P,

    where h_k is the free response whose k-th derivative is 1 at s = 0, and all others 0. Features are
    summed over inputs, as in the paper. Other arguments are those of :class:`FeatureMap`.

    Args:
        lower_limit: a, where the convolution begins. The paper's a = 0 forces f(0) = 0; −∞ is a
            system that was running long before the data.
        positive_sensitivity: S = |ρ| of the learned ρ, as in the authors' code.
    """

    spectral_variance: ClassVar[float] = 2.0
    is_additive: ClassVar[bool] = True
    has_force: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a system that lacks a part which no default can replace."""
        super().__init_subclass__(**options)
        own = (cls.polynomial is not Response.polynomial) + (
            cls.set_bandwidth is not Response.set_bandwidth
        )
        if cls.n_states < 1 or own < 2:
            raise ConfigError(
                f"features: {cls.__name__} is no complete response. Give n_states, the order of the "
                "equation (at least 1), polynomial and set_bandwidth."
            )

    def __init__(
        self,
        *sizes: Any,
        lower_limit: float = 0.0,
        positive_sensitivity: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*sizes, **options)
        self.positive_sensitivity = positive_sensitivity
        self.lower_limit = float(lower_limit)
        self.origin = self.lower_limit if math.isfinite(lower_limit) else 0.0

    @property
    def sensitivity(self) -> Float[Tensor, "G P Q"]:
        """Sensitivity S of the system to each force."""
        sensitivity = super().sensitivity
        return sensitivity.abs() if self.positive_sensitivity else sensitivity

    @property
    @abstractmethod
    def polynomial(self) -> Float[Tensor, "G P n"]:
        """p₁ … p_n, such that all roots of P have a negative real part."""

    @abstractmethod
    def set_bandwidth(self, width: float | Float[Tensor, "#G #P"]) -> None:
        """Set the parameters such that |p_n|^(1/n) is this width."""

    def free_response(
        self, time: Float[Tensor, "B P N"], polynomial: Float[Tensor, "B P n"]
    ) -> tuple[Float[Tensor, "B P N"], ...]:
        """h_0 … h_{n−1} from the matrix exponential; a closed form in a child is many times faster."""
        matrix = companion(polynomial).unsqueeze(-3) * time[..., None, None]  # B P N n n
        return torch.linalg.matrix_exp(matrix.contiguous())[..., 0, :].unbind(-1)

    @property
    def bandwidth(self) -> Float[Tensor, "G P"]:
        """|p_n|^(1/n), the geometric mean of the roots."""
        last = self.polynomial[..., -1]
        return (last.abs() ** (1 / self.n_states)).to(self.raw_sensitivity.dtype)

    def transfer(self, frequency: Float[Tensor, "*S #G #P F"]) -> Complex[Tensor, "*S G P F"]:
        """H(jω) = 1/P(jω)."""
        wave = torch.complex(torch.zeros_like(frequency), frequency)
        return 1 / _evaluate(self.polynomial.to(frequency.dtype), wave)

    @torch.no_grad()
    def growth(self, extent: Float[Tensor, " P"]) -> float:
        """Decay of the fastest root × extent; without a transient nothing grows."""
        if math.isinf(self.lower_limit) and "initial_state" not in self.extras:
            return 0.0
        decay = -torch.linalg.eigvals(companion(self.polynomial.double())).real.amin(-1)
        return float((decay * extent).amax())

    def initial_state(self, x: Float[Tensor, "*S 1 N P"]) -> Float[Tensor, "*S G N E"]:
        """Free responses to each state at the lower limit (at 0 when a = −∞)."""
        functions = self.free_response((x - self.origin).mT, self.polynomial)
        states = torch.stack([item.to(x.dtype) for item in functions], dim=-2)  # *S G P n N
        return states.flatten(-3, -2).mT

    def coefficients(
        self,
        frequency: Float[Tensor, "*S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
        extent: Float[Tensor, "*#S P"],
        inputs: slice = slice(None),
    ) -> Coefficients:
        """One term for each input dimension."""
        sensitivity = self.sensitivity
        gain = (sensitivity[..., None] * feature_weight.to(sensitivity.dtype)).flatten(-2)  # G P K
        frequency = frequency.flatten(-2)[..., inputs, :]
        return response_coefficients(
            self.polynomial[:, inputs],
            frequency.expand(*frequency.shape[:-3], self.n_groups, *frequency.shape[-2:]),
            gain[:, inputs],
            extent,
            self.lower_limit,
        )


class FirstOrder(Response):
    r"""Random Fourier response features of f' + γf = Σ_q S_q u_q (eq. 6)."""

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


def response_coefficients(
    polynomial: Float[Tensor, "G J n"],
    frequency: Float[Tensor, "*S G J K"],
    gain: Float[Tensor, "*#S G J K"],
    extent: Float[Tensor, "*#S J"],
    lower_limit: float = 0.0,
) -> HarmonicCoefficients:
    r"""Coefficients of Σ_j S_jk φ_j of :class:`Response`.

    The closed form is 0/0 where jω is a root of P, and near it wave and transient cancel. There a column
    is written as a series: of powers of s where jω and all roots are near 0, and of powers times free
    responses where jω is near one root only (resonance with little damping). Computed in float64: the
    coefficients are small, and their gradients are sums over all rows.

    Args:
        polynomial: p₁ … p_n of each term.
        frequency: ω.
        gain: S, with the weight of the feature.
        extent: largest |s| of each term.
        lower_limit: a; with −∞ the transient has died out.
    """
    dtype, order = frequency.dtype, polynomial.shape[-1]
    gain = torch.where(gain == 0, gain + _NEARLY_ZERO, gain)
    # the free responses of second and higher orders are differences, which need the digits
    kept = polynomial.double() if order > 1 else polynomial
    polynomial, frequency, gain = (item.double() for item in (polynomial, frequency, gain))
    wave = torch.complex(torch.zeros_like(frequency), frequency)  # jω
    value = _evaluate(polynomial, wave)
    if math.isinf(lower_limit):
        steady = frequency.unsqueeze(-2), gain / value.abs(), -value.angle()
        return steady_coefficients(*(item.to(dtype) for item in steady))

    with torch.no_grad():
        reach = extent.double()[..., None, :, None]  # *#S 1 J 1
        radius = torch.hypot(_root_bound(polynomial).unsqueeze(-1), frequency) * reach
        is_small = radius < (RADIUS if order == 1 else _WIDE_RADIUS)
        near = resonance(polynomial, wave, reach) if order > 1 else None
    extent = torch.where(extent > 0, extent, 1.0)  # the unit of the powers
    reach = extent.double()[..., None, :, None]
    is_far = ~is_small if near is None else ~(is_small | near[0])
    value = torch.where(is_far, value, 1.0)
    amplitude = torch.where(is_far, gain, 0.0) / value.abs()
    turn = frequency * lower_limit
    phase = turn - value.angle()
    # Whole turns are taken away while there are digits for them: the dtype may have few.
    phase = phase - 2 * math.pi * torch.round(phase.detach() / (2 * math.pi))

    states = [[-_polar(amplitude, phase)]]
    while len(states) < order:
        states.append([states[-1][0] * wave])
    turned = _polar(gain, turn) if lower_limit else gain  # S e^{jωa}
    if near is not None:
        is_near, root = near[0] & ~is_small, near[1]
        n_terms = _n_terms(RADIUS, dtype)
        by_state = series_near_root(polynomial, wave, root, reach, is_near, n_terms)
        for state, (first, *others) in zip(states, by_state, strict=True):
            state[0] = state[0] + turned * first
            state.extend(turned * item for item in others)
    powers = []
    if bool(is_small.any()):
        n_terms = _n_terms(float(radius[is_small].max()), dtype)
        series = _series_near_zero(polynomial, wave, reach, is_small, n_terms)
        powers = [turned * item for item in series]
    gains = torch.cat([item for state in states for item in state] + powers, dim=-2)
    samples = frequency.shape[:-3]
    orders = torch.tensor([len(states[0]) - 1, len(powers)])
    return HarmonicCoefficients(
        frequency.unsqueeze(-2).to(dtype),
        amplitude.to(dtype),
        phase.to(dtype),
        gains.real.to(dtype),
        gains.imag.to(dtype),
        kept.expand(*samples, -1, -1, -1),
        extent.expand(*samples, -1).to(dtype),
        orders.expand(*samples, -1),
    )


def _series_near_zero(
    polynomial: Tensor, wave: Tensor, reach: Tensor, is_small: Tensor, n_terms: int
) -> list[Complex[Tensor, "*S G J K"]]:
    r"""Gains of (s/e)^{n+i}, i = 0, 1, …: the homogeneous polynomials of jω and all roots over (n+i)!.

    Their generating function is 1/((1 − jωz)(1 + p₁z + … + p_n zⁿ)), so that no root is needed.
    """
    order = polynomial.shape[-1]
    wave = torch.where(is_small, wave, 0.0)
    factors = [torch.where(is_small, item.unsqueeze(-1), 0.0) for item in polynomial.unbind(-1)]
    of_roots = [torch.ones_like(wave.real)]
    scale = torch.where(is_small, reach**order / math.factorial(order), 0.0)
    total, found = torch.ones_like(wave), []
    for i in range(n_terms):
        found.append(scale * total)
        before = zip(factors, reversed(of_roots), strict=False)
        of_roots.append(-sum((factor * item for factor, item in before), start=0.0 * wave.real))
        total = of_roots[-1] + wave * total
        scale = scale * reach / (order + i + 1)
    return found


def _polar(size: Tensor, angle: Tensor) -> Tensor:
    """Size × e^{j angle}; the gradient of ``torch.polar`` has the wrong sign for a negative size."""
    return torch.complex(size * angle.cos(), size * angle.sin())


def _n_terms(radius: float, dtype: torch.dtype) -> int:
    """Terms of Σ zⁿ⁻¹/n! whose derivatives, 2n|z|ⁿ⁻¹/(n+1)! beside the first, a dtype resolves."""
    n, last = 2, 2 * radius / 3
    while last > 8 * torch.finfo(dtype).eps:
        n += 1
        last *= radius * n / ((n - 1) * (n + 1))
    return n


def _evaluate(
    polynomial: Float[Tensor, "G J n"], at: Complex[Tensor, "*S #G #J K"]
) -> Complex[Tensor, "*S G J K"]:
    """P at complex numbers."""
    value = torch.ones_like(at)
    for factor in polynomial.unbind(-1):
        value = value * at + factor.unsqueeze(-1)
    return value


def _root_bound(polynomial: Float[Tensor, "G J n"]) -> Float[Tensor, "G J"]:
    """Fujiwara's bound of the absolute values of all roots; of a single root, its own."""
    sizes = [item.abs() for item in polynomial.unbind(-1)]
    sizes[-1] = sizes[-1] / 2
    parts = [size ** (1 / (i + 1)) for i, size in enumerate(sizes)]
    return 2 * torch.stack(parts).amax(0)
