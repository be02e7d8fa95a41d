"""Φ in blocks of samples and rows: the numbers of Φ in one piece, and those of a dense reference.

The promise is "exactly the numbers of the plain path", for values and for gradients, whatever a layer
is made of. The reference glues hidden values and inputs together, makes Φ whole and multiplies.
"""

import copy
import itertools
import math
import random

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.features import SYSTEMS
from deeplfm.features import columns as columns_module
from deeplfm.kernels import plain as plain_kernels
from deeplfm.kernels.tiles import Tile
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, collapsed, elbo, predictive

N_ROWS, N_SAMPLES, N_INPUTS, N_OUTPUTS = 3, 3, 2, 2
FEW_NUMBERS = 16  # of a sample of a row: 2 hidden values, 2 outputs, and what is made of them
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}

# Rows of a block of the last layer: some rows of one sample, or all rows of some samples.
CUTS = {"rows": 2, "samples": 2 * N_ROWS}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


X = torch.linspace(-0.5, 2, N_ROWS * N_INPUTS, dtype=torch.float64).view(N_INPUTS, N_ROWS).mT
Y = torch.stack([torch.sin(2 * X[:, 0]), X[:, 1]], -1)
Y[2, 0] = torch.nan


# --- what a layer may be made of ------------------------------------------------------------------

SETTINGS = {
    "system": list(SYSTEMS),
    "weights": ["mean-field", "full", "exact"],
    "frequencies": ["prior-fixed", "var-fixed", "var-resampled", "one noise per sample"],
    "inputs": [
        ("all",),
        ("hidden",),
        ("original",),
        ("hidden", "original"),
        ("all", "hidden", "original"),
    ],
    "groups": ["shared features", "own features", "shared weights"],
    "extras": [False, True],
    "sampling": ["local", "path"],
    "depth": [2, 3],
}


def pairs(case):
    return set(itertools.combinations(case.items(), 2))


def cases():
    """Few cases in which every pair of settings meets: the best of many random ones, in turn."""
    chance = random.Random(0)
    missing = {
        pair
        for left, right in itertools.combinations(SETTINGS, 2)
        for pair in itertools.product(
            ((left, value) for value in SETTINGS[left]),
            ((right, value) for value in SETTINGS[right]),
        )
    }
    while missing:
        drawn = [
            {name: chance.choice(values) for name, values in SETTINGS.items()} for _ in range(300)
        ]
        best = max(drawn, key=lambda case: len(pairs(case) & missing))
        missing -= pairs(best)
        yield best


CASES = {"-".join(str(value) for value in case.values()): case for case in cases()}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def make(
    system="ode1",
    weights="mean-field",
    frequencies="var-fixed",
    inputs=("all",),
    groups="shared features",
    extras=False,
    sampling="local",
    depth=2,
    n_features=3,
    hidden_scale=1.0,
    **options,
):
    """Layers off the round numbers they begin with, and exact weights that know some rows."""
    known = ("constant", "trend")
    if SYSTEMS[system].n_states:
        known = (*known, "initial_state")
    per_sample = frequencies == "one noise per sample"

    def block(seen):
        return BlockConfig(
            system,
            seen,
            n_forces=2,
            n_features=n_features,
            frequencies="var-fixed" if per_sample else frequencies,
            noise_per_sample=per_sample,
            extras=known if extras else (),
            options=options,
        )

    own = {
        "shared features": {},
        "own features": {"own_features": True},
        "shared weights": {"shared_weights": True},
    }[groups]
    inner = "full" if weights == "full" else "mean-field"
    layers = (
        LayerConfig(2, (block("all"),), inner, sampling=sampling),
        LayerConfig(3, tuple(map(block, inputs)), inner, sampling=sampling, **own),
        LayerConfig(N_OUTPUTS, tuple(map(block, inputs)), weights, **own),
    )
    layers = layers if depth == 3 else layers[::2]
    config = ModelConfig(N_INPUTS, layers, n_samples=N_SAMPLES, n_paths=N_SAMPLES)
    model = DeepLFM(config, seed=0).double()
    with torch.no_grad():
        for k, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.requires_grad:
                parameter.add_(0.3 * normal(*parameter.shape, seed=k))
                if name.endswith("weights.log_std"):
                    parameter.sub_(1.5)
                if name.endswith("raw_root"):
                    parameter.mul_(0.2).diagonal(dim1=-2, dim2=-1).sub_(1.5)
        for layer in model.layers[:-1]:  # a third layer of large values has no digits left
            layer.weights.mean.mul_(hidden_scale if depth == 2 else 0.3 * hidden_scale)
            if hidden_scale < 1:
                layer.weights.log_std.add_(math.log(hidden_scale))
        model.likelihood.log_variance.add_(4.0)
        if model.has_exact_output:
            model.condition(X, Y)
    return model


