r"""The first-order response and its gradients, against references that share no code with it.

Errors are measured in units of the largest value that can occur nearby, so that a zero of the
response does not count as a loss of digits. With p = γ + jω and
scale = min(|t|, 2/|p|)·max(1, e^{−γt}):

==========  ====================================================
quantity    unit
==========  ====================================================
φ           scale
∂φ/∂t       max(1, e^{−γt})
∂φ/∂γ       |t|·scale
∂φ/∂ω       |t|·scale
==========  ====================================================

Inputs of float32 tests are rounded to float32 first: the reference sees the same numbers. A phase
ωt cannot be better than its own rounding, hence the term 4·eps·|ωt| wherever phases are long. One
smallest normal number is allowed on top: t² underflows before t does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from torch import Tensor
from torch.autograd import gradcheck

from deeplfm.features import (
    ArcCosine,
    ArcCosine2,
    ExponentiatedQuadratic,
    FeatureMap,
    FirstOrder,
)
from deeplfm.features.harmonic import harmonic_sum
from deeplfm.features.response import response_coefficients

Array = NDArray[np.floating]
ComplexArray = NDArray[np.complexfloating]

N_POINTS = 100_000
LONGEST_PHASE = 1e5  # radians; beyond it the rounding of ωt alone nears 1e-10 in float64
needs_extended_precision = pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="longdouble is no wider than double here"
)
both_precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def first_order_response(
    time: Tensor, decay: Tensor, frequency: Tensor, lower_limit: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The response at single points: every point is a sample with a column of its own."""
    shape = torch.broadcast_shapes(time.shape, decay.shape, frequency.shape)
    time, decay, frequency = (
        item.expand(shape).reshape(-1, 1, 1) for item in (time, decay, frequency)
    )  # S 1 1
    column = frequency.unsqueeze(-1)
    polynomial = decay.unsqueeze(-1)
    found = response_coefficients(
        polynomial, column, torch.ones_like(column), time.detach().abs()[:, 0], lower_limit
    )
    parts: list[Tensor | None] = [None, None]
    if found.gain_real.shape[-2]:
        rows = FirstOrder(1, 1, 1).transients(time[:, None], found).flatten(2).mT  # S 1 L
        parts = [(rows @ gain[:, 0])[:, None] for gain in (found.gain_real, found.gain_imag)]
    waves = found.frequency[:, 0], found.amplitude[:, 0], found.phase[:, 0]
    parts = list(harmonic_sum(time[..., None, None], *waves, *parts))
    return parts[0].reshape(shape), parts[1].reshape(shape)


class Response(NamedTuple):
    """φ with its three derivatives, or their errors, or their units."""

    value: NDArray
    by_time: NDArray
    by_decay: NDArray
    by_frequency: NDArray


# --- points ---------------------------------------------------------------------------------------


def log_uniform(rng: np.random.Generator, low: float, high: float, size: int) -> Array:
    return np.exp(rng.uniform(math.log(low), math.log(high), size))


def limited(time: Array, decay: Array, frequency: Array, longest: float) -> Array:
    """Times shortened until e^{−γt} and the phase stay within bounds."""
    with np.errstate(divide="ignore"):
        time = np.sign(time) * np.minimum(np.abs(time), longest / np.abs(frequency))
        return np.maximum(time, -30 / decay)


def points(longest: float = LONGEST_PHASE) -> tuple[Array, Array, Array]:
    """Times, decays and frequencies: corners, |z| around 0.25, and all magnitudes."""
    rng = np.random.default_rng(1)
    corners = np.meshgrid(
        [0.0, 1e-300, -1e-300, 1e-12, -1e-12, 1e-3, -1e-3, 1.0, -1.0, 20.0, -20.0],
        [0.0, 1e-300, 1e-12, 1e-3, 1.0, 1.5, 100.0],
        [0.0, 1e-300, -1e-300, 1e-12, 1e-3, -1.0, 1.0, 2 * math.pi, 1e3, 1e6, -1e6],
    )
    corner_time, corner_decay, corner_frequency = (axis.ravel() for axis in corners)

    n_near = 20_000
    near_time = log_uniform(rng, 1e-3, 1e3, n_near) * rng.choice([-1, 1], n_near)
    near_size = log_uniform(rng, 0.02, 2.0, n_near) / np.abs(near_time)
    angle = rng.uniform(-math.pi / 2, math.pi / 2, n_near)

    n_wide = N_POINTS - n_near - corner_time.size
    wide_time = log_uniform(rng, 1e-8, 1e2, n_wide) * rng.choice([-1, 1], n_wide)
    wide_decay = log_uniform(rng, 1e-8, 1e3, n_wide) * rng.choice([0, 1, 1, 1], n_wide)
    wide_frequency = log_uniform(rng, 1e-4, 1e6, n_wide) * rng.choice([-1, 0, 1, 1], n_wide)

    time = np.concatenate([corner_time, near_time, wide_time])
    decay = np.concatenate([corner_decay, near_size * np.cos(angle), wide_decay])
    frequency = np.concatenate([corner_frequency, near_size * np.sin(angle), wide_frequency])
    return limited(time, decay, frequency, longest), decay, frequency


