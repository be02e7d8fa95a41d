r"""Random features against exact kernels: unbiased, with an error that falls as M^(−1/2).

One run draws R independent sets of M frequencies for every M; ``n_noise`` makes them one batch.

False alarms. The mean square error of a Monte Carlo kernel is exactly V/M, so the fitted slope has
mean −½ up to O(1/R). Its standard deviation for R = 256 is 0.13/√R ≈ 0.008 for Gaussian errors of
one pair; over fresh seeds it was 0.005 to 0.009, the most for order 2, whose tails are heaviest.
The allowed 0.05 is more than five of them. Bias is held against six standard errors, at 21 pairs or
fewer. A correct program fails a test with probability below 1e-6; the seeds are fixed all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import dblquad
from scipy.special import erf
from torch import Tensor

from deeplfm.features import (
    ArcCosine,
    ArcCosine0,
    ArcCosine2,
    ExponentiatedQuadratic,
    FeatureMap,
    FirstOrder,
)
from deeplfm.variational import Frequencies

Array = NDArray[np.float64]

N_REPLICATES = 256
COUNTS = [50 * 2**k for k in range(9)]  # 50 ... 12800
DECAY, LENGTHSCALE = 0.7, 0.8
TIMES = np.array([-0.9, 0.2, 0.7, 1.3, 2.4, 4.0])
VECTORS = np.array([[1.0, 0.3, -0.5], [0.2, 1.1, 0.4], [-0.7, 0.1, 0.9], [2.0, 1.0, 0.0]])
LENGTHSCALES = np.array([0.8, 1.0, 1.5])


# --- exact kernels --------------------------------------------------------------------------------


def first_order_kernel(first: Array, second: Array) -> Array:
    """Kernel of f' + γf = u begun at 0, k_u = exp(−r²/ℓ²): the classical latent force model."""
    nu = LENGTHSCALE * DECAY / 2

    def half(later: Array, earlier: Array) -> Array:
        gap = (later - earlier) / LENGTHSCALE
        moving = np.exp(-DECAY * (later - earlier)) * (
            erf(gap - nu) + erf(earlier / LENGTHSCALE + nu)
        )
        still = np.exp(-DECAY * (later + earlier)) * (erf(later / LENGTHSCALE - nu) + erf(nu))
        return math.exp(nu**2) / (2 * DECAY) * (moving - still)

    return math.sqrt(math.pi) * LENGTHSCALE / 2 * (half(first, second) + half(second, first))


def stationary_kernel(first: Array, second: Array) -> Array:
    """The same, begun at −∞."""
    nu = LENGTHSCALE * DECAY / 2

    def half(gap: Array) -> Array:
        return np.exp(nu**2 - DECAY * gap) * (1 + erf(gap / LENGTHSCALE - nu)) / (2 * DECAY)

    gap = first - second
    return math.sqrt(math.pi) * LENGTHSCALE / 2 * (half(gap) + half(-gap))


def exponentiated_quadratic_kernel(first: Array, second: Array) -> Array:
    return np.exp(-0.5 * (((first - second) / LENGTHSCALES) ** 2).sum(-1))


def arc_cosine_kernel(order: int) -> Callable[[Array, Array], Array]:
    """(‖x‖‖x'‖)^p J_p(θ)/π, inputs measured in lengthscales."""

    def kernel(first: Array, second: Array) -> Array:
        first, second = first / LENGTHSCALES, second / LENGTHSCALES
        norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
        cosine = np.clip((first * second).sum(-1) / norms, -1, 1)
        angle, sine = np.arccos(cosine), np.sqrt(1 - cosine**2)
        angular = (
            math.pi - angle,
            sine + (math.pi - angle) * cosine,
            3 * sine * cosine + (math.pi - angle) * (1 + 2 * cosine**2),
        )[order]
        return norms**order * angular / math.pi

    return kernel


@pytest.mark.parametrize(("first", "second"), [(1.3, 0.9), (0.4, 3.0), (-0.9, 0.7), (-0.5, -0.2)])
def test_exact_first_order_kernel_is_the_double_integral(first: float, second: float) -> None:
    def integrand(b: float, a: float) -> float:
        return math.exp(-DECAY * (first - a + second - b) - ((a - b) / LENGTHSCALE) ** 2)

    expected, _ = dblquad(integrand, 0, first, 0, second)
    assert first_order_kernel(first, second) == pytest.approx(expected, rel=1e-7)


def test_stationary_kernel_is_the_limit_of_late_times() -> None:
    first, second = TIMES[:, None], TIMES
    np.testing.assert_allclose(
        first_order_kernel(first + 40, second + 40), stationary_kernel(first, second), rtol=1e-10
    )


# --- random features ------------------------------------------------------------------------------


def first_order(n_features: int, lower_limit: float = 0.0) -> FirstOrder:
    features = FirstOrder(1, 1, n_features, lower_limit=lower_limit)
    features.log_decay.data.fill_(math.log(DECAY))
    features.log_lengthscale.data.fill_(math.log(LENGTHSCALE))
    return features