def learned(model):
    """Parameters with a gradient, where there are any numbers in them."""
    return {n: item for n, item in model.named_parameters() if item.requires_grad and item.numel()}


def gradients(value, model):
    """Of every parameter."""
    parameters = learned(model)
    found = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    return {f"∂ {name}": item for name, item in zip(parameters, found, strict=True)}


def cut(monkeypatch, model, n_rows):
    """Let a block of the last layer have this many rows, counting those of every sample."""
    x = X.to(model.likelihood.log_variance.dtype)
    waves = sum(block.waves_per_row for block in model.features(x, N_SAMPLES, seeded()).blocks)
    limit(monkeypatch, max(1, n_rows * waves), max(1, waves))


def limit(monkeypatch, block_waves, tile_waves):
    """Keep nothing, and make nothing larger than this at once."""
    monkeypatch.setattr(columns_module, "_KEPT_WAVES", 0)
    monkeypatch.setattr(columns_module, "_CHUNK_WAVES", block_waves)
    monkeypatch.setattr(plain_kernels, "_TILE_WAVES", tile_waves)


def project(*items):
    """One number that hears every entry in its own way."""
    return sum(
        (item * normal(*item.shape, seed=k).to(item.dtype)).mean() for k, item in enumerate(items)
    )


def assert_close(found, expected, tolerance):
    """In units of the largest entry, or of 1 where all are smaller."""
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        left = found[name]
        assert left.shape == right.shape, name
        assert left.dtype == right.dtype, name
        error = (left - right).abs().max().item() / max(1.0, right.abs().max().item())
        assert error < tolerance, (name, error)


def everything(model):
    """All that is asked of a model, and the gradients of every parameter."""
    model = copy.deepcopy(model)
    x, y = (item.to(model.likelihood.log_variance.dtype) for item in (X, Y))
    layer, batch = model.output_layer, Batch(x, y, 3 * N_ROWS)
    found = {"elbo": elbo(model, batch, N_SAMPLES, seeded(1))}
    noise = layer.path_noise(N_SAMPLES, seeded(2))
    found["paths"] = layer.apply_paths(model.features(x, N_SAMPLES, seeded(3)), noise)
    found |= gradients(found["elbo"] + project(found["paths"]), model)
    with torch.no_grad():
        found["mean"], found["variance"] = model(x, N_SAMPLES, seeded(4))
        found["predictive"] = predictive(model, batch, N_SAMPLES, seeded(5))
    found["gram"], found["moment"] = model.statistics(x, y)
    posterior = model.posterior(x)
    found["posterior mean"], found["posterior std"] = posterior.mean, posterior.std()
    found["draws"] = posterior.sample(2 * N_SAMPLES + 1, latent=True)
    if model.has_exact_output:
        found["collapsed"] = collapsed(model, batch, N_SAMPLES, seeded(7), rate=0.6)
        found["solved mean"], found["solved root"] = layer.weights.mean, layer.weights.root
        found |= {f"collapsed {k}": v for k, v in gradients(found["collapsed"], model).items()}
    return {name: item.detach().clone() for name, item in found.items()}


# --- blocks and the whole -------------------------------------------------------------------------