def as_tensors(dtype: torch.dtype, *arrays: Array) -> list[Tensor]:
    return [torch.tensor(array).to(dtype).requires_grad_() for array in arrays]


# --- reference in extended precision --------------------------------------------------------------


def exp_moment(z: ComplexArray, order: int) -> ComplexArray:
    """∫₀¹ v^order e^{zv} dv for |z| < 1, by 30 terms of its series."""
    total = np.zeros_like(z)
    for k in range(29, -1, -1):
        total = total * z / (k + 1) + np.longdouble(1) / (k + order + 1)
    return total


def reference(time: Array, decay: Array, frequency: Array) -> Response:
    """φ and its derivatives in extended precision: series for |z| < 1, closed forms beyond."""
    t, g, w = (np.asarray(item).astype(np.longdouble) for item in (time, decay, frequency))
    rate = g + 1j * w
    z = rate * t
    wave = np.cos(w * t) + 1j * np.sin(w * t)
    free = np.exp(-g * t)

    small = np.abs(z) < 1
    rate = np.where(small, 1, rate)
    inner = np.where(small, z, 0)
    value = np.where(small, t * wave * exp_moment(-inner, 0), (wave - free) / rate)
    by_decay = np.where(small, -(t**2) * wave * exp_moment(-inner, 1), (t * free - value) / rate)
    by_frequency = 1j * np.where(
        small, t**2 * free * exp_moment(inner, 1), (t * wave - value) / rate
    )
    return Response(value, wave - g * value, by_decay, by_frequency)


def units(time: Array, decay: Array, frequency: Array) -> Response:
    t, g, w = (np.asarray(item).astype(np.longdouble) for item in (time, decay, frequency))
    growth = np.maximum(1, np.exp(-g * t))
    with np.errstate(divide="ignore"):
        scale = np.minimum(np.abs(t), 2 / np.hypot(g, w)) * growth
    return Response(scale, growth, np.abs(t) * scale, np.abs(t) * scale)


def arrays(*tensors: Tensor) -> list[Array]:
    return [tensor.detach().numpy().astype(np.longdouble) for tensor in tensors]


def computed(
    real: Tensor, imag: Tensor, time: Tensor, decay: Tensor, frequency: Tensor
) -> Response:
    """Values and gradients of elementwise responses, as complex numbers."""
    inputs = (time, decay, frequency)
    real_gradients = torch.autograd.grad(real.sum(), inputs, retain_graph=True)
    imag_gradients = torch.autograd.grad(imag.sum(), inputs, retain_graph=True)
    return Response(
        *(
            re + 1j * im
            for re, im in zip(
                arrays(real, *real_gradients), arrays(imag, *imag_gradients), strict=True
            )
        )
    )


def assert_close(
    result: Response, expected: Response, unit: Response, tolerance: Array | float, floor: float
) -> None:
    for name in Response._fields:
        found, wanted, scale = (getattr(item, name) for item in (result, expected, unit))
        excess = np.abs(found - wanted) - tolerance * scale - floor
        worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        assert excess.flat[worst] <= 0, (
            f"{name}: point {worst}: {found.flat[worst]} instead of {wanted.flat[worst]}, "
            f"unit {scale.flat[worst]}"
        )


def tolerance_of(dtype: torch.dtype, phase: Array) -> Array | float:
    if dtype == torch.float64:
        return 1e-10
    return 1e-5 + 4 * torch.finfo(dtype).eps * np.abs(phase)


