r"""The deep latent force model: layers of features × Gaussian weights, and a likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.config import ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.features.columns import LayerColumns
from deeplfm.layers import Layer
from deeplfm.likelihoods import Gaussian, Likelihood, MixtureDensity
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for
from deeplfm.variational import Exact

# Rows are predicted in chunks, so that memory does not grow with the request; of few paths in larger
# ones, since the work done once for each chunk would be repeated often.
_PREDICTION_ROWS, _ROWS_OF_ALL_PATHS = 512, 8192


class DeepLFM(nn.Module):
    r"""p(Y | X) with F⁽ˡ⁺¹⁾ = Φ(F⁽ˡ⁾, X) W⁽ˡ⁾ and Gaussian noise, or a mixture density.

    Inputs and outputs are in standardised units; estimators convert from and to the user's.

    Args:
        config: what the model is made of.
        seed: of the fixed noise of the frequencies and of the paths kept for prediction.

    >>> import torch
    >>> from deeplfm.config import LayerConfig, ModelConfig
    >>> model = DeepLFM(ModelConfig(n_inputs=1, layers=(LayerConfig(3), LayerConfig(1))), seed=0)
    >>> model.posterior(torch.linspace(0, 1, 5)[:, None]).mean.shape
    torch.Size([5, 1])
    """

    layers: Sequence[Layer]
    likelihood: Likelihood
    temperature: Tensor

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config, self.seed = config, seed
        generator = generator_for(seed, "model")
        layers = nn.ModuleList()
        n_hidden = 0
        for layer in config.layers:
            sees_input = config.concatenate_input or not len(layers)
            layers.append(
                Layer(
                    layer,
                    n_inputs=config.n_inputs if sees_input else 0,
                    n_hidden=n_hidden,
                    n_noise=max(config.n_samples, config.n_paths),
                    generator=generator,
                )
            )
            n_hidden = layer.width
        self.layers = layers  # type: ignore[assignment]
        self.likelihood = self._likelihood(generator)
        self.register_buffer("temperature", torch.ones(config.n_outputs))

    def _likelihood(self, generator: torch.Generator) -> Likelihood:
        config = self.config
        if config.n_components:
            return MixtureDensity(config.n_outputs, config.n_components)
        return Gaussian(
            config.n_inputs,
            config.n_outputs,
            config.input_dependent_noise,
            config.shared_noise,
            generator,
        )

    @property
    def gaussian(self) -> Gaussian:
        """The likelihood of a model with Gaussian noise."""
        if not isinstance(self.likelihood, Gaussian):
            raise ConfigError("model: its noise is not Gaussian, as this objective needs.")
        return self.likelihood

    @property
    def mixture_density(self) -> MixtureDensity:
        """The likelihood of a model with mixture components."""
        if not isinstance(self.likelihood, MixtureDensity):
            raise ConfigError("model: it has no mixture components. Give n_components.")
        return self.likelihood

    @property
    def output_layer(self) -> Layer:
        """The last layer."""
        return self.layers[-1]

    @property
    def _rows_at_once(self) -> int:
        return max(_PREDICTION_ROWS, _ROWS_OF_ALL_PATHS // self.config.n_paths)

    @property
    def has_exact_output(self) -> bool:
        """Whether the last layer's weights are solved in closed form."""
        return isinstance(self.output_layer.weights, Exact)

    @property
    def exact_weights(self) -> Exact:
        """The last layer's weights, where they are solved in closed form."""
        weights = self.output_layer.weights
        if not isinstance(weights, Exact):
            raise ConfigError("model: the last layer has no exact weights. Use weights='exact'.")
        return weights

    def features(
        self,
        x: Float[Tensor, "N P"],
        n_samples: int,
        generator: torch.Generator | None = None,
        paths: bool = False,
    ) -> LayerColumns:
        """Features of the last layer for samples of all hidden layers.

        Args:
            x: rows.
            n_samples: number S of samples.
            generator: source of noise.
            paths: draw one W per sample in every hidden layer, so that each sample is a function;
                otherwise each layer samples as it is configured to.
        """
        hidden: Tensor | None = None
        for values in self._hidden(x, n_samples, generator, paths):
            hidden = values
        return self.output_layer.features(x, n_samples, generator, hidden)

    def _hidden(
        self, x: Tensor, n_samples: int, generator: torch.Generator | None, paths: bool
    ) -> Iterator[Float[Tensor, "S N H"]]:
        """Values of one hidden layer after the other."""
        hidden: Tensor | None = None
        for layer in self.layers[:-1]:
            columns = layer.features(x, n_samples, generator, hidden)
            if paths:
                hidden = layer.apply_paths(columns, layer.path_noise(n_samples, generator))
            else:
                hidden = layer.sample(columns, generator)
            yield hidden

    @torch.no_grad()
    def hidden_values(self, x: Float[Tensor, "N P"]) -> list[Float[Tensor, "S N H"]]:
        """Values of every hidden layer on the paths that prediction uses."""
        generator = generator_for(self.seed, "prediction", device=x.device)
        return list(self._hidden(x, self.config.n_paths, generator, paths=True))

    def forward(
        self,
        x: Float[Tensor, "N P"],
        n_samples: int,
        generator: torch.Generator | None = None,
        paths: bool = False,
    ) -> tuple[Float[Tensor, "*S N D"], Float[Tensor, "*S N D"]]:
        """Mean and variance of the function given each sample of the hidden layers."""
        return self.output_layer.moments(self.features(x, n_samples, generator, paths))

    def kl(self) -> Float[Tensor, ""]:
        """KL of all weights and frequencies, that of each layer times its ``kl_weight``."""
        return sum((layer.kl_weight * layer.kl() for layer in self.layers), start=torch.zeros(()))

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""
        return {"config": self.config, "seed": self.seed}

    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Mark where the targets of a series are known; see :meth:`Likelihood.set_support`."""
        if reach is not None:
            self.likelihood.set_support(x, y, reach)

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """Rows at which it may have weight beside other models of the same data: all."""
        return torch.ones(len(x), dtype=torch.bool, device=x.device)

    @torch.no_grad()
    def condition(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Solve the exact output weights for the paths that prediction uses."""
        self.solve(*self.statistics(x, y, row_weight))

    @torch.no_grad()
    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Sufficient statistics of some rows for the exact output weights; those of more rows add up."""
        target, precision = self.gaussian.precision(x, y, row_weight)
        totals: list[Tensor] = []
        for rows in torch.arange(len(x), device=x.device).split(self._rows_at_once):
            found = self.output_layer.statistics(
                self._path_features(x[rows]), target[rows], precision[rows]
            )
            totals = [a.add_(b) for a, b in zip(totals, found, strict=True)] if totals else [*found]
        gram, moment = totals
        return gram, moment

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the exact output weights from statistics.

        Each output's likelihood is raised to the power 1/``temperature``: residuals of a series are
        not independent, so that N rows are worth fewer than N.
        """
        self.output_layer.solve(*self._tempered(gram, moment))

    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Add further rows to the exact output weights: as if they had been solved with them."""
        self.add_statistics(*self.statistics(x, y, row_weight))
        self.likelihood.extend_support(x, y)

    def add_statistics(
        self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]
    ) -> None:
        """Add the statistics of further rows to the exact output weights."""
        self.output_layer.condition_on(*self._tempered(gram, moment))

    def _tempered(self, gram: Tensor, moment: Tensor) -> tuple[Tensor, Tensor]:
        layer = self.output_layer
        temperature = self.temperature.to(gram.dtype).view(layer.n_groups, layer.n_units)
        return gram / temperature[:, :, None, None], moment / temperature[:, None, :]

    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Predictive distribution: a fixed function of each row, whatever the batch.

        Gradients are kept where the rows need them, as in Bayesian optimisation.
        """
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            return self._posterior(x)

    def _posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        parts = [
            self.likelihood.components(rows, *self.moments(rows))
            for rows in x.split(self._rows_at_once)
        ]
        *moments, weights = zip(*parts, strict=True)
        mean, variance, noise = (torch.cat(part, dim=-2) for part in moments)
        weight = torch.cat(weights, dim=-2) if self.config.n_components else weights[0]
        # A draw of a mixture density is one of the predictive mixture, no function.
        draw = None if self.config.n_components else lambda n, seed: self.draw(x, n, seed)
        return Predictive(mean, variance, noise, weight, draw)

    def moments(
        self, x: Float[Tensor, "N P"]
    ) -> tuple[Float[Tensor, "S N D"], Float[Tensor, "S N D"]]:
        """Mean and variance of the function on the paths that prediction uses."""
        mean, variance = self.output_layer.moments(self._path_features(x))
        return (mean[None], variance[None]) if mean.dim() == 2 else (mean, variance)

    def _path_features(self, x: Tensor) -> LayerColumns:
        generator = generator_for(self.seed, "prediction", device=x.device)
        return self.features(x, self.config.n_paths, generator, paths=True)

    @torch.no_grad()
    def draw(self, x: Float[Tensor, "N P"], n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions: hidden paths, cycled, with a fresh output W each."""
        generator = generator_for(seed, "draw", device=x.device)
        layer = self.output_layer
        noise = layer.path_noise(n_draws, generator)
        parts = []
        for rows in x.split(self._rows_at_once):
            features = self._path_features(rows)
            size = n_draws if features.is_free else features.n_samples
            draws = [
                layer.apply_paths(features, _padded(part, size))[: len(part)]
                for part in noise.split(size)
            ]
            parts.append(torch.cat(draws))
        return torch.cat(parts, dim=-2)


def _padded(noise: Float[Tensor, "S G K U"], size: int) -> Float[Tensor, "R G K U"]:
    return torch.cat([noise, noise.new_zeros(size - len(noise), *noise.shape[1:])])