@every_case
def test_blocks_give_the_numbers_of_one_piece(case, monkeypatch):
    model = make(**case)
    plain = everything(model)
    cut(monkeypatch, model, CUTS["rows"])
    assert_close(everything(model), plain, TOLERANCE[torch.float64])


@pytest.mark.parametrize("case", list(CASES.values())[::2], ids=list(CASES)[::2])
def test_blocks_give_the_numbers_of_one_piece_in_single_precision(case, monkeypatch):
    # parabolas of wide hidden values have no digits left in single precision
    is_wide = case["system"] == "arc2" and case["weights"] == "exact"
    model = make(**case, hidden_scale=0.5 if is_wide else 1.0).float()
    plain = everything(model)
    cut(monkeypatch, model, CUTS["samples"])
    assert_close(everything(model), plain, TOLERANCE[torch.float32])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("frequencies", ["var-fixed", "var-resampled"])
def test_blocks_are_cut_as_these_tests_suppose(system, frequencies, monkeypatch):
    model = make(system, "full", frequencies, inputs=("hidden", "original"))
    expected = {"one": [(3, 3)], "rows": [(1, 2), (1, 1)] * 3, "samples": [(2, 3), (1, 3)]}
    for kind, sizes in expected.items():
        if kind != "one":
            cut(monkeypatch, model, CUTS[kind])
        features = model.features(X, N_SAMPLES, seeded())
        with monkeypatch.context() as patch, torch.no_grad():
            calls = spied(patch, system)
            model.output_layer.moments(features)
        assert [shape[:-1] for shape in calls if len(shape) == 3] == sizes


def spied(monkeypatch, system):
    """Shapes of the inputs for which columns are made from now on."""
    calls, waves = [], SYSTEMS[system].basis

    def spy(self, x, tables, base=None):
        calls.append(tuple(x.shape))
        return waves(self, x, tables, base)

    monkeypatch.setattr(SYSTEMS[system], "basis", spy)
    return calls


@pytest.mark.parametrize("n_rows", [1, N_ROWS, CUTS["samples"], 10**6])
def test_numbers_do_not_depend_on_the_size_of_a_block(n_rows, monkeypatch):
    model = make("ode1", inputs=("hidden", "original"), extras=True)
    plain = everything(model)
    cut(monkeypatch, model, n_rows)
    assert_close(everything(model), plain, 1e-10)


OPTIONS = {
    "negative lower limit": {"lower_limit": -0.7},
    "no transient": {"lower_limit": -math.inf},
    "tiny hidden values": {"hidden_scale": 1e-3},
}


def test_one_sample_and_one_row_in_blocks(monkeypatch):
    model = make("ode1", inputs=("hidden", "original"), extras=True)
    for n_samples, x in ((1, X), (N_SAMPLES, X[1:2]), (1, X[1:2])):
        monkeypatch.undo()
        plain = dict(enumerate(model(x, n_samples, seeded())))
        cut(monkeypatch, model, 1)
        assert_close(dict(enumerate(model(x, n_samples, seeded()))), plain, 1e-10)


def test_inputs_left_out_of_later_layers_in_blocks(monkeypatch):
    block = BlockConfig(n_features=3, extras=("constant", "initial_state"))
    layers = (LayerConfig(2, (block,)), LayerConfig(1, (block,), weights="full"))
    model = DeepLFM(ModelConfig(N_INPUTS, layers, concatenate_input=False), seed=0).double()
    results = []
    for n_rows in (None, *CUTS.values()):
        if n_rows is not None:
            cut(monkeypatch, model, n_rows)
        mean, variance = model(X, N_SAMPLES, seeded())
        results.append(
            {"mean": mean, "variance": variance, **gradients(project(mean, variance), model)}
        )
    assert_close(results[1], results[0], 1e-10)
    assert_close(results[2], results[0], 1e-10)


