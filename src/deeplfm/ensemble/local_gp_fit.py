r"""Hyperparameters of a local Gaussian process: those that predict rows best from their neighbours."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from deeplfm.ensemble.local_gp import (
    MATERN12,
    MATERN32,
    N_NEIGHBOURS,
    Kernel,
    NeighbourSearch,
    conditional_weights,
)

N_TAILS = 4  # components of the distribution of errors
_STEPS, _STEPS_PER_SEARCH, _RATE = 100, 10, 0.05
_BATCH, _TAIL_ROWS, _FEWEST_ROWS = 500, 5000, 3
_LEAST_SIZE = 1e-3  # standard deviation
_MANY = 64  # neighbours
_MARGIN = 0.02  # nats per row by which more of them, or Matérn-3/2, must lead
_EM_STEPS, _PRIOR_ERRORS = 100, 2.0
_LEAST_WEIGHT = 1e-12  # the noise of a lighter row would overflow


class _Table(NamedTuple):
    """Rows, their values, and how many each stands for."""

    x: Float[Tensor, "N P"]
    y: Float[Tensor, " N"]
    weight: Float[Tensor, " N"]


class LocalGP(NamedTuple):
    """Hyperparameters of one output."""

    lengthscale: Float[Tensor, " P"]
    scale: Float[Tensor, ""]
    noise_variance: Float[Tensor, ""]
    is_matern32: bool
    n_neighbours: int
    tail_share: Float[Tensor, " C"]
    tail_scale: Float[Tensor, " C"]


def fit_local_gp(
    x: Float[Tensor, "N P"],
    y: Float[Tensor, " N"],
    generator: torch.Generator,
    weight: Float[Tensor, " N"] | None = None,
) -> LocalGP:
    """Kernel, lengthscales, noise and distribution of errors that predict rows from their neighbours."""
    weight = torch.ones_like(y) if weight is None else weight
    table = _Table(x.double(), y.double(), weight.double().clamp_min(_LEAST_WEIGHT))
    n_scored = _TAIL_ROWS if len(x) >= _FEWEST_ROWS else 0
    some = torch.randperm(len(x), generator=generator)[:n_scored].to(x.device)
    # Along one input neighbours are on two sides, and other candidates are smooth.
    has_several = x.shape[1] > 1
    kernels = (MATERN12, MATERN32) if has_several else (MATERN12,)
    counts = (N_NEIGHBOURS, _MANY) if has_several else (N_NEIGHBOURS,)
    found = []
    for kernel in kernels:
        scales = _scales(table, kernel, generator)
        found += [_scored(table, some, kernel, n, *scales) for n in counts]
    (plain, bar), *others = found
    count = table.weight[some]
    best, density = max(others, key=lambda item: float(count @ item[1]), default=(plain, bar))
    return best if _is_ahead(density - bar, count) else plain


def _is_ahead(lead: Float[Tensor, " m"], count: Float[Tensor, " m"]) -> bool:
    """Whether a lead, in nats of each row, is more than a margin and more than luck."""
    if len(lead) < _FEWEST_ROWS:
        return False
    share = count / count.sum()
    mean = share @ lead
    error = (share.square() @ (lead - mean).square()).sqrt()
    return float(mean) > max(_MARGIN, 2 * float(error))


def _scored(
    table: _Table,
    some: Int64[Tensor, " m"],
    kernel: Kernel,
    n_neighbours: int,
    lengthscale: Float[Tensor, " P"],
    scale: Float[Tensor, ""],
    noise: Float[Tensor, ""],
) -> tuple[LocalGP, Float[Tensor, " m"]]:
    """Hyperparameters with the errors of some rows, and log densities of these, but for a constant."""
    error, width = table.y.new_zeros(0), table.y.new_zeros(0)
    if len(some):
        search = NeighbourSearch(*table[:2], lengthscale, table.weight, kernel, n_neighbours)
        mean, variance = search.predict_others(some, scale, noise)
        width = (variance + noise).sqrt()
        error = (table.y[some] - mean) / width
    tails = find_tails(error, table.weight[some])
    density = _log_components(error, *tails).logsumexp(1) - width.log()
    return LocalGP(lengthscale, scale, noise, kernel is MATERN32, n_neighbours, *tails), density


@torch.enable_grad()
def _scales(
    table: _Table, kernel: Kernel, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Lengthscales, scale and noise variance that maximise the density of rows given the others."""
    x, y, weight = table
    n_rows, n_inputs = x.shape
    size = _LEAST_SIZE if n_rows else 1.0
    if n_rows:
        share = weight / weight.sum()
        size = max(float((share @ (y - share @ y).square()).sqrt()), size)
    sizes = torch.tensor([math.log(size), math.log(0.5 * size)]).to(x)
    # One lengthscale for all inputs together would be that of their distance.
    log_lengthscale = torch.full((n_inputs,), math.log(2.0 * n_inputs ** (1 / kernel.norm))).to(x)
    if n_rows >= _FEWEST_ROWS and n_inputs == 1:
        log_lengthscale = _shortened(table, log_lengthscale, sizes, generator)
    parameters = [log_lengthscale.requires_grad_(), sizes.requires_grad_()]
    optimiser = torch.optim.Adam(parameters, lr=_RATE)
    for step in range(_STEPS if n_rows >= _FEWEST_ROWS else 0):
        if step % _STEPS_PER_SEARCH == 0:
            search = NeighbourSearch(*table[:2], log_lengthscale.detach().exp(), kernel=kernel)
        some = torch.randint(n_rows, (min(_BATCH, n_rows),), generator=generator).to(x.device)
        optimiser.zero_grad()
        near = search.others(some, N_NEIGHBOURS)
        _loss(table, some, near, log_lengthscale, sizes, kernel).backward()
        optimiser.step()
    scale, noise = sizes.detach().exp().unbind()
    return log_lengthscale.detach().exp(), scale, noise.square()


