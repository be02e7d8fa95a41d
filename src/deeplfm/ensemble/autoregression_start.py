r"""How a system depends on its own past: by the evidence of one step, and by forecasts of many.

Of two rules that foretell the next row alike, one may be useless after ten: where there is little noise,
many lags tell a derivative to many digits and multiply its error with every step. So the evidence
decides on scales and noise, and how many lags there are is decided by forecasts from many rows. A rule is
a smooth function of few lags, or a straight line through many: a linear system with a long memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import normalize

from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.rollout import draw_weights
from deeplfm.randomness import generator_for
from deeplfm.training import Rows

_LENGTHSCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # times the root of the number of lagged values
_SLOPES = (1.0, 10.0)  # scale of the straight line over that of the rest
_OTHERS = (1e-3, 0.1, 1.0)  # scale of other outputs' lags over that of an output's own
_FADINGS = (0.0, 0.5, 1.0)  # powers of a lag that its scale falls with
_NOISES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)  # variance over that of the function
_SHARES = (0.0, 0.1, 1.0)
_EVIDENCE_ROWS = 300
_LEAST = 1e-8  # mean square, in standardised units
_TAIL = 0.25
_ORIGINS, _LONGEST, _FEWEST_ERRORS = 60, 100, 5
_NOISY_ORIGINS, _NOISY_PATHS, _NOISY_LONGEST = 30, 8, 50

Name = TypeVar("Name")


class StepPrior(NamedTuple):
    """What the evidence says of one step of an output.

    Attributes:
        lengthscale: in lagged values.
        scale: standard deviation of the function.
        slope_scale: standard deviations of the weights of lagged values.
        level_scale: standard deviation of the constant.
        noise_variance: of the rest.
    """

    lengthscale: float
    scale: float
    slope_scale: Float[Tensor, " P"]
    level_scale: float
    noise_variance: float


@torch.no_grad()
def some_steps(model: Autoregression) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N D"]]:
    """Lags and increments of some rows of the record, for the evidence to judge by."""
    record = model.record
    index = _some(sure_steps(model), _EVIDENCE_ROWS)
    lags = model.lags(index)
    return lags, record[index] - lags[:, : record.shape[1]]


def sure_steps(model: Autoregression) -> Int64[Tensor, " N"]:
    """Rows of the record that are known, as are those before them that a step looks back to."""
    is_known = (model.doubt == 0).all(1)
    return (model.is_sure[:-1] & is_known).nonzero()[:, 0]


def find_steps(lags: Float[Tensor, "N P"], increment: Float[Tensor, "N D"]) -> list[StepPrior]:
    """Scales and noise of a smooth function for each output, with the highest evidence on a grid.

    Args:
        lags: lagged values, standardised.
        increment: what follows, less the last value.
    """
    lags, increment = lags.double(), increment.double()
    n_inputs = lags.shape[1]
    root = math.sqrt(n_inputs)
    distance = torch.cdist(lags, lags).square()
    line = lags @ lags.mT / n_inputs + 1
    kernels = (
        ((length, slope), torch.exp(-0.5 * distance / (length * root) ** 2) + slope**2 * line)
        for length, slope in product(_LENGTHSCALES, _SLOPES)
    )
    priors = []
    for (length, slope), variance, noise in _by_evidence(kernels, increment):
        scale = math.sqrt(variance)
        slopes = lags.new_full((n_inputs,), slope * scale / root)
        priors.append(StepPrior(length * root, scale, slopes, slope * scale, noise))
    return priors


def find_lines(lags: Float[Tensor, "N P"], increment: Float[Tensor, "N D"]) -> list[StepPrior]:
    """Scales and noise of a straight line for each output, with the highest evidence on a grid.

    Other outputs may say less than an output itself, and old values less than new ones.

    Args:
        lags: lagged values, standardised, the latest row first.
        increment: what follows, less the last value.
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
        power, waves = torch.linalg.eigh(kernel)
        square = (waves.mT @ target).square()
        for noise in _NOISES:
            spread = power.clamp_min(0) + noise
            best = (square / spread[:, None]).mean(0).clamp_min(_LEAST * _LEAST)
            evidence.append(-0.5 * (spread.log().sum() + len(target) * best.log()))
            found.append((name, best, noise))
    chosen = [found[index] for index in torch.stack(evidence).argmax(0).tolist()]
    return [
        (name, float(best[d]), noise * float(best[d]))
        for d, (name, best, noise) in enumerate(chosen)
    ]


