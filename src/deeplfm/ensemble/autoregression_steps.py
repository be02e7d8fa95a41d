r"""Steps of an autoregression: known rows on an even grid, priors by evidence, simulated paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy.interpolate import PchipInterpolator
from torch import Tensor
from torch.nn.functional import normalize

from deeplfm.layers import Layer

_LENGTHSCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # times the root of the number of lagged values
_SLOPES = (1.0, 10.0)  # scale of the linear part over that of the rest
_OTHERS = (1e-3, 0.1, 1.0)  # scale of other outputs' lags over that of an output's own
_FADINGS = (0.0, 0.5, 1.0)  # powers of a lag that its scale falls with
_NOISES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)  # variance over that of the function
LEAST_SQUARE = 1e-8  # in standardised units

Name = TypeVar("Name")
Step = Callable[[Tensor], Tensor]  # lagged values of each path, S P → increment of its last, S D


def completed(step: Int64[Tensor, " N"], values: Float[Tensor, "N D"]) -> Float[Tensor, "R D"]:
    """Values of all steps up to the last: between known ones monotone, beyond them constant."""
    filled = values.new_full((int(step[-1]) + 1, values.shape[1]), torch.nan)
    filled[step] = values
    for column in filled.T:
        is_known = ~column.isnan().cpu().numpy()
        known = np.flatnonzero(is_known)
        if len(known) == len(filled):
            continue
        missing = np.flatnonzero(~is_known).clip(known[0], known[-1])
        at_known = column[known].cpu().double().numpy()
        between = PchipInterpolator(known, at_known)(missing) if len(known) > 1 else at_known
        column[torch.as_tensor(~is_known)] = torch.as_tensor(between).to(column)
    return filled


def in_long_gaps(
    step: Int64[Tensor, " N"], values: Float[Tensor, "N D"], longest: int
) -> Bool[Tensor, "R D"]:
    """Whether the value of a step is missing together with more than so many in a row.

    >>> in_long_gaps(torch.tensor([0, 1, 3, 6]), torch.ones(4, 1), 1)[:, 0].nonzero()[:, 0]
    tensor([4, 5])
    """
    n_steps = int(step[-1]) + 1
    is_known = values.new_zeros((n_steps, values.shape[1]), dtype=torch.bool)
    is_known[step] = ~values.isnan()
    place = torch.arange(n_steps, device=values.device)[:, None]
    before = torch.where(is_known, place, -1).cummax(0).values
    after = torch.where(is_known, place, n_steps).flip(0).cummin(0).values.flip(0)
    return after - before - 1 > longest


def interpolate(
    place: Float[Tensor, " N"], first: Float[Tensor, "S R D"], then: Float[Tensor, "S H D"]
) -> Float[Tensor, "S N D"]:
    """Values by cubic interpolation, from those of a grid in two parts.

    Before the first step, and after the last but one, beyond which a cubic needs another, it is constant.
    """
    n_first, n_all = first.shape[1], first.shape[1] + then.shape[1]
    place = place.clamp(0, max(n_all - 2, 0))
    floor = place.floor()
    total = first.new_zeros(())
    for offset, weight in enumerate(_cubic((place - floor)[:, None]), -1):
        index = (floor.long() + offset).clamp(0, n_all - 1)
        value = first[:, index.clamp(max=n_first - 1)]
        if n_all > n_first:
            later = then[:, (index - n_first).clamp(min=0)]
            value = later.where((index >= n_first)[:, None], value)
        total = total + weight * value
    return total


def _cubic(part: Float[Tensor, "N 1"]) -> tuple[Float[Tensor, "N 1"], ...]:
    """Weights of the steps −1, 0, 1 and 2 at a part of the way from 0 to 1 (Catmull and Rom)."""
    rest = 1 - part
    return (
        -0.5 * part * rest**2,
        rest * (1 + part - 1.5 * part**2),
        part * (1 + rest - 1.5 * rest**2),
        -0.5 * rest * part**2,
    )


class StepPrior(NamedTuple):
    """Prior of one step of an output."""

    lengthscale: float
    scale: float
    slope_scale: Float[Tensor, " P"]
    level_scale: float
    noise_variance: float


def nonlinear_priors(
    lags: Float[Tensor, "N P"], increment: Float[Tensor, "N D"]
) -> list[StepPrior]:
    """Scales and noise of a nonlinear function for each output, with the highest evidence on a grid."""
    lags, increment = lags.double(), increment.double()
    n_inputs = lags.shape[1]
    root = math.sqrt(n_inputs)
    distance = torch.cdist(lags, lags).square()
    linear = lags @ lags.mT / n_inputs + 1
    kernels = (
        ((length, slope), torch.exp(-0.5 * distance / (length * root) ** 2) + slope**2 * linear)
        for length, slope in product(_LENGTHSCALES, _SLOPES)
    )
    priors = []
    for (length, slope), variance, noise in _by_evidence(kernels, increment):
        scale = math.sqrt(variance)
        slopes = lags.new_full((n_inputs,), slope * scale / root)
        priors.append(StepPrior(length * root, scale, slopes, slope * scale, noise))
    return priors


def linear_priors(lags: Float[Tensor, "N P"], increment: Float[Tensor, "N D"]) -> list[StepPrior]:
    """Scales and noise of a linear function for each output, with the highest evidence on a grid.

    Lags of other outputs may matter less than an output's own, and old values less than new ones.
    """
    lags, increment = lags.double(), increment.double()
    n_outputs = increment.shape[1]
    age = torch.arange(1, lags.shape[1] // n_outputs + 1).to(lags)[:, None]
    priors = []
    for d in range(n_outputs):
        is_own = torch.arange(n_outputs, device=lags.device) == d
        slopes = [
            normalize((age**-fading * torch.where(is_own, 1.0, others)).flatten(), dim=0)
            for others, fading in product(_OTHERS[: 1 if n_outputs == 1 else None], _FADINGS)
        ]
        kernels = ((slope, (lags * slope**2) @ lags.mT + 1) for slope in slopes)
        ((slope, variance, noise),) = _by_evidence(kernels, increment[:, d : d + 1])
        scale = math.sqrt(variance)
        priors.append(StepPrior(1.0, scale, slope * scale, scale, noise))
    return priors


def _by_evidence(
    kernels: Iterable[tuple[Name, Float[Tensor, "N N"]]], target: Float[Tensor, "N D"]
) -> list[tuple[Name, float, float]]:
    """For each target the kernel with the highest evidence, its variance and that of the noise.

    Given the ratio of noise and function, the best overall scale is known in closed form:
    q = yᵀK⁻¹y/N.
    """
    evidence, found = [], []
    for name, kernel in kernels:
        power, basis = torch.linalg.eigh(kernel)
        square = (basis.mT @ target).square()
        for noise in _NOISES:
            spread = power.clamp_min(0) + noise
            best = (square / spread[:, None]).mean(0).clamp_min(LEAST_SQUARE**2)
            evidence.append(-0.5 * (spread.log().sum() + len(target) * best.log()))
            found.append((name, best, noise))
    chosen = [found[index] for index in torch.stack(evidence).argmax(0).tolist()]
    return [
        (name, float(best[d]), noise * float(best[d]))
        for d, (name, best, noise) in enumerate(chosen)
    ]


def draw_weights(
    layer: Layer, n_paths: int, generator: torch.Generator | None = None
) -> Float[Tensor, "S D K"]:
    """Weights of paths; without a generator all at their mean."""
    if generator is None:
        weights = layer.weights.mean.expand(n_paths, -1, -1, -1)
    else:
        weights = layer.weights.draw(layer.path_noise(n_paths, generator))
    return weights.movedim(-1, -2).flatten(1, 2)  # S G·U K


def step_function(layer: Layer, weights: Float[Tensor, "S D K"]) -> Step:
    """The step of a layer whose inputs are lags, with weights of its own for each path."""
    features = layer.blocks[0].features

    def nonlinear(lags: Float[Tensor, "S P"]) -> Float[Tensor, "S D"]:
        columns = torch.cat(list(layer.features(lags, 1).whole()), dim=-1)  # G S K
        columns = columns.expand(weights.shape[1], -1, -1).to(weights.dtype)
        return torch.einsum("dsk,sdk->sd", columns, weights).to(lags.dtype)

    if len(layer.blocks) > 1 or features.n_features or features.extras != ("constant", "trend"):
        return nonlinear
    scaled = weights * features.log_extra_scale.exp()  # columns are one, and the lags
    level, slope = scaled[..., :1], scaled[..., 1:]

    def linear(lags: Float[Tensor, "S P"]) -> Float[Tensor, "S D"]:
        found = torch.baddbmm(level, slope, lags.to(slope.dtype).unsqueeze(-1))
        return found.squeeze(-1).to(lags.dtype)

    return linear


def roll_out(
    step: Step,
    lags: Float[Tensor, "S P"],
    n_steps: int,
    limit: tuple[Float[Tensor, " D"], Float[Tensor, " D"]],
    noise_scale: Float[Tensor, " D"],
    generator: torch.Generator | None = None,
) -> Float[Tensor, "H S D"]:
    """Values of each path, before the process noise of each step."""
    n_paths, n_outputs = len(lags), len(noise_scale)
    values = lags.new_empty(n_steps, n_paths, n_outputs)
    past = torch.cat([lags.new_empty(n_paths, n_steps * n_outputs), lags], dim=1)
    for n in range(n_steps):
        start = (n_steps - n) * n_outputs  # of the latest row; the next comes before it
        recent = past[:, start : start + lags.shape[1]]
        value = (recent[:, :n_outputs] + step(recent)).clamp(*limit)
        values[n] = value
        if generator is not None:
            noise = torch.randn(
                value.shape, generator=generator, dtype=value.dtype, device=value.device
            )
            value = value + noise_scale * noise
        past[:, start - n_outputs : start] = value
    return values
