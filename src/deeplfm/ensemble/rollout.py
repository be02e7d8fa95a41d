"""Paths of a system that hears itself: a rule for the next row, followed step by step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.layers import Layer

Rule = Callable[[Tensor], Tensor]  # lagged values of each path, S P → what it adds to its last, S D


def draw_weights(
    layer: Layer, n_paths: int, generator: torch.Generator | None = None
) -> Float[Tensor, "S D K"]:
    """Weights of paths; without a generator all at their mean."""
    if generator is None:
        weights = layer.weights.mean.expand(n_paths, -1, -1, -1)
    else:
        weights = layer.weights.draw(layer.path_noise(n_paths, generator))
    return weights.movedim(-1, -2).flatten(1, 2)  # S G·U K


def rule_of(layer: Layer, weights: Float[Tensor, "S D K"]) -> Rule:
    """The rule of a layer whose inputs are lags, with weights of its own for each path."""
    features = layer.blocks[0].features

    def smooth(lags: Float[Tensor, "S P"]) -> Float[Tensor, "S D"]:
        columns = torch.cat(list(layer.features(lags, 1).whole()), dim=-1)  # G S K
        columns = columns.expand(weights.shape[1], -1, -1).to(weights.dtype)
        return torch.einsum("dsk,sdk->sd", columns, weights).to(lags.dtype)

    if len(layer.blocks) > 1 or features.n_features or features.extras != ("constant", "trend"):
        return smooth
    scaled = weights * features.log_extra_scale.exp()  # columns are one, and the lags
    level, slope = scaled[..., :1], scaled[..., 1:]

    def line(lags: Float[Tensor, "S P"]) -> Float[Tensor, "S D"]:
        found = torch.baddbmm(level, slope, lags.to(slope.dtype).unsqueeze(-1))
        return found.squeeze(-1).to(lags.dtype)

    return line


def follow(
    rule: Rule,
    lags: Float[Tensor, "S P"],
    n_steps: int,
    limit: tuple[Float[Tensor, " D"], Float[Tensor, " D"]],
    noise_scale: Float[Tensor, " D"],
    generator: torch.Generator | None = None,
) -> Float[Tensor, "H S D"]:
    """Values of each path, before the noise that it feels.

    Args:
        rule: what a path adds to its last value.
        lags: where each path begins, the latest row first.
        n_steps: number H of steps.
        limit: lowest and highest values.
        noise_scale: standard deviation of what a path feels at every step.
        generator: source of noise; ``None`` for none.
    """
    n_paths, n_outputs = len(lags), len(noise_scale)
    values = lags.new_empty(n_steps, n_paths, n_outputs)
    past = torch.cat([lags.new_empty(n_paths, n_steps * n_outputs), lags], dim=1)
    for step in range(n_steps):
        start = (n_steps - step) * n_outputs  # of the latest row; the next comes before it
        recent = past[:, start : start + lags.shape[1]]
        value = (recent[:, :n_outputs] + rule(recent)).clamp(*limit)
        values[step] = value
        if generator is not None:
            noise = torch.randn(
                value.shape, generator=generator, dtype=value.dtype, device=value.device
            )
            value = value + noise_scale * noise
        past[:, start - n_outputs : start] = value
    return values
