"""Layers: which inputs a block sees, whose features are whose, and shapes in both precisions."""

from dataclasses import replace

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig, from_dict, to_dict
from deeplfm.errors import ConfigError
from deeplfm.features.products import multiply, weighted_gram, weighted_moment
from deeplfm.layers import Block, Layer
from deeplfm.model import DeepLFM

N_INPUTS, N_HIDDEN, N_ROWS = 2, 3, 5


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def inputs(n_samples=1):
    """Original inputs, and hidden values of some samples."""
    return normal(N_ROWS, N_INPUTS), normal(n_samples, N_ROWS, N_HIDDEN, seed=1)


def layer_of(config, n_hidden=N_HIDDEN):
    return Layer(config, N_INPUTS, n_hidden, n_noise=4, generator=seeded()).double()


SEEN = {"all": [0, 1, 2, 3, 4], "hidden": [0, 1, 2], "original": [3, 4]}


@pytest.mark.parametrize("system", ["ode1", "eq", "arc1"])
def test_blocks_side_by_side_see_their_own_inputs(system):
    blocks = tuple(BlockConfig(system=system, inputs=name, n_features=20) for name in SEEN)
    layer = layer_of(LayerConfig(1, blocks))
    x, hidden = (item.requires_grad_() for item in inputs())
    families = layer.features(x, 1, hidden=hidden).whole()
    n_families = layer.blocks[0].features.columns_per_frequency
    columns = [seen for seen in SEEN.values() for _ in range(n_families)]
    for seen, family in zip(columns, families, strict=True):
        gradients = torch.autograd.grad(
            family.square().sum(), [hidden, x], retain_graph=True, materialize_grads=True
        )
        moved = torch.cat([gradients[0][0], gradients[1]], dim=-1).abs().sum(0) > 0
        assert moved.nonzero().flatten().tolist() == seen


@pytest.mark.parametrize("inputs", SEEN)
def test_first_layer_has_only_the_original_input(inputs):
    block = Block(BlockConfig(inputs=inputs), N_INPUTS, 0, 1, False, 1, seeded())
    assert block.features.n_inputs == N_INPUTS


def test_hidden_values_come_first_and_the_input_last():
    """The linear block of a deep model is the block of a shallow one."""
    linear = BlockConfig(system="eq", inputs="original", n_features=3, frequencies="nodes")
    deep = BlockConfig(inputs="hidden", n_features=3)
    layers = (LayerConfig(3, (deep,)), LayerConfig(1, (deep, linear)))
    model = DeepLFM(ModelConfig(N_INPUTS, layers), seed=0).double()
    alone = DeepLFM(ModelConfig(N_INPUTS, (LayerConfig(1, (linear,)),)), seed=0).double()
    x = normal(N_ROWS, N_INPUTS)
    beside = model.features(x, 2, seeded()).whole()[-2:]  # real and imaginary part
    expected = alone.features(x, 2, seeded()).whole()
    for left, right in zip(beside, expected, strict=True):
        torch.testing.assert_close(left, right.expand_as(left))


def test_input_is_left_out_of_later_layers_on_request():
    block = BlockConfig(n_features=4)
    layers = (LayerConfig(3, (block,)), LayerConfig(1, (block,)))
    config = ModelConfig(N_INPUTS, layers, concatenate_input=False)
    model = DeepLFM(config).double()
    assert model.output_layer.blocks[0].features.n_inputs == 3
    assert model(normal(N_ROWS, N_INPUTS), 2)[0].shape == (2, N_ROWS, 1)


def test_block_without_inputs_is_refused():
    block = BlockConfig(inputs="original")
    layers = (LayerConfig(3), LayerConfig(1, (block,)))
    with pytest.raises(ConfigError, match="selects no column"):
        DeepLFM(ModelConfig(N_INPUTS, layers, concatenate_input=False))


def test_exact_weights_of_a_hidden_layer_are_refused():
    with pytest.raises(ConfigError, match="layer 1 is hidden"):
        ModelConfig(1, (LayerConfig(3), LayerConfig(3, weights="exact"), LayerConfig(1)))


@pytest.mark.parametrize(
    ("block", "layer", "message"),
    [
        ({"system": "ode9"}, {}, "'ode9' is not known"),
        ({"frequencies": "often"}, {}, "'often' is not known"),
        ({"extras": ("season",)}, {}, "season"),
        ({}, {"weights": "light"}, "'light' is not known"),
    ],
)
def test_unknown_names_are_refused_with_the_choices(block, layer, message):
    config = ModelConfig(1, (LayerConfig(1, (BlockConfig(**block),), **layer),))
    with pytest.raises(ConfigError, match=message):
        DeepLFM(config)