@needs_extended_precision
def test_extended_precision_reference_agrees_with_mpmath() -> None:
    """φ = t·e^{−γt}·₁F₁(1; 2; z) with 40 digits; derivatives by ₁F₁(2; 3; ±z)."""
    chosen = np.random.default_rng(2).choice(N_POINTS, 500, replace=False)
    time, decay, frequency = (item[chosen] for item in points())

    def exact(t: float, g: float, w: float) -> list[np.clongdouble]:
        t, g, w = mpmath.mpf(t), mpmath.mpf(g), mpmath.mpf(w)
        z = (g + 1j * w) * t
        wave, free = mpmath.exp(1j * w * t), mpmath.exp(-g * t)
        value = t * free * mpmath.hyp1f1(1, 2, z)
        by_decay = -(t**2) * wave * mpmath.hyp1f1(2, 3, -z) / 2
        by_frequency = 1j * t**2 * free * mpmath.hyp1f1(2, 3, z) / 2
        return [
            np.longdouble(mpmath.nstr(item.real, 25))
            + 1j * np.longdouble(mpmath.nstr(item.imag, 25))
            for item in map(mpmath.mpc, (value, wave - g * value, by_decay, by_frequency))
        ]

    with mpmath.workdps(40):
        expected = Response(*np.array(list(map(exact, time, decay, frequency))).T)
    result, unit = reference(time, decay, frequency), units(time, decay, frequency)
    assert_close(result, expected, unit, 1e-13, floor=0.0)


# --- the response itself --------------------------------------------------------------------------


@needs_extended_precision
@both_precisions
def test_response_and_gradients_agree_with_extended_precision(dtype: torch.dtype) -> None:
    tensors = as_tensors(dtype, *points())
    exact_inputs = arrays(*tensors)
    time, _, frequency = exact_inputs
    assert_close(
        computed(*first_order_response(*tensors), *tensors),
        reference(*exact_inputs),
        units(*exact_inputs),
        tolerance_of(dtype, frequency * time),
        floor=torch.finfo(dtype).tiny,
    )


@needs_extended_precision
def test_long_phases_lose_only_their_own_rounding() -> None:
    tensors = as_tensors(torch.float64, *points(longest=1e8))
    exact_inputs = arrays(*tensors)
    phase = np.abs(exact_inputs[0] * exact_inputs[2])
    assert phase.max() > 5e7
    assert_close(
        computed(*first_order_response(*tensors), *tensors),
        reference(*exact_inputs),
        units(*exact_inputs),
        1e-10 + 4 * np.finfo(float).eps * phase,
        floor=np.finfo(float).tiny,
    )


def quadrature(time: float, decay: float, frequency: float, lower: float, power: int) -> complex:
    """∫ (t − τ)^power e^{−γ(t−τ)} e^{jωτ} dτ from the lower limit to t, by adaptive quadrature."""
    span = time - lower

    def integrand(part: float) -> complex:
        lag = span * part
        return part**power * np.exp(-decay * lag + 1j * frequency * (time - lag))

    accuracy = 1e-14 * max(1.0, math.exp(-decay * span))
    value, _ = quad(integrand, 0, 1, complex_func=True, epsabs=accuracy, epsrel=1e-12, limit=500)
    return span ** (power + 1) * value