@pytest.mark.parametrize("system", ["ode1", "eq", "arc1"])
def test_gradients_reach_the_inputs_in_blocks(system, monkeypatch):
    model = make(system, inputs=("all", "original"), extras=True)
    found = []
    for n_rows in (None, *CUTS.values()):
        if n_rows is not None:
            cut(monkeypatch, model, n_rows)
        x = X.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(project(*model(x, N_SAMPLES, seeded())), x)
        found.append({"x": gradient})
    assert_close(found[1], found[0], 1e-10)
    assert_close(found[2], found[0], 1e-10)


@pytest.mark.parametrize("frozen", [".features.", ".frequencies.", ".weights.", "mean", "raw_root"])
@pytest.mark.parametrize("inputs", [("hidden",), ("original",)])
def test_frozen_parameters_in_blocks(frozen, inputs, monkeypatch):
    model = make("ode1", "full", "one noise per sample", inputs)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and frozen not in name)
    batch = Batch(X, Y, N_ROWS)
    plain = gradients(elbo(model, batch, N_SAMPLES, seeded()), model)
    cut(monkeypatch, model, CUTS["rows"])
    assert_close(gradients(elbo(model, batch, N_SAMPLES, seeded()), model), plain, 1e-10)


def test_only_the_means_learn_in_blocks(monkeypatch):
    """Features that have no gradient leave the variance without one."""
    model = make("ode1", "full", "one noise per sample", ("original",))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name == "layers.1.weights.mean")
    batch = Batch(X, Y, N_ROWS)
    plain = gradients(elbo(model, batch, N_SAMPLES, seeded()), model)
    cut(monkeypatch, model, CUTS["rows"])
    assert_close(gradients(elbo(model, batch, N_SAMPLES, seeded()), model), plain, 1e-10)


def test_noise_is_drawn_alike_in_blocks(monkeypatch):
    """Blocks take no part of the stream: what comes after is not disturbed."""
    model, states = make("ode1", frequencies="var-resampled"), []
    for n_rows in (None, *CUTS.values()):
        if n_rows is not None:
            cut(monkeypatch, model, n_rows)
        generator = seeded()
        model(X, N_SAMPLES, generator)
        states.append(generator.get_state())
    assert all(torch.equal(state, states[0]) for state in states)


@pytest.mark.parametrize("inputs", [("all",), ("hidden", "original")])
@pytest.mark.parametrize("frequencies", ["var-fixed", "var-resampled"])
def test_whole_columns_do_not_depend_on_blocks(inputs, frequencies, monkeypatch):
    """Families that are the same for all samples stay so."""
    model = make("ode1", inputs=inputs, frequencies=frequencies, extras=True)
    plain = dict(enumerate(model.features(X, N_SAMPLES, seeded()).whole()))
    for n_rows in CUTS.values():
        cut(monkeypatch, model, n_rows)
        whole = dict(enumerate(model.features(X, N_SAMPLES, seeded()).whole()))
        assert_close(whole, plain, 1e-10)


# --- squares without moments ----------------------------------------------------------------------


def bound_of_moments(model, batch, generator):
    """The evidence lower bound as it is written, from the moments of every sample."""
    mean, variance = (
        item.expand(N_SAMPLES, -1, -1) for item in model(batch.x, N_SAMPLES, generator)
    )
    observed, noise = ~batch.y.isnan(), model.likelihood.variance(batch.x)
    target = torch.where(observed, batch.y, 0.0)
    squares = ((target - mean).square() + variance) / noise
    log_density = -0.5 * (math.log(2 * math.pi) + noise.log() + squares).mean(0)
    weight = 1.0 if batch.row_weight is None else batch.row_weight[:, None]
    total = batch.n_rows / len(batch.x) * (log_density * observed * weight).sum()
    return total - model.kl() - model.likelihood.penalty()