def test_model_without_layers_is_refused():
    with pytest.raises(ConfigError, match="layers is empty"):
        ModelConfig(1, ())


def test_declaration_survives_a_round_trip_through_plain_data():
    block = BlockConfig(extras=("constant",), options={"lower_limit": -1.0})
    config = ModelConfig(2, (LayerConfig(3, (block, BlockConfig("eq"))), LayerConfig(1)))
    assert from_dict(to_dict(config)) == config


@pytest.mark.parametrize("kind", ["own_features", "shared_weights"])
def test_features_of_one_output_do_not_reach_another(kind):
    layer = layer_of(LayerConfig(3, (BlockConfig(n_features=4),), **{kind: True}))
    with torch.no_grad():
        layer.weights.mean.copy_(normal(*layer.weights.mean.shape))
    x, hidden = inputs()
    mean, _ = layer.moments(layer.features(x, 1, hidden=hidden))
    features = layer.blocks[0].features
    for d in range(3):
        for parameter in (features.log_decay, features.raw_sensitivity):
            (gradient,) = torch.autograd.grad(mean[..., d].sum(), parameter, retain_graph=True)
            moved = gradient.flatten(1).abs().sum(1) > 0
            assert moved.nonzero().flatten().tolist() == [d]


def test_own_features_have_their_own_frequencies_and_shared_weights_one_set():
    blocks = (BlockConfig(n_features=4),)
    shapes = {
        kind: layer_of(LayerConfig(3, blocks, **{kind: True} if kind else {}))
        for kind in ("", "own_features", "shared_weights")
    }
    groups = {kind: layer.blocks[0].features.frequency_shape[0] for kind, layer in shapes.items()}
    assert groups == {"": 1, "own_features": 3, "shared_weights": 1}
    means = {kind: tuple(layer.weights.mean.shape) for kind, layer in shapes.items()}
    assert means == {"": (1, 8, 3), "own_features": (3, 8, 1), "shared_weights": (1, 8, 1)}


def test_outputs_with_equal_own_features_equal_shared_features():
    """Groups are a batch dimension: equal parameters in every group are one group with units."""
    block = BlockConfig(n_features=4, frequencies="nodes")
    together = layer_of(LayerConfig(3, (block,)))
    apart = layer_of(LayerConfig(3, (block,), own_features=True))
    mean = normal(1, 8, 3)
    with torch.no_grad():
        together.weights.mean.copy_(mean)
        apart.weights.mean.copy_(mean.permute(2, 1, 0))
        together.weights.log_std.copy_(mean)
        apart.weights.log_std.copy_(mean.permute(2, 1, 0))
    x, hidden = inputs(2)
    found = apart.moments(apart.features(x, 2, hidden=hidden))
    expected = together.moments(together.features(x, 2, hidden=hidden))
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right)
    torch.testing.assert_close(apart.kl(), together.kl())


def test_noise_per_sample_gives_each_sample_its_own_frequencies():
    shared = layer_of(LayerConfig(1, (BlockConfig(n_features=4),)), 0)
    own = layer_of(LayerConfig(1, (BlockConfig(n_features=4, noise_per_sample=True),)), 0)
    x = normal(N_ROWS, N_INPUTS)
    assert torch.cat(tuple(shared.features(x, 6).whole()), -1).shape == (1, N_ROWS, 8)  # paid once
    phi = torch.cat(tuple(own.features(x, 6).whole()), -1)
    assert phi.shape == (6, 1, N_ROWS, 8)
    assert torch.equal(phi[0], phi[4])  # four draws are kept
    assert not torch.equal(phi[0], phi[1])
    assert torch.equal(phi, torch.cat(tuple(own.features(x, 6).whole()), -1))


