"""A neural network with dropout in training and in prediction (MC dropout)."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.baselines.base import Baseline, of_functions
from deeplfm.baselines.descent import descend
from deeplfm.errors import ConfigError
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for

_HELD_OUT = 0.1
_FEWEST_ROWS = 20  # below this none are held out
_LOOK_EVERY = 50  # steps between looks at the held-out rows
_NOISES = torch.logspace(-5, 0.5, 56, dtype=torch.float64)  # variances, in standardised units


@dataclass(eq=False, repr=False)
class NeuralNetwork(Baseline):
    """Layers of rectified linear units with dropout, in training and in prediction.

    Each mask of the units is one network; a prediction is a mixture of networks, with noise. A tenth of
    the rows is held out for early stopping and for the noise variance.
    """

    counts: ClassVar[tuple[str, ...]] = ("n_masks", "n_steps", "batch_size")

    hidden: tuple[int, ...] = (300,)
    dropout: float = 0.5
    n_masks: int = 100
    n_steps: int = 3000
    batch_size: int = 1000
    learning_rate: float = 0.01
    time_limit: float | None = None
    random_state: int = 0

    def _check_settings(self) -> None:
        super()._check_settings()
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout: {self.dropout!r} found. Give 0 or more, and less than 1.")

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        n_held_out = round(_HELD_OUT * len(x)) if len(x) >= _FEWEST_ROWS else 0
        order = torch.randperm(len(x), generator=generator_for(self.random_state, "split"))
        inner, held_out = order[n_held_out:], order[:n_held_out]
        seen = held_out if n_held_out else inner
        generator = generator_for(self.random_state, "model")
        network = _Network(x.shape[1], tuple(self.hidden), y.shape[1], self.dropout, generator)
        noise = generator_for(self.random_state, "step")
        best = (math.inf, deepcopy(network.state_dict()))

        def loss(batch: Tensor) -> Tensor:
            rows = inner[batch]
            return _mean_square(network(x[rows], network.masks(len(rows), noise)), y[rows])

        def look(step: int = 0) -> None:
            nonlocal best
            if step % _LOOK_EVERY == 0:
                with torch.no_grad():
                    error = _mean_square(network(x[seen]), y[seen]).item()
                if error < best[0]:
                    best = (error, deepcopy(network.state_dict()))

        descend(
            network.parameters(),
            loss,
            len(inner),
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.random_state,
            owner="NeuralNetwork",
            time_limit=self.time_limit,
            every=look,
        )
        look()
        network.load_state_dict(best[1])
        self.network_ = network
        self.noise_variance_ = self._best_noise(x[seen], y[seen])

    @torch.no_grad()
    def _best_noise(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> Float[Tensor, " D"]:
        """Variance of each output under which rows are most likely."""
        paths = self._paths(x)
        scores = torch.stack(
            [of_functions(paths, value.expand_as(y)).log_prob(y).nanmean(0) for value in _NOISES]
        )
        return _NOISES[scores.nan_to_num(0.0).argmax(0)]

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        paths = self._paths(x)
        return of_functions(paths, self.noise_variance_.expand(paths.shape[1:]))

    def _paths(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "C N D"]:
        """One function for each mask; the same masks at every call."""
        masks = self.network_.masks(self.n_masks, generator_for(self.random_state, "prediction"))
        return torch.stack(
            [self.network_(x, [mask[i] for mask in masks]) for i in range(self.n_masks)]
        )


class _Network(nn.Module):
    def __init__(
        self,
        n_inputs: int,
        hidden: tuple[int, ...],
        n_outputs: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.hidden, self.dropout = hidden, dropout
        widths = (n_inputs, *hidden, n_outputs)
        self.layers = nn.ModuleList(
            nn.Linear(before, after, dtype=torch.float64) for before, after in pairwise(widths)
        )
        with torch.no_grad():  # PyTorch's own start, from our own source of noise
            for layer, width in zip(self.layers, widths[:-1], strict=True):
                for parameter in layer.parameters():
                    parameter.uniform_(-(width**-0.5), width**-0.5, generator=generator)

    def masks(self, n_masks: int, generator: torch.Generator) -> list[Bool[Tensor, "C W"]]:
        """Which units of each hidden layer stay."""
        return [
            torch.rand(n_masks, width, generator=generator) >= self.dropout for width in self.hidden
        ]

    def forward(
        self, x: Float[Tensor, "N P"], masks: list[Tensor] | None = None
    ) -> Float[Tensor, "N D"]:
        """Outputs, of all units at their mean size or of those that masks leave."""
        for i, layer in enumerate(self.layers[:-1]):
            x = torch.relu(layer(x))
            if masks is not None:
                x = x * masks[i] / (1 - self.dropout)
        return self.layers[-1](x)


def _mean_square(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of the known targets."""
    known = ~target.isnan()
    return ((prediction - target.nan_to_num(0.0)).square() * known).sum() / known.sum().clamp(min=1)