def _loss(
    table: _Table,
    some: Int64[Tensor, " m"],
    near: Int64[Tensor, "m k"],
    log_lengthscale: Float[Tensor, " P"],
    sizes: Float[Tensor, " 2"],
    kernel: Kernel = MATERN12,
) -> Float[Tensor, ""]:
    """Minus the mean log density of some rows given their neighbours, but for a constant."""
    x, y, count = table
    rate, (scale, noise) = torch.exp(-log_lengthscale), sizes.exp().unbind()
    near_weight, variance = conditional_weights(
        kernel, x[near] * rate, x[some] * rate, scale, noise.square() / count[near]
    )
    mean, variance = (near_weight * y[near]).sum(-1), variance + noise.square()
    share = count[some] / count[some].sum()
    return 0.5 * share @ (variance.log() + (y[some] - mean).square() / variance)


@torch.no_grad()
def _shortened(
    table: _Table,
    log_lengthscale: Float[Tensor, " 1"],
    sizes: Float[Tensor, " 2"],
    generator: torch.Generator,
) -> Float[Tensor, " 1"]:
    """The best of ever shorter lengthscales along time, as long as they are longer than a step.

    Neighbours show only how fast a function changes: a longer lengthscale with a larger scale would do
    as well, and descent from a long one ends there. In a wide gap the variance is then far too large.
    """
    x, y, _ = table
    search = NeighbourSearch(x, y, log_lengthscale.exp())
    some = torch.randperm(len(x), generator=generator)[:_BATCH].to(x.device)
    near = search.others(some, N_NEIGHBOURS)
    step = (x.max() - x.min()) / len(x)
    tried = [log_lengthscale]
    while float(tried[-1].exp()) > 2 * float(step) > 0:
        tried.append(tried[-1] - math.log(2.0))
    noises = [sizes[1] - k * math.log(4.0) for k in range(3)]
    score = [
        min(
            float(_loss(table, some, near, item, torch.stack([sizes[0], noise])))
            for noise in noises
        )
        for item in tried
    ]
    return tried[score.index(min(score))].clone()


def find_tails(
    error: Float[Tensor, " N"], weight: Float[Tensor, " N"]
) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"]]:
    """Weights and widths of the Gaussians whose mixture, centred at zero, has the highest density (EM).

    Each width has the prior weight of a few errors that are as wide as a Gaussian's.
    """
    square = error.square()[:, None]
    scale = torch.logspace(-1, 0.5, N_TAILS).to(error)
    share = torch.full_like(scale, 1 / N_TAILS)
    for _ in range(_EM_STEPS):
        part = weight[:, None] * torch.softmax(_log_components(error, share, scale), dim=1)
        count = part.sum(0)
        share = (count + _PRIOR_ERRORS) / (count + _PRIOR_ERRORS).sum()
        scale = (((part * square).sum(0) + _PRIOR_ERRORS) / (count + _PRIOR_ERRORS)).sqrt()
    return share, scale


def _log_components(
    error: Float[Tensor, " N"], share: Float[Tensor, " C"], scale: Float[Tensor, " C"]
) -> Float[Tensor, "N C"]:
    """Log density of errors by each component, but for a constant."""
    return share.log() - scale.log() - 0.5 * (error[:, None] / scale).square()