def check_bound(model, monkeypatch, dtype=torch.float64):
    x, y, weight = (item.to(dtype) for item in (X, Y, torch.tensor([0.5, 2.0, 1.0])))
    for row_weight in (None, weight):
        batch = Batch(x, y, 3 * N_ROWS, row_weight)
        value = bound_of_moments(model, batch, seeded()).to(dtype)
        expected = {"elbo": value, **gradients(value, model)}
        for n_rows in (None, *CUTS.values()):
            if n_rows is not None:
                cut(monkeypatch, model, n_rows)
            value = elbo(model, batch, N_SAMPLES, seeded()).to(dtype)
            assert_close({"elbo": value, **gradients(value, model)}, expected, TOLERANCE[dtype])
            with torch.no_grad():
                value = elbo(model, batch, N_SAMPLES, seeded()).to(dtype)
            assert_close({"elbo": value}, {"elbo": expected["elbo"]}, TOLERANCE[dtype])
        monkeypatch.undo()


@every_case
def test_bound_is_that_of_the_moments(case, monkeypatch):
    check_bound(make(**case), monkeypatch)


@pytest.mark.parametrize("groups", SETTINGS["groups"])
@pytest.mark.parametrize("inputs", SETTINGS["inputs"])
@pytest.mark.parametrize("frequencies", ["var-fixed", "var-resampled"])
def test_bound_of_independent_weights_is_that_of_the_moments(
    groups, inputs, frequencies, monkeypatch
):
    """Several maps without columns beside each other, maps that no sample changes, and extras."""
    model = make("ode1", "mean-field", frequencies, inputs, groups, extras=True)
    check_bound(model, monkeypatch)
    check_bound(model.float(), monkeypatch, torch.float32)


def test_bound_of_maps_with_and_without_columns_is_that_of_the_moments(monkeypatch):
    known = {"n_features": 3, "extras": ("constant",)}
    blocks = (
        BlockConfig("ode1", **known),
        BlockConfig("arc1", **known),
        BlockConfig("eq", **known),
    )
    layers = (LayerConfig(2, blocks[:1]), LayerConfig(N_OUTPUTS, blocks, own_features=True))
    config = ModelConfig(N_INPUTS, layers, input_dependent_noise=True)
    check_bound(DeepLFM(config, seed=0).double(), monkeypatch)


@pytest.mark.parametrize("weights", ["mean-field", "full"])
@pytest.mark.parametrize("inputs", [("all",), ("hidden", "original")])
def test_squares_have_gradients_of_targets_and_precisions(weights, inputs, monkeypatch):
    model = make("ode1", weights, inputs=inputs, groups="own features", extras=True)
    layer, found = model.output_layer, []
    known = [normal(N_ROWS, N_OUTPUTS).requires_grad_(), normal(N_ROWS, N_OUTPUTS, seed=1).exp()]
    known[1].requires_grad_()
    mean, variance = layer.moments(model.features(X, N_SAMPLES, seeded()))
    expected = (known[1] * ((known[0] - mean).square() + variance).mean(0)).sum()
    for n_rows in (None, *CUTS.values()):
        if n_rows is not None:
            cut(monkeypatch, model, n_rows)
        found.append(layer.squares(model.features(X, N_SAMPLES, seeded()), *known))
    for value in found:
        assert_close(
            {"squares": value, **dict(enumerate(torch.autograd.grad(value, known)))},
            {
                "squares": expected,
                **dict(enumerate(torch.autograd.grad(expected, known, retain_graph=True))),
            },
            1e-10,
        )


@pytest.mark.parametrize("system", ["ode1", "eq"])
def test_a_step_evaluates_every_wave_once(system, monkeypatch):
    model, rows = make(system, inputs=("all",)), []
    limit(monkeypatch, 1, 10**6)
    evaluate = Tile.evaluate
    monkeypatch.setattr(Tile, "evaluate", lambda tile: (rows.append(tile.place), evaluate(tile)))
    elbo(model, Batch(X, Y, N_ROWS), N_SAMPLES, seeded()).backward()
    assert rows == [(slice(0, N_SAMPLES), slice(0, N_ROWS))]


