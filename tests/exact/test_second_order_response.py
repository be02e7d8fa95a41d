"""The response of f'' + 2ζω₀f' + ω₀²f = u against quadrature and against many digits.

Over all damping ratios, through critical damping and resonance, for systems so slow that the response is
a parabola, before and after the lower limit; values and gradients, in both precisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from deeplfm.features import SecondOrder

mpmath.mp.dps = 60


def system(
    natural: float, damping: float, lower_limit: float = 0.0, dtype: torch.dtype = torch.float64
) -> SecondOrder:
    """One force, one feature, sensitivity 1."""
    features = SecondOrder(1, 1, 1, lower_limit=lower_limit).to(dtype)
    features.log_natural_frequency.data.fill_(math.log(natural))
    features.log_damping.data.fill_(math.log(damping))
    return features


def response(features: SecondOrder, time: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    """Re φ and Im φ at every time; all times share the coefficients."""
    columns = features(time[:, None], frequency.to(time).view(1, 1, 1, 1), torch.ones(1))
    return columns[0, :, 0], columns[0, :, 1]


# --- quadrature -----------------------------------------------------------------------------------

DAMPING = {"under": 0.2, "critical": 1.0, "nearly critical": 1.0 + 1e-9, "over": 3.0}


def green(natural: float, damping: float) -> Callable[[float], float]:
    """Response to an impulse, case by case."""
    alpha, delta = damping * natural, natural**2 * (1 - damping**2)
    if abs(delta) < 1e-6:
        return lambda s: s * math.exp(-alpha * s)
    root = math.sqrt(abs(delta))
    if delta > 0:
        return lambda s: math.exp(-alpha * s) * math.sin(root * s) / root
    return lambda s: math.exp(-alpha * s) * math.sinh(root * s) / root


@pytest.mark.parametrize("damping", DAMPING.values(), ids=DAMPING)
@pytest.mark.parametrize("lower_limit", [0.0, -1.5])
@pytest.mark.parametrize("time", [1.7, -0.6])
def test_response_is_the_convolution_with_the_impulse_response(
    damping: float, lower_limit: float, time: float
) -> None:
    natural, frequency = 1.6, 1.9
    impulse = green(natural, damping)
    parts = response(
        system(natural, damping, lower_limit),
        torch.tensor([time], dtype=torch.float64),
        torch.tensor(frequency),
    )
    for found, wave in zip(parts, (math.cos, math.sin), strict=True):
        expected, _ = quad(
            lambda s, wave=wave: impulse(time - s) * wave(frequency * s), lower_limit, time
        )
        assert found.item() == pytest.approx(expected, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("damping", DAMPING.values(), ids=DAMPING)
def test_a_system_begun_long_ago_has_forgotten_its_start(damping: float) -> None:
    time, frequency = torch.linspace(-1, 2, 5).double(), torch.tensor(1.9).double()
    steady = response(system(1.6, damping, -math.inf), time, frequency)
    begun = response(system(1.6, damping, -200.0), time, frequency)
    torch.testing.assert_close(steady, begun, rtol=1e-9, atol=1e-10)


# --- many digits ----------------------------------------------------------------------------------


def exact(time: float, natural: float, damping: float, frequency: float) -> mpmath.mpc:
    """φ with 60 digits, which leave enough of them where terms cancel."""
    time, natural, damping, frequency = map(mpmath.mpf, (time, natural, damping, frequency))
    alpha = damping * natural
    root = mpmath.sqrt(natural**2 - alpha**2 + mpmath.mpf(10) ** -50)
    p = alpha + 1j * frequency
    envelope = mpmath.exp(-alpha * time)
    free = envelope * (mpmath.cos(root * time) + p * mpmath.sin(root * time) / root)
    return (mpmath.exp(1j * frequency * time) - free) / (p**2 + root**2)


def slopes(*point: float) -> list[mpmath.mpc]:
    """Derivatives of φ by time, log ω₀, log ζ and frequency."""
    step = mpmath.mpf(10) ** -15
    found = []
    for index, is_log in enumerate((False, True, True, False)):
        ends = []
        for sign in (1, -1):
            moved = list(map(mpmath.mpf, point))
            moved[index] = (
                moved[index] * mpmath.exp(sign * step) if is_log else moved[index] + sign * step
            )
            ends.append(exact(*moved))
        found.append((ends[0] - ends[1]) / (2 * step))
    return found


def points() -> dict[str, list[tuple[float, float, float, float]]]:
    """Time, natural frequency, damping ratio and frequency, by kind of difficulty."""
    rng = np.random.default_rng(0)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for kind in ("any", "near critical", "resonant", "slow", "overdamped", "zero frequency"):
        found[kind] = []
        while len(found[kind]) < 25:
            time = rng.choice([-1, 1, 1, 1]) * log_uniform(0.01, 10)
            natural, damping = log_uniform(0.03, 30), log_uniform(0.01, 10)
            frequency = rng.choice([-1, 1]) * log_uniform(0.01, 50)
            if kind == "near critical":
                damping = 1 + rng.choice([0, 1e-12, 1e-6, 1e-3, -1e-12, -1e-6, -1e-3])
            elif kind == "resonant":
                damping = log_uniform(1e-6, 0.02)
                frequency = rng.choice([-1, 1]) * natural * (1 + rng.choice([0, 1e-9, 1e-4, 0.01]))
            elif kind == "slow":
                natural, frequency = log_uniform(1e-6, 0.1), log_uniform(1e-6, 0.1)
                time = log_uniform(1e-3, 5)
            elif kind == "overdamped":
                damping = log_uniform(10, 1000)
            elif kind == "zero frequency":
                frequency = rng.choice([0.0, 1e-12, 1e-4])
            fastest = natural * (damping + math.sqrt(max(0.0, damping**2 - 1)))
            if -time * fastest < 20:  # before the lower limit a transient grows exponentially
                found[kind].append((float(time), natural, float(damping), float(frequency)))
    return found


POINTS = points()


@pytest.mark.parametrize(
    ("dtype", "of_value", "of_slope"),
    [(torch.float64, 2e-12, 2e-10), (torch.float32, 2e-4, 4e-3)],
    ids=str,
)
@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_values_and_gradients_have_their_digits(
    kind: str, reach: float, dtype: torch.dtype, of_value: float, of_slope: float
) -> None:
    """In units of the largest response on the way there; ``reach``: how far other rows are away."""
    for point in POINTS[kind]:
        # what is computed is the response of the rounded arguments
        time, natural, damping, frequency = (
            torch.tensor(item, dtype=dtype).log().exp().item()
            if i in (1, 2)
            else torch.tensor(item, dtype=dtype).item()
            for i, item in enumerate(point)
        )
        features = system(natural, damping, dtype=dtype)
        natural = math.exp(features.log_natural_frequency.item())
        damping = math.exp(features.log_damping.item())
        far = abs(time) * reach  # after the lower limit, where nothing overflows
        rows = torch.tensor([time, far], dtype=dtype, requires_grad=True)
        omega = torch.tensor(frequency, dtype=dtype, requires_grad=True)
        found = response(features, rows, omega)
        leaves = [rows, features.log_natural_frequency, features.log_damping, omega]
        value = exact(time, natural, damping, frequency)
        unit = max(abs(exact(time * i / 7, natural, damping, frequency)) for i in range(1, 8))
        expected = slopes(time, natural, damping, frequency)
        rates = [1 / abs(time) + natural + abs(frequency), 1.0, 1.0, abs(time)]
        rates[1:3] = [1 + natural * abs(time) * max(1.0, damping)] * 2
        for part, name in zip(found, ("real", "imag"), strict=True):
            error = abs(part[0].item() - getattr(value, name)) / unit
            assert error < of_value * (1 + abs(frequency * time)), (point, name, float(error))
            gradients = torch.autograd.grad(part[0], leaves, retain_graph=True)
            for gradient, slope, rate in zip(gradients, expected, rates, strict=True):
                error = abs(gradient.flatten()[0].item() - getattr(slope, name)) / (unit * rate)
                assert error < of_slope * (1 + abs(frequency * time)), (point, name, float(error))


def test_gradients_pass_through_critical_damping() -> None:
    """Those of ζ = 1 are the limit of those on both sides."""
    time, frequency = torch.linspace(0.1, 5, 7).double(), torch.tensor(0.7).double()
    found = []
    for damping in (1 - 1e-7, 1.0, 1 + 1e-7):
        features = system(1.3, damping)
        value = sum(part.sum() for part in response(features, time, frequency))
        found.append(torch.stack(torch.autograd.grad(value, list(features.parameters())[-2:])))
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=0)
    torch.testing.assert_close(found[2], found[1], rtol=1e-6, atol=0)


def test_one_map_holds_all_cases_of_damping() -> None:
    """Groups and inputs that differ in kind do not disturb each other, gradients included."""
    damping = torch.tensor([[0.1, 1.0], [4.0, 1.0 + 1e-10]]).double()
    features = SecondOrder(2, 1, 3, n_groups=2, extras=("initial_state",)).double()
    features.log_damping.data.copy_(damping.log())
    features.set_bandwidth(torch.tensor([[3.0, 0.5], [20.0, 2.0]]))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 2, generator=generator).double()
    frequency = torch.randn(2, 2, 1, 3, generator=generator).double()
    together = features(x, frequency, torch.ones(3))
    total = torch.zeros_like(together[..., :6])
    for group in range(2):
        for p in range(2):
            alone = SecondOrder(1, 1, 3).double()
            alone.log_damping.data.copy_(damping[group, p].log())
            alone.set_bandwidth(features.bandwidth[group, p])
            own = alone(x[:, p : p + 1], frequency[group, p][None, None], torch.ones(3))
            total[group] += own[0]
    torch.testing.assert_close(together[..., :6], total)
    gradients = torch.autograd.grad(together.sum(), list(features.parameters())[-2:])
    assert all(gradient.isfinite().all() for gradient in gradients)
