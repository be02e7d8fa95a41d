"""The error of a training run that diverged, with the most likely cause."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplfm.errors import TrainingDivergedError
from deeplfm.features.columns import LayerColumns
from deeplfm.model import DeepLFM


def diverged(model: DeepLFM, x: Tensor, step: int, loss: float) -> TrainingDivergedError:
    """The error to raise, with the most likely cause."""
    causes = _bad_parameters(model) or _overflows(model, x)
    cause = f" ({causes[0]})" if causes else " (a step was too large)"
    kind = "NaN" if loss != loss else "infinite"
    is_single = next(model.parameters()).dtype == torch.float32
    advice = 'Try dtype="float64"' if is_single else "Check the data for extreme values"
    return TrainingDivergedError(
        f"training: the objective became {kind} at step {step}{cause}. "
        f"{advice}, another model, or a schedule with a lower learning_rate."
    )


@torch.no_grad()
def _overflows(model: DeepLFM, x: Tensor) -> list[str]:
    """Blocks whose transients leave the range of the dtype."""
    found: list[str] = []
    hidden: Tensor | None = None
    for index, layer in enumerate(model.layers):
        dtype = layer.blocks[0].features.sensitivity.dtype
        limit = float(torch.log(torch.tensor(torch.finfo(dtype).max, dtype=torch.float64)))
        generator = torch.Generator(x.device).manual_seed(0)
        columns = [block(x, 2, generator, hidden) for block in layer.blocks]
        for block in columns:
            extent = (block.features.origin - block.seen).clamp_min(0).flatten(0, -2).amax(0)
            growth = block.features.growth(extent)
            if growth > limit:
                found.append(
                    f"layer {index}: decay × |input| = {growth:.0f} before the lower limit, "
                    f"{str(dtype).removeprefix('torch.')} overflows at {limit:.0f}"
                )
        if index + 1 < len(model.layers):
            hidden = layer.sample(LayerColumns(columns, 2, len(x)), generator)
    return found


def _bad_parameters(model: DeepLFM) -> list[str]:
    return [
        f"parameter {name} is not finite"
        for name, parameter in model.named_parameters()
        if not bool(parameter.isfinite().all())
    ]