def test_blocks_of_a_step_are_made_once(monkeypatch):
    model = make("arc1", "full", inputs=("all",))
    cut(monkeypatch, model, CUTS["rows"])
    calls = spied(monkeypatch, "arc1")
    elbo(model, Batch(X, Y, N_ROWS), N_SAMPLES, seeded()).backward()
    assert [shape[:-1] for shape in calls if len(shape) == 3] == [(1, 2), (1, 1)] * N_SAMPLES


# --- a dense reference ----------------------------------------------------------------------------


def dense_columns(layer, x, n_samples, generator, hidden):
    """Φ of a layer, S G N K: the map is shown all inputs, and all samples are made."""
    parts = []
    for block in layer.blocks:
        frequency = block.frequencies(block.features, n_samples, generator)
        seen = []
        if block.sees_hidden:
            seen.append(hidden)
        if block.sees_original:
            seen.append(x.expand(n_samples, -1, -1))
        phi = block.features(torch.cat(seen, -1), frequency, block.frequencies.feature_weight)
        assert phi.shape[-1] == block.features.n_columns
        parts.append(phi)
    return torch.cat(parts, -1)


def dense_moments(layer, phi):
    """ΦM and diag ΦCΦᵀ, S N D."""
    weights = layer.weights
    if hasattr(weights, "log_std"):
        covariance = torch.diag_embed((2 * weights.log_std).exp().mT)  # G U K K
    else:
        covariance = weights.root @ weights.root.mT
    groups = phi.shape[1]
    mean = torch.einsum("sgnk,gku->sngu", phi, weights.mean.expand(groups, -1, -1))
    covariance = covariance.expand(groups, -1, -1, -1)
    variance = torch.einsum("sgnk,gukl,sgnl->sngu", phi, covariance, phi)
    return mean.flatten(-2), variance.flatten(-2)


def dense_paths(layer, phi, noise):
    """ΦW with W = M + Rε, S N D."""
    weights = layer.weights
    if hasattr(weights, "log_std"):
        root = torch.diag_embed(weights.log_std.exp().mT)  # G U K K
    else:
        root = weights.root
    drawn = weights.mean + torch.einsum("gukl,sglu->sgku", root, noise)
    drawn = drawn.expand(-1, phi.shape[1], -1, -1)
    return torch.einsum("sgnk,sgku->sngu", phi, drawn).flatten(-2)


def dense(model, x, n_samples, generator, paths=False):
    """Φ of the last layer."""
    hidden = None
    for layer in model.layers[:-1]:
        phi = dense_columns(layer, x, n_samples, generator, hidden)
        if paths or layer.sampling == "path":
            hidden = dense_paths(layer, phi, layer.path_noise(n_samples, generator))
        else:
            mean, variance = dense_moments(layer, phi)
            noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
            hidden = mean + (variance + 1e-12).sqrt() * noise
    return dense_columns(model.output_layer, x, n_samples, generator, hidden)


def dense_answers(model, paths, target, precision):
    """What the model is asked for, from Φ made whole."""
    layer, generator = model.output_layer, seeded(1)
    phi = dense(model, X, N_SAMPLES, generator, paths)
    mean, variance = dense_moments(layer, phi)
    drawn = dense_paths(layer, phi, layer.path_noise(N_SAMPLES, generator))
    weight, shift = (
        item.mT.reshape(layer.n_groups, layer.n_units, N_ROWS)
        for item in (precision, precision * target)
    )
    return {
        "Φ": phi,
        "mean": mean,
        "variance": variance,
        "paths": drawn,
        "gram": torch.einsum("sgnk,gun,sgnl->gukl", phi, weight, phi) / N_SAMPLES,
        "moment": torch.einsum("sgnk,gun->gku", phi, shift) / N_SAMPLES,
        **gradients(project(mean, variance, drawn, phi.square().sum((1, 3))), model),
    }