@both_precisions
def test_response_and_gradients_agree_with_quadrature(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    n_points = 1000
    time = log_uniform(rng, 1e-3, 10.0, n_points) * rng.choice([-1, 1], n_points)
    decay = log_uniform(rng, 1e-3, 10.0, n_points) * rng.choice([0, 1, 1, 1], n_points)
    frequency = log_uniform(rng, 1e-3, 1e2, n_points) * rng.choice([-1, 0, 1, 1], n_points)
    time[:5] = 0.0
    tensors = as_tensors(dtype, limited(time, decay, frequency, 50.0), decay, frequency)
    exact_inputs = [tensor.detach().double().numpy() for tensor in tensors]
    time, decay, frequency = exact_inputs

    value, lagged = (
        np.array([quadrature(*point, 0.0, power) for point in zip(*exact_inputs, strict=True)])
        for power in (0, 1)
    )
    expected = Response(
        value, np.exp(1j * frequency * time) - decay * value, -lagged, 1j * (time * value - lagged)
    )
    assert_close(
        computed(*first_order_response(*tensors), *tensors),
        expected,
        units(*exact_inputs),
        tolerance_of(dtype, frequency * time),
        floor=0.0,
    )


def test_limit_without_decay_and_frequency_is_exact() -> None:
    """At z = 0: φ = t, ∂φ/∂t = 1, ∂φ/∂γ = −t²/2, ∂φ/∂ω = jt²/2, to the last digit."""
    time = torch.tensor([0.0, 1e-9, 3.0, -3.0, 1e4], dtype=torch.float64, requires_grad=True)
    zero = [torch.zeros(5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    result = computed(*first_order_response(time, *zero), time, *zero)
    (t,) = arrays(time)
    np.testing.assert_array_equal(result.value, t)
    np.testing.assert_array_equal(result.by_time, np.ones(5))
    np.testing.assert_array_equal(result.by_decay, -(time.detach() ** 2).numpy() / 2)
    np.testing.assert_array_equal(result.by_frequency, 1j * (time.detach() ** 2).numpy() / 2)


# --- other lower limits ---------------------------------------------------------------------------


def first_order_map(decays: Array, dtype: torch.dtype, lower_limit: float) -> FirstOrder:
    """A map with one force, one frequency, unit sensitivity, and one decay per group."""
    features = FirstOrder(1, 1, 1, n_groups=len(decays), lower_limit=lower_limit).to(dtype)
    with torch.no_grad():
        features.log_decay.copy_(torch.tensor(decays).log()[:, None])
    return features


@needs_extended_precision
@both_precisions
@pytest.mark.parametrize("lower_limit", [-1.5, 0.75, 40.0])
def test_lower_limit_shifts_the_response(lower_limit: float, dtype: torch.dtype) -> None:
    """φ_a(t) = e^{jωa} φ(t − a); units of ∂φ/∂ω with |t − a| + |a| for |t|, phases likewise."""
    rng = np.random.default_rng(4)
    decays, n_rows = np.array([0.0, 1e-9, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0]), 10_000
    frequency = log_uniform(rng, 1e-9, 1e3, n_rows) * rng.choice([-1, 0, 1, 1], n_rows)
    lag = log_uniform(rng, 1e-6, 50.0, n_rows)
    lag = np.where(rng.random(n_rows) < 0.3, -np.minimum(lag, 30 / decays.max()), lag)
    lag[:10] = 0.0

    features = first_order_map(decays, dtype, lower_limit)
    x, omega = as_tensors(dtype, lag + lower_limit, frequency)
    columns = features(
        x[:, None, None], omega[:, None, None, None, None], torch.ones(1, dtype=dtype)
    )  # S G 1 2
    assert columns.shape == (n_rows, len(decays), 1, 2)

    t, w = arrays(x, omega)
    shift = np.exp(1j * w * np.longdouble(lower_limit))
    reach = np.abs(t - lower_limit) + abs(lower_limit)
    for group, decay in enumerate(arrays(features.decay)[0][:, 0]):
        inputs = (t - np.longdouble(lower_limit), np.full_like(t, decay), w)
        plain, unit = reference(*inputs), units(*inputs)
        by_frequency = plain.by_frequency + 1j * lower_limit * plain.value
        real, imag = columns[:, group, 0].unbind(-1)
        found = computed(real, imag, x, features.log_decay, omega)
        tolerance = tolerance_of(dtype, w * reach)
        assert_close(
            found._replace(by_decay=plain.by_decay),
            Response(
                shift * plain.value, shift * plain.by_time, plain.by_decay, shift * by_frequency
            ),
            unit._replace(by_frequency=reach * unit.value),
            tolerance,
            floor=torch.finfo(dtype).tiny,
        )
        error = np.abs(found.by_decay[group, 0] - decay * (shift * plain.by_decay).sum())
        assert error <= (tolerance * decay * unit.by_decay).sum()  # log_decay collects all rows


@needs_extended_precision
@both_precisions
def test_stationary_response_agrees_with_extended_precision(dtype: torch.dtype) -> None:
    """Units: φ 1/|p|, ∂t 1, ∂γ 1/|p|², ∂ω (|t| + 1/|p|)/|p|; no e^{−γt}, so any t and γ > 0."""
    rng = np.random.default_rng(5)
    decay = log_uniform(rng, 1e-6, 1e3, N_POINTS)
    frequency = log_uniform(rng, 1e-9, 1e6, N_POINTS) * rng.choice([-1, 0, 1, 1], N_POINTS)
    time = log_uniform(rng, 1e-9, 1e2, N_POINTS) * rng.choice([-1, 0, 1, 1], N_POINTS)
    with np.errstate(divide="ignore"):
        time = np.clip(time, -LONGEST_PHASE / abs(frequency), LONGEST_PHASE / abs(frequency))
    tensors = as_tensors(dtype, time, decay, frequency)
    t, g, w = arrays(*tensors)
    rate = g + 1j * w
    value = (np.cos(w * t) + 1j * np.sin(w * t)) / rate
    gain = 1 / np.abs(rate)
    assert_close(
        computed(*first_order_response(*tensors, -math.inf), *tensors),
        Response(value, 1j * w * value, -value / rate, 1j * value * (t - 1 / rate)),
        Response(gain, np.ones_like(gain), gain**2, gain * (np.abs(t) + gain)),
        tolerance_of(dtype, w * t),
        floor=torch.finfo(dtype).tiny,
    )


@pytest.mark.parametrize("lower_limit", [0.0, -1.5, 0.7, -math.inf])
def test_map_is_the_convolution_from_its_lower_limit(lower_limit: float) -> None:
    """Columns against quadrature; −∞ is begun where e^{−γ(t−τ)} has fallen below 1e-17."""
    decays = np.array([0.3, 1.1, 4.0])
    time, frequency = np.array([-2.0, -0.4, 0.0, 0.9, 5.0]), np.array([-3.0, 0.0, 0.2, 11.0])
    features = first_order_map(decays, torch.float64, lower_limit)
    columns = features(
        torch.tensor(time)[:, None],
        torch.tensor(frequency).expand(3, 4)[:, None, None],
        torch.ones(4, dtype=torch.float64),
    ).detach()  # G N 2M
    for group, row, m in np.ndindex(3, 5, 4):
        decay, t, omega = decays[group], time[row], frequency[m]
        begin = t - 40 / decay if math.isinf(lower_limit) else lower_limit
        expected = quadrature(t, decay, omega, begin, 0)
        found = complex(columns[group, row, m], columns[group, row, 4 + m])
        assert abs(found - expected) <= 1e-10 * max(1.0, math.exp(-decay * (t - begin)))


# --- gradients by finite differences --------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "decay", "frequency"),
    [
        pytest.param([0.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 30.0], id="z = 0 at t = 0"),
        pytest.param([1.0, -2.0], [0.0, 0.0], [0.0, 0.0], id="z = 0 without system"),
        pytest.param([0.1, -0.1, 1e-3], [0.5, 1.0, 0.0], [1.0, -2.0, 3.0], id="series"),
        pytest.param(
            [1.3, -0.8, 4.0, 2.0], [0.7, 0.7, 0.0, 9.0], [2.1, -3.3, 5.0, 0.0], id="quotient"
        ),
        pytest.param([0.0, 0.05, 1.3], [0.7, 0.7, 0.7], [2.1, -2.1, 2.1], id="both branches"),
    ],
)
def test_gradcheck_of_the_response(
    time: list[float], decay: list[float], frequency: list[float]
) -> None:
    inputs = as_tensors(torch.float64, *map(np.array, (time, decay, frequency)))
    assert gradcheck(first_order_response, inputs)


@pytest.mark.parametrize(
    ("system", "options"),
    [
        (FirstOrder, {"extras": ("constant", "trend", "initial_state")}),
        (FirstOrder, {"lower_limit": -1.0}),
        (FirstOrder, {"lower_limit": -math.inf}),
        (ExponentiatedQuadratic, {"extras": ("constant", "trend")}),
        (ArcCosine, {}),
        (ArcCosine2, {}),
    ],
)
def test_gradcheck_of_whole_maps(system: type[FeatureMap], options: dict) -> None:
    """Gradients with respect to inputs, frequencies and every parameter."""
    generator = torch.Generator().manual_seed(6)
    features = system(2, 2, 3, n_groups=2, **options).double()
    names, parameters = zip(*features.named_parameters(), strict=True)
    for parameter in parameters:
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    x = torch.randn(4, 2, generator=generator).double()
    frequency = torch.randn(2, 2, 2, 3, generator=generator).double()
    if not issubclass(system, ArcCosine):  # a rectifier has a kink at 0, where differences fail
        x[0], frequency[..., 0] = 0.0, 0.0
    weight = torch.rand(3, generator=generator).double()

    def columns(x: Tensor, frequency: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(features, state, (x, frequency, weight))

    inputs = [x, frequency, *parameters]
    assert gradcheck(columns, [item.detach().clone().requires_grad_() for item in inputs])
