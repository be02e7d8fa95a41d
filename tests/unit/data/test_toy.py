"""The toy of the paper against quadrature, and the scaling of its rows."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad, quad_vec

from deeplfm.data.simulated import VARIANTS, toy_system
from deeplfm.errors import ConfigError, DeepLFMError


def force(t):
    return np.cos(t / 2) + 6 * np.sin(3 * t)


def published_by_quadrature(time):
    def system(t, decay, end):
        def integrand(tau):
            waves = np.exp(1j * (t - tau)) - np.exp(-decay * (t - tau))
            return waves / (decay + 1j) * force(tau)

        return quad_vec(integrand, 0.0, end, epsabs=1e-11, epsrel=1e-11)[0]

    first = system(time.astype(complex), 0.01, 15.0)
    return system(first, 0.02, first.real.max()).real


def text_by_quadrature(time):
    def system(t, decay):
        return np.array(
            [quad(lambda s: np.exp(-decay * (e - s)) * force(s), 0, e, limit=200)[0] for e in t]  # noqa: B023
        )

    return system(system(time, 0.01), 0.02)


def test_published_variant_against_quadrature():
    toy = toy_system("published")
    np.testing.assert_allclose(toy.clean, published_by_quadrature(toy.time), rtol=0, atol=1e-7)


def test_text_variant_against_quadrature():
    toy = toy_system("text")
    some = slice(None, None, 37)
    expected = text_by_quadrature(toy.time[some])
    np.testing.assert_allclose(toy.clean[some], expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_each_split(variant):
    toy = toy_system(variant)
    assert toy.time[[0, -1]].tolist() == [0.0, 15.0]
    splits = np.concatenate([toy.train, toy.interpolation, toy.extrapolation])
    assert sorted(splits) == list(range(750))
    assert toy.train.tolist() == [*range(125), *range(225, 600)]
    assert toy.interpolation.tolist() == list(range(125, 225))


@pytest.mark.parametrize("variant", VARIANTS)
def test_scaling_uses_the_training_rows_only(variant):
    toy = toy_system(variant)
    inputs, outputs = toy.inputs[toy.train], toy.outputs[toy.train]
    assert inputs.shape == outputs.shape == (500, 1)
    assert (inputs.min(), inputs.max()) == (0.0, 1.0)
    assert toy.inputs.max() > 1.2
    assert outputs.mean() == pytest.approx(0.0, abs=1e-12)
    assert outputs.std() == pytest.approx(1.0)
    np.testing.assert_array_equal(toy.standardised(toy.value), toy.outputs[:, 0])


@pytest.mark.parametrize(("variant", "std"), [("published", 0.15), ("text", 0.2)])
def test_noise(variant, std):
    toy = toy_system(variant, seed=3)
    noise = (toy.value - toy.clean) / std
    assert abs(noise.mean()) * np.sqrt(750) < 5
    assert abs(noise.var() - 1) / np.sqrt(2 / 750) < 5


def test_seed_decides_the_noise_and_nothing_else():
    first, same, other = (toy_system(seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.value, same.value)
    np.testing.assert_array_equal(first.clean, other.clean)
    assert not np.array_equal(first.value, other.value)


def test_data_cannot_be_reassigned():
    with pytest.raises(dataclasses.FrozenInstanceError):
        toy_system().seed = 3


def test_unknown_variant_is_refused():
    with pytest.raises(ConfigError, match=r"toy_system: variant 'paper' .* published, text"):
        toy_system("paper")
    assert issubclass(ConfigError, DeepLFMError)