@torch.no_grad()
def start_steps(model: Autoregression, priors: list[StepPrior]) -> None:
    """Write priors into the features of each output."""
    features = model.output_layer.blocks[0].features
    sensitivity = features.sensitivity
    for d, prior in enumerate(priors):
        features.log_lengthscale[d] = math.log(prior.lengthscale)
        sensitivity[d] = prior.scale
        features.log_extra_scale[d, 0] = math.log(prior.level_scale)
        features.log_extra_scale[d, 1:] = prior.slope_scale.log()
        model.gaussian.log_variance[d] = math.log(prior.noise_variance)
    features.set_sensitivity(sensitivity)


@torch.no_grad()
def learn_without_tail(model: Autoregression, rows: Rows) -> None:
    """Let a model hear all but the last quarter of its record."""
    inner = model.place(rows.x) < _n_inner(len(model.record)) - 0.5
    weight = None if rows.weight is None else rows.weight[inner]
    model.condition(rows.x[inner], rows.y[inner], weight)


@torch.no_grad()
def raise_noise(model: Autoregression, rows: Rows) -> None:
    """Let the noise be no less than what the steps to some rows leave, as few features may leave more."""
    model.condition(rows.x, rows.y, rows.weight)
    mean, _ = model.fitted()
    left = (model.record - mean)[sure_steps(model)].square().mean(0).clamp_min(_LEAST * _LEAST)
    noise = model.gaussian.log_variance
    noise.copy_(torch.maximum(noise, left.log()))


@torch.no_grad()
def forecast_error(model: Autoregression) -> float:
    """Mean logarithm of the squared error of forecasts in the last quarter, over all horizons.

    Logarithms, since the errors of a chaotic system grow until they say nothing: each horizon counts
    by the ratio of two models' errors there.
    """
    origin = _some(origins(model), _ORIGINS)
    paths = model.roll(model.lags(origin), _LONGEST, draw_weights(model.output_layer, len(origin)))
    errors = []
    for value, truth in _with_truth(paths, model, origin):
        errors.append(((value - truth).square().nanmean(0) + _LEAST).log().nanmean())
    return float(torch.stack(errors).nanmean())


@torch.no_grad()
def find_share(model: Autoregression, seed: int) -> float:
    """The share of the noise that the system feels, by the density of forecasts in the last quarter."""
    origin = _some(origins(model), _NOISY_ORIGINS)
    lags = model.lags(origin).repeat(_NOISY_PATHS, 1)
    noise = model.gaussian.log_variance.exp()
    scores = []
    for share in _SHARES:
        generator = generator_for(seed, "start", device=lags.device)
        weights = draw_weights(model.output_layer, len(lags), generator)
        paths = model.roll(lags, _NOISY_LONGEST, weights, generator, share)  # H S·B D
        paths = paths.unflatten(1, (_NOISY_PATHS, len(origin))).movedim(1, 2)  # H B S D
        density = []
        for value, truth in _with_truth(paths, model, origin):
            variance = value.var(1) + noise + _LEAST
            error = (truth - value.mean(1)).square() / variance
            density.append(-0.5 * (variance.log() + error).nanmean())
        scores.append(float(torch.stack(density).nanmean()))
    return _SHARES[max(range(len(scores)), key=scores.__getitem__)]


def _n_inner(n_rows: int) -> int:
    return n_rows - max(1, round(_TAIL * n_rows))


def origins(model: Autoregression) -> Int64[Tensor, " B"]:
    """Rows of the tail that follow known ones: the first that a forecast is to foretell."""
    n_rows = len(model.record)
    first, last = _n_inner(n_rows), n_rows - _FEWEST_ERRORS
    return first + model.is_sure[first : max(first, last) + 1].nonzero()[:, 0]


def _some(index: Int64[Tensor, " N"], most: int) -> Int64[Tensor, " B"]:
    """Some of many, at even distances."""
    return index[torch.linspace(0, len(index) - 1, min(most, len(index))).long()]


def _with_truth(
    paths: Float[Tensor, "H B *S D"], model: Autoregression, origin: Int64[Tensor, " B"]
) -> list[tuple[Float[Tensor, "b *S D"], Float[Tensor, "b D"]]]:
    """Forecasts of every horizon that enough rows have, with what came; NaN where it is not known."""
    truth = torch.where(model.doubt == 0, model.record, torch.nan)
    pairs = []
    for horizon, value in enumerate(paths):
        is_there = origin + horizon < len(truth)
        if int(is_there.sum()) < _FEWEST_ERRORS:
            break
        pairs.append((value[is_there], truth[origin[is_there] + horizon]))
    return pairs or [(paths[0], truth[origin])]