def answers(model, paths, target, precision):
    """The same from blocks."""
    layer, generator = model.output_layer, seeded(1)
    columns = model.features(X, N_SAMPLES, generator, paths)
    mean, variance = (item.expand(N_SAMPLES, -1, -1) for item in layer.moments(columns))
    drawn = layer.apply_paths(columns, layer.path_noise(N_SAMPLES, generator))
    gram, moment = layer.statistics(columns, target, precision)
    (length,) = columns.map(squared_length)
    length = length.expand(N_SAMPLES, *length.shape[-3:]).sum((1, 3))
    return {
        "mean": mean,
        "variance": variance,
        "paths": drawn,
        "gram": gram,
        "moment": moment,
        **gradients(project(mean, variance, drawn, length), model),
    }


def squared_length(columns):
    """φᵀφ of every row, *S G N 1."""
    return (sum(family.square().sum(-1, keepdim=True) for family in columns),)


@every_case
def test_blocks_give_the_numbers_of_the_dense_reference(case, monkeypatch):
    check_against_the_dense_reference(make(**case), monkeypatch)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("frequencies", ["prior-fixed", "var-resampled"])
def test_options_of_responses_give_the_numbers_of_the_dense_reference(
    options, frequencies, monkeypatch
):
    model = make("ode1", "mean-field", frequencies, ("all",), extras=True, **options)
    check_against_the_dense_reference(model, monkeypatch)


def check_against_the_dense_reference(model, monkeypatch):
    target, precision = normal(N_ROWS, N_OUTPUTS), normal(N_ROWS, N_OUTPUTS, seed=1).square()
    for paths in (False, True):
        monkeypatch.undo()
        expected = dense_answers(model, paths, target, precision)
        phi = expected.pop("Φ")
        whole = model.features(X, N_SAMPLES, seeded(1), paths).whole()
        glued = torch.cat([family.expand(*phi.shape[:-1], -1) for family in whole], -1)
        assert_close({"Φ": glued}, {"Φ": phi}, 1e-10)
        if not paths:
            assert_close(answers(model, paths, target, precision), expected, 1e-10)
        cut(monkeypatch, model, CUTS["rows"])
        assert_close(answers(model, paths, target, precision), expected, 1e-10)


# --- what is paid once, and what is kept ----------------------------------------------------------


def test_columns_that_no_sample_changes_are_made_once(monkeypatch):
    model = make("ode1", inputs=("original",), depth=3)
    cut(monkeypatch, model, 1)
    calls = spied(monkeypatch, "ode1")
    project(*model(X, N_SAMPLES, seeded())).backward()
    assert calls == [(N_ROWS, N_INPUTS)] * 3  # one for each layer


def test_share_of_the_original_inputs_is_made_once():
    (block,) = make("ode1", inputs=("all",)).output_layer.blocks
    hidden = normal(N_SAMPLES, N_ROWS, 2)
    made = block(X, N_SAMPLES, None, hidden)
    assert [part.shape for part in made.base] == [(1, N_ROWS, 6)] * 2
    assert made.x is hidden
    assert made.waves_per_row == 2 * 6
    assert torch.equal(made.seen, torch.cat([hidden, X.expand(N_SAMPLES, -1, -1)], -1))


class Memory:
    """Bytes that the graph holds, now and at most; tensors that share a storage count once."""

    def __init__(self):
        self.users, self.now, self.most = {}, 0, 0

    def hooks(self):
        return torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: Kept(self, tensor), lambda kept: kept.tensor
        )


class Kept:
    """A tensor that the graph holds; counted as long as it does."""

    def __init__(self, memory, tensor):
        storage = tensor.untyped_storage()
        self.memory, self.tensor = memory, tensor.detach()
        self.key, self.size = storage.data_ptr(), storage.nbytes()
        memory.users[self.key] = memory.users.get(self.key, 0) + 1
        if memory.users[self.key] == 1:
            memory.now += self.size
            memory.most = max(memory.most, memory.now)

    def __del__(self):
        self.memory.users[self.key] -= 1
        if not self.memory.users[self.key]:
            self.memory.now -= self.size