def test_products_of_blocks_equal_products_of_the_glued_matrix():
    """One block differs by sample, the other does not."""
    left, right = normal(4, 2, N_ROWS, 3), normal(2, N_ROWS, 2, seed=1)
    whole = torch.cat([left, right.expand(4, -1, -1, -1)], dim=-1)
    matrix, precision = normal(2, 5, 3, seed=2), normal(2, N_ROWS, 3, seed=3).square()
    torch.testing.assert_close(multiply([left, right], matrix), whole @ matrix)
    torch.testing.assert_close(
        weighted_gram([left, right], precision),
        torch.einsum("sgnk,gnu,sgnl->gukl", whole, precision, whole) / 4,
    )
    torch.testing.assert_close(
        weighted_moment([left, right], precision),
        torch.einsum("sgnk,gnu->gku", whole, precision) / 4,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weights", ["mean-field", "full", "exact"])
@pytest.mark.parametrize("frequencies", ["prior-fixed", "var-fixed", "var-resampled", "nodes"])
def test_shapes_and_precision(dtype, weights, frequencies):
    block = BlockConfig(n_features=3, frequencies=frequencies)
    layers = (LayerConfig(3, (block, block)), LayerConfig(2, (block,), weights, own_features=True))
    model = DeepLFM(ModelConfig(N_INPUTS, layers, n_paths=4)).to(dtype)
    x = normal(N_ROWS, N_INPUTS).to(dtype)
    phi = torch.cat(tuple(model.features(x, 7, seeded()).whole()), -1)
    assert (phi.shape, phi.dtype) == ((7, 2, N_ROWS, 6), dtype)
    expected = torch.float64 if weights == "exact" else dtype
    for item in model(x, 7, seeded()):
        assert (item.shape, item.dtype) == ((7, N_ROWS, 2), expected)
    posterior = model.posterior(x)
    assert posterior.component_mean.shape == (4, N_ROWS, 2)
    assert posterior.std().dtype == expected
    assert posterior.std().isfinite().all()
    assert posterior.sample(6).shape == (6, N_ROWS, 2)


def test_exact_weights_keep_their_digits_when_the_model_changes_precision():
    layers = (LayerConfig(1, (BlockConfig(n_features=3),), weights="exact"),)
    model = DeepLFM(ModelConfig(1, layers)).double()
    x = torch.linspace(0.1, 1, 6, dtype=torch.float64)[:, None]
    model.condition(x, torch.sin(9 * x))
    before = {name: item.clone() for name, item in model.exact_weights.named_buffers()}
    model.float()
    assert model.layers[0].blocks[0].features.log_decay.dtype == torch.float32
    for name, item in model.exact_weights.named_buffers():
        assert torch.equal(item, before[name]), name


def test_standing_still_at_the_origin_has_a_gradient():
    """At t = 0 with lower limit 0 the features vanish, and so does the variance."""
    layer = Layer(LayerConfig(2, (BlockConfig(n_features=3),)), 1, 0, 1, seeded())
    x = torch.zeros(1, 1, requires_grad=True)
    layer.sample(layer.features(x, 3, seeded()), seeded()).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
    assert x.grad.isfinite().all()


def test_blocks_are_found_by_name():
    terms = ("season", "level", "season", "trend")
    blocks = tuple(BlockConfig(system="eq", n_features=2 + i, name=n) for i, n in enumerate(terms))
    config = ModelConfig(n_inputs=N_INPUTS, layers=(LayerConfig(1, blocks),))
    assert from_dict(to_dict(config)) == config
    layer = layer_of(config.layers[0])
    assert layer.block("level") is layer.blocks[1]
    with pytest.raises(ConfigError, match=r"0 blocks are named 'walk'; the blocks are 'season', "):
        layer.block("walk")
    with pytest.raises(ConfigError, match="2 blocks are named 'season'"):
        layer.block("season")


def test_outputs_may_share_frequencies_and_keep_their_own_responses():
    config = LayerConfig(3, (BlockConfig(n_forces=2, n_features=4),), own_features=True)
    plain, shared = (
        Layer(config, 1, 0, 1, torch.Generator().manual_seed(0))
        for config in (config, replace(config, shared_frequencies=True))
    )
    assert [len(layer.blocks[0].frequencies.mean) for layer in (plain, shared)] == [3, 1]
    features = shared.blocks[0].features
    assert [len(item) for item in (features.decay, features.sensitivity)] == [3, 3]
    assert shared.weights.mean.shape == plain.weights.mean.shape
    with torch.no_grad():
        shared.weights.mean.normal_()
        features.log_decay.copy_(torch.tensor([-1.0, 0.0, 1.0])[:, None])
        features.raw_sensitivity.normal_()
        plain.weights.mean.copy_(shared.weights.mean)
        plain.blocks[0].features.log_decay.copy_(features.log_decay)
        plain.blocks[0].features.raw_sensitivity.copy_(features.raw_sensitivity)
        plain.blocks[0].frequencies.noise.copy_(shared.blocks[0].frequencies.noise)
    x = torch.linspace(0, 1, 5)[:, None]
    for left, right in zip(
        plain.moments(plain.features(x, 1)), shared.moments(shared.features(x, 1)), strict=True
    ):
        torch.testing.assert_close(left, right)
