"""Models of random features that the paper compares with, made of the parts of our own model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.baselines.base import Baseline
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.estimators import DeepLFMRegressor
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for
from deeplfm.terms import BroadBand, BuildContext, Deep, NamedModel, Paper, SharedForces, Table
from deeplfm.terms.base import collapsed_schedule, set_noise
from deeplfm.terms.deep import N_PATHS, N_SAMPLES, initialise_layer
from deeplfm.training import Rows, Schedule

_NOISE_VARIANCE = 0.1
_BROAD_BAND_STD, _SPECTRAL_RATE = 0.1, 0.02


class RandomFeatures(Baseline):
    """A comparator that is a :class:`DeepLFMRegressor` with a model of its own."""

    n_steps: int | None
    time_limit: float | None

    def _regressor(self, n_inputs: int) -> DeepLFMRegressor:
        """The regressor for this number of inputs."""
        raise NotImplementedError

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        regressor = self._regressor(x.shape[1])
        regressor.set_params(
            n_steps=self.n_steps,
            time_limit=self.time_limit,
            random_state=self.random_state,
            progress=False,
        )
        self.regressor_ = regressor.fit(x.numpy(), y.numpy())

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        return self.regressor_.posterior(x.numpy())


@dataclass(eq=False, repr=False)
class DeepGP(RandomFeatures):
    """A deep Gaussian process of random features, of one kernel or another.

    Args:
        hidden: widths of the hidden layers.
        n_features: frequencies of each layer.
        follows_paper: train as in the paper's text; otherwise as our own deep model, with frequencies
            from the data, an exact output layer, and calibration on held-out rows.
        n_steps: training steps; ``None`` for the default of the model.
        time_limit: seconds; ``None`` for no limit.
        compile: use kernels compiled for this machine, as in :class:`DeepLFMRegressor`.
        random_state: the same integer gives the same bits.
    """

    system: ClassVar[str]
    has_spectrum: ClassVar[bool]  # frequencies can start at those of the data

    hidden: tuple[int, ...] = (3,)
    n_features: int = 100
    follows_paper: bool = True
    n_steps: int | None = None
    time_limit: float | None = None
    compile: bool = False
    random_state: int = 0

    def _regressor(self, n_inputs: int) -> DeepLFMRegressor:
        model: Any
        if self.follows_paper:
            model = Paper(self.hidden, n_features=self.n_features, system=self.system)
        elif n_inputs == 1 and self.has_spectrum:
            model = _Spectral(self.hidden, self.n_features, self.system)
        else:
            model = Table(self.hidden, n_features=self.n_features, system=self.system)
        return DeepLFMRegressor(model, compile=self.compile)


class DeepEQ(DeepGP):
    """DGP-EQ: exponentiated quadratic kernels (Cutajar et al. 2017); settings as in :class:`DeepGP`."""

    system = "eq"
    has_spectrum = True


class DeepArcCosine(DeepGP):
    """DGP-ARC: arc-cosine kernels of order one; settings as in :class:`DeepGP`."""

    system = "arc1"
    has_spectrum = False


@dataclass(eq=False, repr=False)
class LatentForceFeatures(RandomFeatures):
    """LFM-RFF: the classical latent force model with random features (Guarnizo and Álvarez 2018).

    No hidden layer, and outputs that share their forces.
    """

    is_series: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]] = ("n_forces", "n_features")

    n_forces: int = 2
    n_features: int = 20
    n_steps: int | None = None
    time_limit: float | None = None
    random_state: int = 0

    def _regressor(self, n_inputs: int) -> DeepLFMRegressor:
        return DeepLFMRegressor(SharedForces(self.n_forces, self.n_features))


@dataclass(eq=False, repr=False)
class HybridKernel(RandomFeatures):
    """Deep hybrid neural kernel (Mehrkanoon and Suykens 2018).

    Layers of random features of an exponentiated quadratic kernel, each followed by linear weights. The
    frequencies are not trained, and only the first layer sees the inputs.
    """

    counts: ClassVar[tuple[str, ...]] = ("n_features", "n_steps")

    hidden: tuple[int, ...] = (30,)
    n_features: int = 100
    n_steps: int = 300
    time_limit: float | None = None
    random_state: int = 0

    def _regressor(self, n_inputs: int) -> DeepLFMRegressor:
        return DeepLFMRegressor(_Hybrid(self.hidden, self.n_features), is_series=False)


@dataclass(frozen=True, repr=False)
class _Spectral(NamedModel):
    """Hidden layers with frequencies from the spectrum, and a small broad-band force beside them."""

    term_name: ClassVar[str] = "spectral"
    hidden: tuple[int, ...]
    n_features: int
    system: str

    def schedule(self, n_steps: int) -> Schedule:
        """Full batches, the exact output weights solved in each step."""
        return collapsed_schedule(n_steps, _SPECTRAL_RATE)

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """The sum of both terms, with a fixed starting size of the broad-band force."""
        deep = Deep(self.hidden, self.system, n_features=self.n_features)
        model = (deep + BroadBand(system=self.system)).build_features(rows, context)
        features = model.output_layer.block("broadband").features
        features.set_sensitivity(torch.full_like(features.sensitivity, _BROAD_BAND_STD))
        return model


@dataclass(frozen=True, repr=False)
class _Hybrid(NamedModel):
    """Random features with linear weights after each layer; only the first sees the inputs."""

    term_name: ClassVar[str] = "hybrid"
    hidden: tuple[int, ...]
    n_features: int

    def schedule(self, n_steps: int) -> Schedule:
        """Full batches, the exact output weights solved in each step."""
        return collapsed_schedule(n_steps)

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model whose frequencies stay as they were drawn."""
        block = BlockConfig(
            "eq", n_features=self.n_features, frequencies="prior-fixed", extras=("constant",)
        )
        hidden = tuple(LayerConfig(width, (block,), is_antithetic=True) for width in self.hidden)
        output = LayerConfig(rows.y.shape[1], (block,), "exact", own_features=True)
        config = ModelConfig(
            n_inputs=rows.x.shape[1],
            layers=(*hidden, output),
            concatenate_input=False,
            n_samples=N_SAMPLES,
            n_paths=N_PATHS,
        )
        model = DeepLFM(config, context.seed).to(context.dtype)
        generator = generator_for(context.seed, "start")
        for layer in model.layers[:-1]:
            initialise_layer(layer, generator)
        for layer in model.layers:
            features = layer.blocks[0].features
            with torch.no_grad():
                features.log_lengthscale.fill_(0.5 * math.log(features.n_inputs))
        set_noise(model, torch.full((rows.y.shape[1],), _NOISE_VARIANCE))
        return model
