r"""Recipes: architecture, starting values and schedule together, from the data at hand.

Every recipe is made of the same parts. For a series the output layer always has a *linear path*
beside the deep one, or in its place: features of time itself, so that the deep model starts no worse
than the best shallow one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.features import FirstOrder
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for, numpy_for
from deeplfm.starts.composition import find_composition
from deeplfm.starts.initial import (
    observed_series,
    start_as_paper,
    start_broad,
    start_from_pursuit,
    start_from_spectrum,
)
from deeplfm.training import Phase, Rows, Schedule
from deeplfm.training.race import Recipe

STARTS = ("race", "paper", "spectrum", "pursuit", "deep", "composition", "table")

_RUNNING = {"lower_limit": -math.inf}  # a record cut out of a system that was running before
_BROAD = BlockConfig(
    inputs="original", n_features=60, frequencies="prior-fixed", options=_RUNNING
)


@dataclass(frozen=True)
class Architecture:
    """What a user may choose about the model.

    Attributes:
        system: feature map of the deep path.
        hidden: widths of the hidden layers.
        n_forces: number Q of latent forces of each deep block.
        n_features: number M of frequencies per force.
        input_dependent_noise: learn the noise as a function of the input.
        dtype: of the parameters.
    """

    system: str = "ode1"
    hidden: tuple[int, ...] = (3,)
    n_forces: int = 1
    n_features: int = 100
    input_dependent_noise: bool = False
    dtype: torch.dtype = torch.float64


def paper_recipe(architecture: Architecture, n_steps: int, eq_lengthscale: float = 0.01) -> Recipe:
    """The paper's text, letter by letter: var-fixed, mean-field, ELBO, AdamW at 0.01, 100 samples.

    Args:
        architecture: system, widths, forces and features.
        n_steps: training steps; the paper does not say.
        eq_lengthscale: start of the lengthscales of a DGP (0.01, on UCI the width of the layer).
    """
    block = BlockConfig(
        architecture.system, n_forces=architecture.n_forces, n_features=architecture.n_features
    )

    def build(rows: Rows, seed: int) -> DeepLFM:
        hidden = tuple(LayerConfig(width, (block,)) for width in architecture.hidden)
        output = LayerConfig(rows.y.shape[1], (block,), own_features=True)
        config = _config(architecture, rows, (*hidden, output), n_samples=100, n_paths=100)
        model = _model(config, architecture, seed)
        start_as_paper(model, generator_for(seed, "start"), eq_lengthscale)
        return model

    return Recipe("paper", build, Schedule("elbo", (Phase(n_steps),), batch_size=1000))


def pursuit_recipe(
    architecture: Architecture,
    name: str = "pursuit",
    n_lines: int = 20,
    bandwidth: float = 0.5,
    jitter: float = 0.0,
    learn_bandwidth: bool = False,
    n_steps: int = 60,
) -> Recipe:
    """The linear path alone: lines found by matching pursuit, and a broad-band residual.

    Args:
        architecture: dtype and noise.
        name: of the recipe.
        n_lines: at most this many lines for each output.
        bandwidth: of each line, in units of one over the record length.
        jitter: relative bandwidth of each line.
        learn_bandwidth: let the evidence move the bandwidths.
        n_steps: training steps.
    """

    def build(rows: Rows, seed: int) -> DeepLFM:
        lines = BlockConfig(
            n_forces=n_lines + 1, n_features=6, frequencies="nodes", options=_RUNNING
        )
        output = LayerConfig(rows.y.shape[1], (lines, _BROAD), "exact", own_features=True)
        model = _model(_config(architecture, rows, (output,), 1, 1), architecture, seed)
        line_block, broad_block = model.output_layer.blocks
        found = start_from_pursuit(line_block, rows, bandwidth, jitter)
        line_block.features.log_lengthscale.requires_grad_(learn_bandwidth)
        left = torch.tensor([pursuit.residual_variance[pursuit.n_supported] for pursuit in found])
        _set_noise(model, left)
        start_broad(broad_block, rows, left.clamp_min(_LEAST_NOISE).sqrt().to(architecture.dtype))
        return model

    return Recipe(name, build, _collapsed(n_steps))


def deep_recipe(architecture: Architecture, n_lines: int = 8, n_steps: int = 60) -> Recipe:
    """Linear and deep path side by side: begins as the shallow model, deepens as the data ask."""
    first = _block(architecture)
    deep = replace(first, inputs="hidden", n_forces=1, n_features=30)
    shallow = pursuit_recipe(architecture, n_lines=n_lines, bandwidth=2.0, learn_bandwidth=True)

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs = rows.y.shape[1]
        linear = shallow.build(rows, seed)
        hidden = tuple(LayerConfig(width, (first,)) for width in architecture.hidden)
        blocks = (deep, *(replace(b, inputs="original") for b in linear.config.layers[0].blocks))
        output = LayerConfig(n_outputs, blocks, "exact", own_features=True)
        model = _model(_config(architecture, rows, (*hidden, output), 4, 16), architecture, seed)
        generator = generator_for(seed, "start")
        for layer in model.layers[:-1]:
            _start_hidden(layer, generator)
        start_from_spectrum(model.layers[0].blocks[0], rows, numpy_for(seed, "start"))
        deep_block, *linear_blocks = model.output_layer.blocks
        _start_deep(deep_block)
        deep_block.features.set_sensitivity(
            torch.full_like(deep_block.features.sensitivity, 0.03)
        )
        for block, start in zip(linear_blocks, linear.output_layer.blocks, strict=True):
            block.load_state_dict(start.state_dict())
        model.likelihood.load_state_dict(linear.likelihood.state_dict())
        return model

    return Recipe("deep", build, _collapsed(n_steps))


def spectrum_recipe(architecture: Architecture, n_steps: int = 150) -> Recipe:
    """The deep path, its first layer drawn from the periodogram, beside a broad-band residual."""
    first = _block(architecture)
    deep = replace(first, n_forces=1)

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs = rows.y.shape[1]
        hidden = tuple(LayerConfig(width, (first,)) for width in architecture.hidden)
        output = LayerConfig(n_outputs, (deep, _BROAD), "exact", own_features=True)
        model = _model(_config(architecture, rows, (*hidden, output), 4, 16), architecture, seed)
        rng, generator = numpy_for(seed, "start"), generator_for(seed, "start")
        for layer in model.layers[:-1]:
            _start_hidden(layer, generator)
        start_from_spectrum(model.layers[0].blocks[0], rows, rng)
        deep_block, broad_block = model.output_layer.blocks
        _start_deep(deep_block)
        _set_noise(model, torch.full((n_outputs,), 0.05))
        start_broad(broad_block, rows, torch.full((n_outputs,), 0.1, dtype=architecture.dtype))
        return model

    return Recipe("spectrum", build, _collapsed(n_steps))


def composition_recipe(architecture: Architecture, n_lines: int = 2, n_steps: int = 60) -> Recipe:
    """One hidden unit for each output, found by searching for compositions by their evidence."""

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_outputs = rows.y.shape[1]
        inner = BlockConfig(
            n_forces=n_lines,
            n_features=1,
            frequencies="nodes",
            extras=("trend",),
            options=_RUNNING,
        )
        outer = BlockConfig(
            inputs="hidden",
            n_features=architecture.n_features,
            frequencies="prior-fixed",
            extras=("constant",),
            options=_RUNNING,
        )
        layers = (
            LayerConfig(n_outputs, (inner,), own_features=True),
            LayerConfig(n_outputs, (outer,), "exact", own_features=True),
        )
        model = _model(_config(architecture, rows, layers, 4, 16), architecture, seed)
        for d in range(n_outputs):
            generator = generator_for(seed, "start", d)
            _start_composition(model, rows, d, generator, n_search_steps=(5 * n_steps) // 2)
        return model

    return Recipe("composition", build, _collapsed(n_steps))


def table_recipe(architecture: Architecture, n_steps: int = 2000) -> Recipe:
    """For tables: the deep path on all inputs beside a shallow one on the original inputs."""
    first = replace(_block(architecture), extras=("trend",))
    deep = replace(_block(architecture), n_forces=1)
    shallow = BlockConfig("eq", "original", n_features=100, extras=("constant", "trend"))

    def build(rows: Rows, seed: int) -> DeepLFM:
        hidden = tuple(LayerConfig(width, (first,)) for width in architecture.hidden)
        output = LayerConfig(rows.y.shape[1], (deep, shallow), "exact", own_features=True)
        model = _model(_config(architecture, rows, (*hidden, output), 4, 16), architecture, seed)
        generator = generator_for(seed, "start")
        for layer in model.layers[:-1]:
            _start_hidden(layer, generator)
        deep_block, shallow_block = model.output_layer.blocks
        _start_deep(deep_block)
        with torch.no_grad():
            width = math.sqrt(rows.x.shape[1])
            shallow_block.features.log_lengthscale.fill_(math.log(width))
            shallow_block.frequencies.reset(shallow_block.features)
        _set_noise(model, torch.full((rows.y.shape[1],), 0.1))
        return model

    schedule = Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=1000,
        final_rate_fraction=0.05,
        weight_decay=0.0,
        natural_rate=0.1,
    )
    return Recipe("table", build, schedule)


def recipes_for(
    start: str, architecture: Architecture, is_series: bool, n_steps: int | None = None
) -> list[Recipe]:
    """The recipes behind a start: one, or all that race.

    Args:
        start: one of ``STARTS``.
        architecture: what the user chose.
        is_series: one input that is time; a table otherwise.
        n_steps: overrides the steps of a single start.
    """

    def steps(default: int) -> int:
        return default if n_steps is None else n_steps

    single = {
        "paper": lambda: paper_recipe(architecture, steps(1000)),
        "table": lambda: table_recipe(architecture, steps(2000)),
        "deep": lambda: deep_recipe(architecture, n_steps=steps(60)),
        "spectrum": lambda: spectrum_recipe(architecture, steps(150)),
        "pursuit": lambda: pursuit_recipe(architecture, n_steps=steps(60)),
        "composition": lambda: composition_recipe(architecture, n_steps=steps(60)),
    }
    if start not in STARTS:
        raise ConfigError(f"start: {start!r} is not known. Choose one of {', '.join(STARTS)}.")
    if start in ("spectrum", "pursuit", "deep", "composition") and not is_series:
        raise ConfigError(
            f"start: {start!r} reads the spectrum of a series, and there are several inputs. "
            "Use 'race', 'table' or 'paper'."
        )
    if start != "race":
        return [single[start]()]
    if not is_series:
        return [single["table"]()]
    return [
        pursuit_recipe(architecture, "pursuit: steady lines", n_steps=steps(60)),
        pursuit_recipe(architecture, "pursuit: wandering", jitter=0.001, n_steps=steps(60)),
        pursuit_recipe(
            architecture,
            "pursuit: learned",
            bandwidth=1.0,
            learn_bandwidth=True,
            n_steps=steps(60),
        ),
        pursuit_recipe(
            architecture,
            "pursuit: few lines",
            n_lines=8,
            bandwidth=2.0,
            learn_bandwidth=True,
            n_steps=steps(80),
        ),
        single["deep"](),
        single["composition"](),
    ]


_LEAST_NOISE = 1e-6


def _block(architecture: Architecture) -> BlockConfig:
    """A block of the deep path, as the user chose it."""
    return BlockConfig(
        architecture.system,
        n_forces=architecture.n_forces,
        n_features=architecture.n_features,
        options=_RUNNING if architecture.system == "ode1" else {},
    )


def _config(
    architecture: Architecture,
    rows: Rows,
    layers: tuple[LayerConfig, ...],
    n_samples: int,
    n_paths: int,
) -> ModelConfig:
    return ModelConfig(
        n_inputs=rows.x.shape[1],
        layers=layers,
        input_dependent_noise=architecture.input_dependent_noise,
        n_samples=n_samples,
        n_paths=n_paths,
    )


def _model(config: ModelConfig, architecture: Architecture, seed: int) -> DeepLFM:
    return DeepLFM(config, seed).to(architecture.dtype)


def _collapsed(n_steps: int) -> Schedule:
    return Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=None,
        learning_rate=0.05,
        final_rate_fraction=0.1,
        weight_decay=0.0,
    )


@torch.no_grad()
def _set_noise(model: DeepLFM, variance: torch.Tensor) -> None:
    model.likelihood.log_variance.copy_(variance.clamp_min(_LEAST_NOISE).log())


@torch.no_grad()
def _start_hidden(layer: torch.nn.Module, generator: torch.Generator) -> None:
    """Weights drawn from their prior, with little doubt: a random warp to begin with."""
    layer.weights.mean.normal_(generator=generator)
    layer.weights.log_std.fill_(math.log(0.1))
    for block in layer.blocks:
        if isinstance(block.features, FirstOrder):
            block.features.log_decay.fill_(math.log(0.1))
        block.frequencies.reset(block.features)


@torch.no_grad()
def _start_deep(block: torch.nn.Module) -> None:
    """Deep features of order one over the range of hidden values."""
    if isinstance(block.features, FirstOrder):
        block.features.log_decay.fill_(math.log(0.1))
    block.frequencies.reset(block.features)
    block.frequencies.log_std.fill_(math.log(0.1))
    block.frequencies.mean.copy_(block.frequencies.noise[0] * block.features.frequency_prior()[1])


@torch.no_grad()
def _start_composition(
    model: DeepLFM, rows: Rows, output: int, generator: torch.Generator, n_search_steps: int
) -> None:
    """Write a composition into hidden unit and features of one output."""
    hidden, last = model.layers
    inner, outer = hidden.blocks[0].features, last.blocks[0].features
    time, value = (torch.as_tensor(item) for item in observed_series(rows, output))
    with torch.enable_grad():
        found = find_composition(
            time, value, generator, n_lines=inner.n_forces, n_steps=n_search_steps
        )
    size = torch.hypot(found.frequency, inner.decay[output, 0].double())
    inner.center[output, 0] = found.frequency
    inner.center.requires_grad_(True)
    sensitivity = inner.sensitivity
    sensitivity[output, 0] = size
    inner.set_sensitivity(sensitivity)
    # cos and sin of the search are a rotation of Re and Im of e^{jωt}/(γ+jω) times its size.
    angle = torch.atan2(found.frequency, inner.decay[output, 0].double())
    real = found.cosine * angle.cos() + found.sine * angle.sin()
    imag = found.sine * angle.cos() - found.cosine * angle.sin()
    hidden.weights.mean[output, :, 0] = torch.cat([real, imag, torch.tensor([found.slope])])
    hidden.weights.log_std[output] = math.log(0.03)
    others = torch.full_like(outer.sensitivity[output], 0.01)
    others[output] = found.scale
    sensitivity = outer.sensitivity
    sensitivity[output] = others
    outer.set_sensitivity(sensitivity)
    outer.log_lengthscale[output] = math.log(found.lengthscale * math.sqrt(2))
    model.likelihood.log_variance[output] = 2 * math.log(found.noise_std)
