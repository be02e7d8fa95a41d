r"""Uncertainty of shared forces that comes from the parameters of their equations.

Given decays and sensitivities, q(W) is exact; but these are estimated too, and for a force of several
outputs, f_d' + γ_d f_d = S_d u, their errors are larger than what q(W) leaves open. With θ all of them
and the noise, a normal approximation at the optimum (Laplace) has the covariance

    Cov W = A⁻¹ + J C Jᵀ,   C = τ H⁻¹,   J = dE[W]/dθ,

where H is the curvature of minus the log evidence and τ the temperature of the likelihood. A common
factor of all sensitivities of a force cannot be separated from the unit of the force, so it is held.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.layers import Block
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, collapsed
from deeplfm.training.distributed import world
from deeplfm.training.interruption import stop_requested
from deeplfm.training.rows import RowSource, condition

_APART = 1e-3  # of parameters, for differences
_HELD = ("log_lengthscale", "log_extra_scale")  # spectrum of a force; columns beside it
_MOST_ROWS = 5_000  # memory of one exact step


def set_parameter_spread(model: DeepLFM, rows: RowSource) -> None:
    """Measure J C^½ of a model with shared forces, whose weights are solved; others stay as they are."""
    layer = model.output_layer
    if not layer.shared_weights or not model.has_exact_output or len(model.layers) > 1:
        return
    layer.parameter_spread.zero_()
    if not _driven(model) or stop_requested() or len(rows) > _MOST_ROWS or world().size > 1:
        return
    probe, known = deepcopy(model).double(), rows.everything()
    batch = Batch(known.x.double(), known.y.double(), len(known), known.weight)
    parameters = _parameters(probe)
    begin = torch.cat([p.detach().flatten() for p in parameters])
    first, weights = _at(probe, parameters, begin, batch, rows)
    curvature, slopes = [], []
    for step in _APART * torch.eye(len(begin), dtype=begin.dtype, device=begin.device):
        gradient, moved = _at(probe, parameters, begin + step, batch, rows)
        curvature.append((gradient - first) / _APART)
        slopes.append((moved - weights) / _APART)
        if stop_requested():
            return
    hessian = torch.stack(curvature) / model.temperature.mean()
    free = _without_scales(probe, parameters)
    values, vectors = torch.linalg.eigh(free.mT @ (hessian + hessian.mT) @ free / 2)
    # Nowhere wider than a standard normal prior of logarithms and relative sensitivities.
    root = free @ vectors / values.clamp_min(1.0).sqrt()
    spread = torch.stack(slopes, dim=1) @ root
    if bool(spread.isfinite().all()):
        layer.parameter_spread[:, : spread.shape[1]] = spread.to(layer.parameter_spread)


def _at(
    model: DeepLFM,
    parameters: list[nn.Parameter],
    values: Float[Tensor, " R"],
    batch: Batch,
    rows: RowSource,
) -> tuple[Float[Tensor, " R"], Float[Tensor, " K"]]:
    """Gradient of minus the log evidence at some parameters, and the mean of the weights there."""
    nn.utils.vector_to_parameters(values, parameters)
    gradients = torch.autograd.grad(-collapsed(model, batch, 1), parameters)
    condition(model, rows)  # with the temperature, as prediction has it
    mean = model.output_layer.weights.mean[0, :, 0].clone()
    return torch.cat([item.flatten() for item in gradients]), mean


def _parameters(model: DeepLFM) -> list[nn.Parameter]:
    """Parameters of the equations and of the noise."""
    named = [pair for block in _driven(model) for pair in block.features.named_parameters()]
    some = [p for name, p in named if name not in _HELD and p.requires_grad and p.numel()]
    return [*some, model.gaussian.log_variance]


def _driven(model: DeepLFM) -> list[Block]:
    return [block for block in model.output_layer.blocks if block.features.has_force]


def _without_scales(model: DeepLFM, parameters: list[nn.Parameter]) -> Float[Tensor, "R r"]:
    """An orthonormal basis of all changes but those that scale one force in all outputs."""
    scales = []
    for block in _driven(model):
        raw = block.features.raw_sensitivity.detach()
        for q in range(raw.shape[-1]):
            one = torch.zeros_like(raw)
            one[..., q] = raw[..., q]
            parts = [
                one if p is block.features.raw_sensitivity else torch.zeros_like(p)
                for p in parameters
            ]
            scales.append(torch.cat([part.flatten() for part in parts]))
    basis, _ = torch.linalg.qr(torch.stack(scales, dim=1), mode="complete")
    return basis[:, len(scales) :]