def projected(system: type[FeatureMap]) -> Callable[[int], FeatureMap]:
    def build(n_features: int) -> FeatureMap:
        features = system(3, 1, n_features)
        features.log_lengthscale.data.copy_(torch.tensor(LENGTHSCALES).log()[None, :, None])
        return features

    return build


def pairs(points: Array, kernel: Callable[[Array, Array], Array]) -> Array:
    """The exact kernel for every pair, diagonal included."""
    rows, columns = np.triu_indices(len(points))
    return kernel(points[rows], points[columns])


@torch.no_grad()
def random_kernels(
    build: Callable[[int], FeatureMap], n_features: int, points: Array, seed: int
) -> Array:
    """ΦΦᵀ for every pair of points from R independent sets of frequencies."""
    features = build(n_features).double()
    generator = torch.Generator().manual_seed(seed)
    frequencies = Frequencies(
        features, "prior-fixed", n_noise=N_REPLICATES, generator=generator
    ).double()
    x = torch.tensor(points).reshape(len(points), -1)
    rows, columns = torch.triu_indices(len(points), len(points))
    omega = frequencies(features, N_REPLICATES)  # R 1 P 1 M

    def kernel(part: Tensor) -> Tensor:
        phi = features(x, part, frequencies.feature_weight)  # R 1 N K
        return (phi @ phi.mT)[:, 0, rows, columns]

    return torch.cat([kernel(part) for part in omega.split(16)]).numpy()


CASES = [
    pytest.param(first_order, TIMES, first_order_kernel, id="ode1 from 0"),
    pytest.param(
        lambda m: first_order(m, lower_limit=-1.5),
        TIMES,
        lambda first, second: first_order_kernel(first + 1.5, second + 1.5),
        id="ode1 from -1.5",
    ),
    pytest.param(
        lambda m: first_order(m, lower_limit=-math.inf),
        TIMES,
        stationary_kernel,
        id="ode1 for ever",
    ),
    pytest.param(
        projected(ExponentiatedQuadratic), VECTORS, exponentiated_quadratic_kernel, id="eq"
    ),
    pytest.param(projected(ArcCosine0), VECTORS, arc_cosine_kernel(0), id="arc0"),
    pytest.param(projected(ArcCosine), VECTORS, arc_cosine_kernel(1), id="arc1"),
    pytest.param(projected(ArcCosine2), VECTORS, arc_cosine_kernel(2), id="arc2"),
]


@pytest.mark.parametrize(("build", "points", "kernel"), CASES)
def test_random_features_converge_to_the_exact_kernel(
    build: Callable[[int], FeatureMap], points: Array, kernel: Callable[[Array, Array], Array]
) -> None:
    """Slope −½ ± 0.05 of RMS error over M in double logarithm, and no bias at any pair."""
    exact = pairs(points, kernel)
    errors = [
        random_kernels(build, n_features, points, seed=n_features) - exact for n_features in COUNTS
    ]
    rms = [np.sqrt(np.mean(error**2)) for error in errors]
    slope = np.polyfit(np.log(COUNTS), np.log(rms), 1)[0]
    assert abs(slope + 0.5) <= 0.05, f"slope {slope:.3f}, RMS errors {rms}"

    last = errors[-1]
    standard_error = last.std(0, ddof=1) / math.sqrt(N_REPLICATES)
    rounding = 1e-6 * np.abs(exact)  # M^(−1/2) is drawn up in float32
    assert np.all(np.abs(last.mean(0)) <= 6 * standard_error + rounding)


# --- nodes in place of random frequencies ---------------------------------------------------------


@pytest.fixture
def double_by_default() -> Iterator[None]:
    """Modules made meanwhile are float64 from birth: nodes converted later keep float32 digits."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(previous)


@pytest.mark.usefixtures("double_by_default")
@pytest.mark.parametrize("center", [0.0, 3.0, 25.0])
def test_nodes_carry_a_narrow_band_force(center: float) -> None:
    """Ten Gauss–Hermite nodes give cos(cr)·exp(−r²/2ℓ²) to 1e-8 up to a distance of one ℓ."""
    features = ExponentiatedQuadratic(1, 1, 10)
    features.log_lengthscale.data.fill_(math.log(LENGTHSCALE))
    features.center.data.fill_(center)
    frequencies = Frequencies(features, "nodes")
    x = torch.linspace(-1, LENGTHSCALE - 1, 41)[:, None]
    phi = features(x, frequencies(features, 1), frequencies.feature_weight)[0]
    distance = x - x.T
    expected = torch.cos(center * distance) * torch.exp(-0.5 * (distance / LENGTHSCALE) ** 2)
    torch.testing.assert_close(phi @ phi.T, expected, rtol=0, atol=1e-8)
    assert frequencies.kl(features) == 0
