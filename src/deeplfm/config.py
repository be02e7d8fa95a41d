"""Declarations of a model's parts: plain data that can be written to JSON and read back."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from deeplfm.errors import ConfigError

Inputs = Literal["all", "hidden", "original"]


@dataclass(frozen=True)
class BlockConfig:
    """One block of features of a layer.

    Attributes:
        system: name of the feature map ("ode1", "eq", "arc1", …).
        inputs: which inputs it sees: "all", the "hidden" values, or the "original" input.
        n_forces: number Q of latent forces.
        n_features: number M of frequencies per force.
        frequencies: strategy for Ω.
        noise_per_sample: one fixed ε per sample (the paper's text) in place of a shared one.
        extras: columns beside the force.
        options: further arguments of the feature map, such as ``lower_limit``.
        columns: which columns of the original input it sees; ``None`` for all.
        name: the term of the model that the block belongs to.
    """

    system: str = "ode1"
    inputs: Inputs = "all"
    n_forces: int = 1
    n_features: int = 100
    frequencies: str = "var-fixed"
    noise_per_sample: bool = False
    extras: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    columns: tuple[int, ...] | None = None
    name: str = ""


@dataclass(frozen=True)
class LayerConfig:
    """One layer: blocks side by side, times Gaussian weights.

    Attributes:
        width: number of outputs of the layer.
        blocks: its blocks of features.
        weights: family of q(W): "mean-field", "full", or "exact" (last layer only).
        own_features: each output has features of its own (γ_d, ℓ_d, S_d, Ω_d of the last layer).
        shared_frequencies: with own features, all outputs share one Ω and its ℓ.
        shared_weights: all outputs share one W and one set of forces (the classical LFM).
        sampling: "local" reparametrisation, or one W per "path".
        is_antithetic: draw the noise of local samples in pairs ε, −ε.
        kl_weight: factor of the layer's KL in every objective; with 1 the ELBO is a bound.
    """

    width: int
    blocks: tuple[BlockConfig, ...] = (BlockConfig(),)
    weights: str = "mean-field"
    own_features: bool = False
    shared_frequencies: bool = False
    shared_weights: bool = False
    sampling: Literal["local", "path"] = "local"
    is_antithetic: bool = False
    kl_weight: float = 1.0


@dataclass(frozen=True)
class ModelConfig:
    """A whole model.

    Attributes:
        n_inputs: number P of input columns.
        layers: hidden layers and, last, the output layer.
        concatenate_input: hand the original input to every layer beside the hidden values.
        input_dependent_noise: learn the noise variance as a function of the input.
        shared_noise: one noise variance for all outputs.
        n_samples: Monte Carlo samples of the hidden layers in training.
        n_paths: function paths kept for prediction.
        n_components: components of a mixture density for each output, with logits from the last layer; 0
            for Gaussian noise.
    """

    n_inputs: int
    layers: tuple[LayerConfig, ...]
    concatenate_input: bool = True
    input_dependent_noise: bool = False
    shared_noise: bool = False
    n_samples: int = 100
    n_paths: int = 100
    n_components: int = 0

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("model: layers is empty. Give at least an output layer.")
        for index, layer in enumerate(self.layers[:-1]):
            if layer.weights == "exact":
                raise ConfigError(
                    f"model: layer {index} is hidden and has weights='exact', which exist in closed "
                    "form only for the last layer. Use 'mean-field' or 'full'."
                )
        width = self.layers[-1].width
        if self.n_components and (width % self.n_components or self.layers[-1].weights == "exact"):
            raise ConfigError(
                f"model: {self.n_components} mixture components for each output, but a last layer of "
                f"width {width} with {self.layers[-1].weights!r} weights. Make it outputs × components "
                "wide, with 'mean-field' or 'full' weights."
            )

    @property
    def n_outputs(self) -> int:
        """Number D of outputs."""
        return self.layers[-1].width // (self.n_components or 1)


def to_dict(config: ModelConfig) -> dict[str, Any]:
    """A declaration as plain data."""
    return dataclasses.asdict(config)


def from_dict(data: dict[str, Any]) -> ModelConfig:
    """The declaration that :func:`to_dict` wrote."""
    layers = tuple(
        LayerConfig(**{**layer, "blocks": tuple(_block(block) for block in layer["blocks"])})
        for layer in data["layers"]
    )
    return ModelConfig(**{**data, "layers": layers})


def _block(data: dict[str, Any]) -> BlockConfig:
    columns = data.get("columns")
    lists = {"extras": tuple(data["extras"]), "columns": columns and tuple(columns)}
    return BlockConfig(**{**data, **lists})