def step_memory(model, n_samples, n_rows):
    """Most numbers that a step holds at once for its backward pass."""
    memory = Memory()
    x = torch.linspace(-0.5, 2, n_rows * N_INPUTS, dtype=torch.float64).view(n_rows, N_INPUTS)
    with memory.hooks():
        (-elbo(model, Batch(x, x.sin(), n_rows), n_samples, seeded())).backward()
    assert memory.now == 0
    return memory.most / 8


@pytest.mark.parametrize(
    ("system", "weights", "inputs"),
    [
        ("ode1", "mean-field", ("all",)),
        ("ode1", "exact", ("hidden", "original")),
        ("eq", "full", ("all",)),
        ("eq", "mean-field", ("hidden", "original")),
        ("arc0", "exact", ("all",)),
        ("arc1", "mean-field", ("all",)),
        ("arc2", "full", ("hidden", "original")),
    ],
)
def test_memory_of_a_step_does_not_hold_the_columns_of_samples(
    system, weights, inputs, monkeypatch
):
    """Of each sample and row a step holds hidden values and moments, not hundreds of columns."""
    model, n_rows = make(system, weights, inputs=inputs, n_features=15), 40
    limit(monkeypatch, 2000, 1000)
    few, many = (step_memory(model, n_samples, n_rows) for n_samples in (4, 12))
    assert (many - few) / (8 * n_rows) < FEW_NUMBERS


@pytest.mark.parametrize("system", ["ode1", "eq", "arc1"])
def test_memory_of_a_step_does_not_hold_the_columns_of_rows(system, monkeypatch):
    """Where Ω is drawn for every sample there are tables for every sample, but none for rows."""
    model, n_samples = make(system, frequencies="var-resampled", n_features=15, depth=3), 4
    limit(monkeypatch, 2000, 1000)
    few, many = (step_memory(model, n_samples, n_rows) for n_rows in (40, 120))
    assert (many - few) / (n_samples * 80) < 2 * FEW_NUMBERS  # two hidden layers


def test_memory_of_a_step_without_kernels_does_not_hold_the_columns_of_samples(monkeypatch):
    """Blocks may be larger only where no columns are made."""
    model, n_rows = make("arc1", "mean-field", n_features=15), 40
    monkeypatch.setattr(columns_module, "_KEPT_WAVES", 0)
    monkeypatch.setattr(columns_module, "_CHUNK_WAVES", 2000)
    few, many = (step_memory(model, n_samples, n_rows) for n_samples in (4, 12))
    assert (many - few) / (8 * n_rows) < FEW_NUMBERS


def test_memory_is_measured_where_columns_are_kept():
    """Without blocks a step holds columns of 30 waves and more for every sample and row."""
    model, n_rows = make("ode1", "exact", n_features=15), 40
    few, many = (step_memory(model, n_samples, n_rows) for n_samples in (4, 12))
    assert (many - few) / (8 * n_rows) > 2 * 30


def test_columns_looked_at_without_gradients_have_them_afterwards(monkeypatch):
    """Solving the weights looks at Φ before the bound does."""
    model = make("ode1", "exact", inputs=("all", "original"))
    layer, target = model.output_layer, normal(N_ROWS, N_OUTPUTS)
    found = []
    for looks, n_rows in ((False, None), (True, None), (True, CUTS["rows"])):
        if n_rows is not None:
            cut(monkeypatch, model, n_rows)
        features = model.features(X, N_SAMPLES, seeded())
        if looks:
            layer.statistics(features, target, target.square())
            with torch.no_grad():
                layer.moments(features)
        found.append(gradients(project(*layer.moments(features)), model))
    assert_close(found[1], found[0], 1e-10)
    assert_close(found[2], found[0], 1e-10)


def test_moments_make_no_columns_that_they_do_not_need(monkeypatch):
    """Also where there is little to make, and columns would be kept."""
    model = make("ode1", inputs=("all",))
    features = model.features(X, N_SAMPLES, seeded())
    calls = spied(monkeypatch, "ode1")
    model.output_layer.squares(features, Y.nan_to_num(), torch.ones_like(Y))
    model.output_layer.moments(features)
    assert not calls
