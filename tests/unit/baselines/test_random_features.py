"""The paper's comparators are our own parts, chosen as in the paper."""

import math

import numpy as np
import pytest
import torch

from deeplfm.baselines.random_features import (
    DeepArcCosine,
    DeepEQ,
    HybridKernel,
    LatentForceFeatures,
)

T = np.linspace(0, 5, 40)
Y = np.column_stack([np.sin(3 * T), np.cos(3 * T)])
TABLE = np.random.default_rng(0).normal(size=(60, 3))


def model_of(baseline):
    (member,) = baseline.regressor_.model_.members
    return member


@pytest.mark.parametrize(
    ("kind", "x", "system", "lengthscales"),
    [
        (DeepEQ, T[:, None], "eq", (0.01, 1.0)),
        (DeepArcCosine, T[:, None], "arc1", (0.01, 1.0)),
        (DeepEQ, TABLE, "eq", (3.0, 6.0)),
    ],
)
def test_deep_gps_are_the_papers(kind, x, system, lengthscales):
    baseline = kind(n_features=4, n_steps=0).fit(x, x[:, 0])
    model = model_of(baseline)
    hidden, output = model.config.layers
    assert hidden.width == 3 and hidden.weights == output.weights == "mean-field"
    assert {block.system for layer in model.config.layers for block in layer.blocks} == {system}
    assert model.config.n_samples == 100 and model.config.concatenate_input
    for layer, lengthscale in zip(model.layers, lengthscales, strict=True):
        start = layer.blocks[0].features.log_lengthscale.exp()
        torch.testing.assert_close(start, torch.full_like(start, lengthscale))


def test_a_deep_gp_learns_from_the_initial_values_of_the_paper():
    baseline = DeepEQ(n_features=20, n_steps=200).fit(T, Y)
    assert np.mean((baseline.predict(T) - Y) ** 2) < 0.1 * Y.var()


def test_a_deep_gp_may_be_compiled():
    asked = DeepEQ(n_features=4, n_steps=1, compile=True).fit(T, Y)
    assert (
        asked.regressor_.compile
        and not DeepEQ(n_features=4, n_steps=1).fit(T, Y).regressor_.compile
    )


def test_deep_gps_can_be_trained_as_our_own_model():
    baseline = DeepEQ(follows_paper=False, n_features=5, n_steps=1).fit(T, Y)
    assert model_of(baseline).has_exact_output
    blocks = [block.name for block in model_of(baseline).config.layers[-1].blocks]
    assert blocks == ["deep", "broadband"]
    two = DeepEQ(hidden=(2, 4), follows_paper=False, n_features=5, n_steps=1).fit(
        TABLE, TABLE[:, 0]
    )
    assert [layer.width for layer in model_of(two).config.layers] == [2, 4, 1]


def test_latent_force_features_share_their_forces():
    baseline = LatentForceFeatures(n_steps=1).fit(T, Y)
    model = model_of(baseline)
    (layer,) = model.config.layers
    assert layer.shared_weights
    assert (layer.blocks[0].n_forces, layer.blocks[0].n_features) == (2, 20)
    assert len(baseline.regressor_.forces(T)) == 2


def test_hybrid_kernel_keeps_its_frequencies_and_shows_inputs_to_the_first_layer_alone():
    before = HybridKernel(hidden=(4,), n_features=5, n_steps=1).fit(TABLE, TABLE[:, 0])
    after = HybridKernel(hidden=(4,), n_features=5, n_steps=5).fit(TABLE, TABLE[:, 0])
    for first, last in zip(model_of(before).layers, model_of(after).layers, strict=True):
        noise, later = (layer.blocks[0].frequencies.noise for layer in (first, last))
        torch.testing.assert_close(noise, later, rtol=0, atol=0)
        assert not first.blocks[0].frequencies.is_variational
    assert not model_of(after).config.concatenate_input
    assert model_of(after).layers[1].blocks[0].features.n_inputs == 4


def test_scales_of_the_users_data_do_not_matter():
    plain = LatentForceFeatures(n_steps=3).fit(T, Y).predict(T[:5])
    other = (
        LatentForceFeatures(n_steps=3).fit(1000 + 60 * T, 7 + 100 * Y).predict(1000 + 60 * T[:5])
    )
    np.testing.assert_allclose((other - 7) / 100, plain, atol=1e-4)
    assert math.isfinite(float(plain.sum()))
