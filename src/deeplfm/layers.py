r"""A layer: blocks of features side by side, times Gaussian weights. Hidden and output alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.errors import ConfigError
from deeplfm.features import feature_map
from deeplfm.features.columns import BlockColumns, LayerColumns
from deeplfm.features.products import (
    FeatureBlocks,
    diagonal_squares,
    multiply,
    weighted_gram,
    weighted_moment,
    weighted_squares,
)
from deeplfm.randomness import noise_of_rows, standard_normal
from deeplfm.variational import Exact, Frequencies, MeanField, gaussian_weights
from deeplfm.variational.gaussian import ALL, Columns


class Block(nn.Module):
    """A feature map with its frequencies, and the layer's inputs that it depends on."""

    def __init__(
        self,
        config: BlockConfig,
        n_inputs: int,
        n_hidden: int,  # values that come first; 0 in the first layer
        n_groups: int,
        shared_forces: bool,
        n_noise: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.name = config.name
        inputs = "all" if n_hidden == 0 else config.inputs
        self.sees_hidden = n_hidden > 0 and inputs != "original"
        self.sees_original = n_inputs > 0 and inputs != "hidden"
        self.columns = None if config.columns is None else list(config.columns)
        n_original = n_inputs if self.columns is None else len(self.columns)
        n_seen = n_hidden * self.sees_hidden + n_original * self.sees_original
        if n_seen == 0:
            raise ConfigError(
                f"block: inputs={config.inputs!r} selects no column; the layer has {n_hidden} hidden "
                f"and {n_inputs} original inputs. Choose 'all', or set concatenate_input=True."
            )
        self.features = feature_map(config.system)(
            n_inputs=n_seen,
            n_forces=config.n_forces,
            n_features=config.n_features,
            n_groups=n_groups,
            extras=config.extras,
            shared_forces=shared_forces,
            **config.options,
        )
        self.frequencies = Frequencies(
            self.features,
            config.frequencies,
            n_noise=n_noise if config.noise_per_sample else 1,
            generator=generator,
        )

    def forward(
        self,
        x: Float[Tensor, "N P"],
        n_samples: int,
        generator: torch.Generator | None = None,
        hidden: Float[Tensor, "S N H"] | None = None,
    ) -> BlockColumns:
        """Columns of Φ for some inputs, with frequencies drawn."""
        frequency = self.frequencies(self.features, n_samples, generator)
        if not self.sees_hidden:
            hidden = None
        weight = self.frequencies.feature_weight
        return BlockColumns(self.features, frequency, weight, self.originals(x), hidden)

    def originals(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "N p"]:
        """The original inputs that the block sees."""
        if not self.sees_original:
            return x[:, :0]
        return x if self.columns is None else x[:, self.columns]

    def kl(self) -> Float[Tensor, ""]:
        """KL of the frequencies."""
        return self.frequencies.kl(self.features)


class Layer(nn.Module):
    r"""F' = Φ(F; Ω, θ) W.

    Outputs of the layer are ordered as groups × units: a hidden layer is one group whose units share
    Φ; an output layer with ``own_features`` is one group per output with a single unit.
    """

    blocks: Sequence[Block]
    parameter_spread: Tensor  # K R, where weights are shared

    def __init__(
        self,
        config: LayerConfig,
        n_inputs: int,
        n_hidden: int,
        n_noise: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        split = config.own_features or config.shared_weights
        self.n_groups, self.n_units = (config.width, 1) if split else (1, config.width)
        self.sampling, self.is_antithetic = config.sampling, config.is_antithetic
        self.kl_weight = config.kl_weight
        self.shared_weights = config.shared_weights
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            Block(
                block,
                n_inputs,
                n_hidden,
                self.n_groups,
                config.shared_weights or config.shared_frequencies,
                n_noise,
                generator,
            )
            for block in config.blocks
        )
        n_columns = sum(block.features.n_columns for block in self.blocks)
        self.weights = gaussian_weights(config.weights)(
            1 if config.shared_weights else self.n_groups, n_columns, self.n_units
        )
        if config.shared_weights:  # of W, by the parameters: training.parameter_spread
            n_parameters = sum(p.numel() for p in self.parameters()) + config.width
            self.register_buffer("parameter_spread", torch.zeros(n_columns, n_parameters))

    def block(self, name: str) -> Block:
        """The block of a name; a name that no block or more than one has is refused."""
        found = [block for block in self.blocks if block.name == name]
        if len(found) != 1:
            names = ", ".join(repr(block.name) for block in self.blocks)
            raise ConfigError(
                f"layer: {len(found)} blocks are named {name!r}; the blocks are {names}. "
                "Choose a name that one of them has."
            )
        return found[0]

    def column_slices(self) -> list[slice]:
        """Columns of Φ, and rows of W, of each block."""
        ends = itertools.accumulate(block.features.n_columns for block in self.blocks)
        widths = (block.features.n_columns for block in self.blocks)
        return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]

    def features(
        self,
        x: Float[Tensor, "N P"],
        n_samples: int,
        generator: torch.Generator | None = None,
        hidden: Float[Tensor, "S N H"] | None = None,
    ) -> LayerColumns:
        """Φ, in blocks of columns, samples and rows."""
        blocks = [block(x, n_samples, generator, hidden) for block in self.blocks]
        return LayerColumns(blocks, n_samples, len(x))

    def moments(
        self, features: LayerColumns, columns: Columns = ALL
    ) -> tuple[Float[Tensor, "*S N D"], Float[Tensor, "*S N D"]]:
        """Mean and variance of ΦW for each row, W integrated out."""

        def reduce(columns: FeatureBlocks, *known: Tensor) -> tuple[Tensor, ...]:
            return tuple(map(self.by_output, self.weights.moments(columns, *known)))

        mean, variance = features.map(
            reduce, *self.weights.coefficients(columns), is_diagonal=self._is_diagonal
        )
        return mean, variance

    def squares(
        self,
        features: LayerColumns,
        target: Float[Tensor, "N D"],
        precision: Float[Tensor, "N D"],
    ) -> Float[Tensor, ""]:
        """Σ_n λ_n E[(y_n − φ_nᵀW)²]: what a Gaussian bound needs of samples; moments are not kept."""
        is_diagonal, weights = self._is_diagonal, self.weights

        def reduce(columns: FeatureBlocks, *tensors: Tensor) -> tuple[Tensor, ...]:
            *known, target, precision = tensors
            if is_diagonal:
                return (diagonal_squares(columns, *tensors),)
            return (weighted_squares(*weights.moments(columns, *known), target, precision),)

        by_row = self._by_group(target, precision, dtype=weights.mean.dtype)
        (found,) = features.total(
            reduce, *weights.coefficients(), by_row=by_row, is_diagonal=is_diagonal
        )
        return found

    def sample(
        self,
        features: LayerColumns,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "S N D"]:
        """Values of ΦW for training: right marginals by rows, or whole paths, as configured."""
        n_samples = features.n_samples
        if self.sampling == "path":
            return self.apply_paths(features, self.path_noise(n_samples, generator))
        mean, variance = self.moments(features)
        noise = noise_of_rows(
            n_samples, (mean.shape[-2], mean.shape[-1]), mean, generator, self.is_antithetic
        )
        # The variance of a row is 0 at t = 0 with a = 0, where the root has no gradient.
        return torch.addcmul(mean, (variance + _TINY).sqrt(), noise)

    def path_noise(
        self, n_samples: int, generator: torch.Generator | None = None
    ) -> Float[Tensor, "S G K U"]:
        """Standard normal noise for one W per path."""
        mean = self.weights.mean
        return standard_normal(n_samples, mean.shape, mean, generator)

    def apply_paths(
        self, features: LayerColumns, noise: Float[Tensor, "S G K U"]
    ) -> Float[Tensor, "S N D"]:
        """ΦW with one W per path: whole functions."""

        def reduce(columns: FeatureBlocks, weights: Tensor) -> tuple[Tensor, ...]:
            return (self.by_output(multiply(columns, weights)),)

        (values,) = features.map(reduce, by_sample=[self.weights.draw(noise)])
        return values

    @torch.no_grad()
    def statistics(
        self,
        features: LayerColumns,
        target: Float[Tensor, "N D"],
        precision: Float[Tensor, "N D"],
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Σ_n λ_n E[φφᵀ] and Σ_n λ_n y_n E[φ]: the sufficient statistics of exact weights."""

        def reduce(columns: FeatureBlocks, precision: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
            return weighted_gram(columns, precision), weighted_moment(columns, shift)

        target, precision = self._by_group(target, precision, dtype=torch.float64)
        gram, moment = features.total(reduce, by_row=[precision, target * precision])
        return gram, moment

    def solve(
        self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"], rate: float = 1.0
    ) -> None:
        """Move exact weights to the posterior that statistics imply."""
        self._exact().step(*self._pooled(gram, moment), rate)

    def condition_on(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Add the statistics of further rows to the posterior of exact weights."""
        self._exact().condition_on(*self._pooled(gram, moment))

    def kl(self) -> Float[Tensor, ""]:
        """KL of weights and frequencies."""
        total = self.weights.kl()
        for block in self.blocks:
            total = total + block.kl()
        return total

    @property
    def _is_diagonal(self) -> bool:
        return isinstance(self.weights, MeanField)

    def _by_group(
        self, *items: Float[Tensor, "N D"], dtype: torch.dtype
    ) -> list[Float[Tensor, "G N U"]]:
        """Outputs as groups × units."""
        sizes = (self.n_groups, self.n_units)
        return [item.to(dtype).mT.unflatten(0, sizes).mT for item in items]

    def _exact(self) -> Exact:
        if not isinstance(self.weights, Exact):
            raise ConfigError("layer: only weights='exact' can be solved in closed form.")
        return self.weights

    def _pooled(self, gram: Tensor, moment: Tensor) -> tuple[Tensor, Tensor]:
        """Statistics of the weights: those of all groups together where groups share weights."""
        if self.shared_weights:
            return gram.sum(0, keepdim=True), moment.sum(0, keepdim=True)
        return gram, moment

    def by_output(self, values: Float[Tensor, "*S G N U"]) -> Float[Tensor, "*S N D"]:
        """Groups × units as one dimension of outputs."""
        return values.movedim(-3, -2).flatten(-2)


_TINY = 1e-12
