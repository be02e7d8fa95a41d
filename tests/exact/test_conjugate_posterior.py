"""With fixed frequencies and one layer the model is Bayesian linear regression: compare with it.

The reference is numpy in float64 and shares no code with the library: complex response features,
normal equations, and the evidence as the density of y under N(0, ΦΦᵀ + noise).
"""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, collapsed, elbo

N_ROWS, N_OUTPUTS, N_FEATURES = 24, 2, 4


def one_layer(weights="exact", input_dependent_noise=False, **layer):
    block = BlockConfig(n_features=N_FEATURES, frequencies="prior-fixed", extras=("constant",))
    config = ModelConfig(
        n_inputs=1,
        layers=(LayerConfig(N_OUTPUTS, (block,), weights=weights, **layer),),
        input_dependent_noise=input_dependent_noise,
    )
    return scatter(DeepLFM(config, seed=3).double())


@torch.no_grad()
def scatter(model, seed=5):
    """Move every hyperparameter off its round default, each group to a value of its own."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if ".weights." not in name and parameter.requires_grad:
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).double())
    model.likelihood.log_variance.add_(2.0)
    return model


def data(gaps=False, weighted=False):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 4, (N_ROWS, 1)), axis=0)
    y = np.stack([np.sin(2 * x[:, 0]), 0.5 * np.cos(x[:, 0])], -1)
    y += 0.2 * rng.standard_normal((N_ROWS, N_OUTPUTS))
    if gaps:
        y[3:11, 0] = np.nan
        y[8:20:3, 1] = np.nan
    weight = rng.uniform(0.2, 3, N_ROWS) if weighted else None
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    return Batch(x, y, N_ROWS, None if weight is None else torch.as_tensor(weight))


def reference_features(model, x):
    """Φ of each output, D N K: (e^{jωt} − e^{−γt})/(γ + jω), and a constant."""
    block = model.layers[0].blocks[0]
    value = {name: p.detach().numpy() for name, p in block.features.named_parameters()}
    t = x.numpy()[:, 0][:, None]
    out = []
    for d in range(N_OUTPUTS):
        group = min(d, len(value["log_decay"]) - 1)
        spectrum = min(d, len(value["log_lengthscale"]) - 1)
        decay = np.exp(value["log_decay"][group, 0])
        lengthscale = np.exp(value["log_lengthscale"][spectrum, 0, 0])
        frequency = block.frequencies.noise.numpy()[0, spectrum, 0, 0] * np.sqrt(2) / lengthscale
        pole = decay + 1j * frequency
        response = (np.exp(1j * frequency * t) - np.exp(-decay * t)) / pole
        response = response * value["raw_sensitivity"][group, 0, 0] / np.sqrt(N_FEATURES)
        constant = np.full_like(t, np.exp(value["log_extra_scale"][group, 0]))
        out.append(np.concatenate([response.real, response.imag, constant], axis=1))
    return np.stack(out)


def reference_noise(model, x):
    """Noise variance of each row and output."""
    likelihood = model.likelihood
    log_variance = np.tile(likelihood.log_variance.detach().numpy(), (len(x), 1))
    if likelihood.head is not None:
        features = likelihood.head.features
        std = np.exp(-features.log_lengthscale.detach().numpy()[0, 0])  # Q
        frequency = likelihood.head.frequencies.noise.numpy()[0, 0, 0] * std[:, None]
        phase = x.numpy() @ frequency.reshape(1, -1)
        scale = features.raw_sensitivity.detach().numpy()[0, 0, 0]
        weight = likelihood.head.frequencies.feature_weight.numpy()
        head = scale * np.concatenate([np.cos(phase) * weight, np.sin(phase) * weight], axis=1)
        log_variance = log_variance + head @ likelihood.head_weights.detach().numpy()
    return np.exp(log_variance)


def regression(phi, target, noise, weight):
    """Mean, covariance and log evidence of weights with prior N(0, I), rows weighted."""
    precision = weight / noise
    covariance = np.linalg.inv(np.eye(phi.shape[1]) + phi.T @ (precision[:, None] * phi))
    mean = covariance @ phi.T @ (precision * target)
    gram = phi @ phi.T + np.diag(noise / weight)
    evidence = multivariate_normal(np.zeros(len(target)), gram).logpdf(target)
    # p(y|f)^w is N(y; f, σ²/w) times a constant
    evidence += np.sum(0.5 * np.log(2 * np.pi * noise / weight))
    evidence -= np.sum(0.5 * weight * np.log(2 * np.pi * noise))
    return mean, covariance, evidence


def reference(model, batch, temperature=1.0):
    """Posterior of each set of weights (one if shared), and the log evidence of all outputs."""
    phi, noise = reference_features(model, batch.x), reference_noise(model, batch.x) * temperature
    y = batch.y.numpy()
    weight = np.ones(len(y)) if batch.row_weight is None else batch.row_weight.numpy()
    parts = []
    for d in range(N_OUTPUTS):
        seen = ~np.isnan(y[:, d])
        parts.append((phi[d][seen], y[seen, d], noise[seen, d], weight[seen]))
    if model.layers[0].shared_weights:
        parts = [tuple(np.concatenate(items) for items in zip(*parts, strict=True))]
    means, covariances, evidences = zip(*(regression(*part) for part in parts), strict=True)
    return np.stack(means), np.stack(covariances), sum(evidences)


def learned(model):
    """Mean and covariance of q(W), by output."""
    weights = model.layers[0].weights
    mean = weights.mean.detach().mT.flatten(0, 1).numpy()
    root = weights.root.detach().flatten(0, 1).numpy()
    return mean, root @ root.transpose(0, 2, 1)


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


LAYERS = {
    "one set of features": {},
    "own features": {"own_features": True},
    "shared weights": {"shared_weights": True},
}
DATA = {
    "complete": {},
    "gaps": {"gaps": True},
    "row weights": {"weighted": True},
    "both": {"gaps": True, "weighted": True},
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("kind", DATA.values(), ids=DATA)
@pytest.mark.parametrize("noise_head", [False, True], ids=["constant noise", "noise head"])
def test_exact_weights_are_the_conjugate_posterior(layer, kind, noise_head):
    model, batch = one_layer(input_dependent_noise=noise_head, **layer), data(**kind)
    mean, covariance, evidence = reference(model, batch)

    bound = collapsed(model, batch, n_samples=1)
    assert relative(learned(model)[0], mean) < 1e-8
    assert relative(learned(model)[1], covariance) < 1e-8
    expected = evidence - model.likelihood.penalty().item()
    assert bound.item() == pytest.approx(expected, rel=1e-8)

    other = one_layer(input_dependent_noise=noise_head, **layer)
    other.condition(batch.x, batch.y, batch.row_weight)
    assert relative(learned(other)[0], mean) < 1e-8
    assert relative(learned(other)[1], covariance) < 1e-8


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_temperature_tempers_the_posterior_and_inflation_only_the_prediction(layer):
    model, batch = one_layer(**layer), data(gaps=True)
    model.temperature.copy_(torch.tensor([2.0, 5.0]))
    model.likelihood.inflation.copy_(torch.tensor([3.0, 1.5]))
    model.condition(batch.x, batch.y)
    mean, covariance, _ = reference(model, batch, temperature=np.array([2.0, 5.0]))
    assert relative(learned(model)[0], mean) < 1e-8
    assert relative(learned(model)[1], covariance) < 1e-8
    posterior = model.posterior(batch.x)
    noise = (posterior.variance() - posterior.variance(latent=True)).numpy()
    expected = reference_noise(model, batch.x) * np.array([3.0, 1.5])
    np.testing.assert_allclose(noise, expected, rtol=1e-8)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_predictions_are_those_of_the_regression(layer):
    model, batch = one_layer(**layer), data(gaps=True)
    model.condition(batch.x, batch.y)
    means, covariances, _ = reference(model, batch)
    new = torch.linspace(0.1, 6, 9, dtype=torch.float64)[:, None]
    phi, noise = reference_features(model, new), reference_noise(model, new)
    posterior = model.posterior(new)
    for d in range(N_OUTPUTS):
        mean, covariance = means[min(d, len(means) - 1)], covariances[min(d, len(means) - 1)]
        variance = np.einsum("nk,kl,nl->n", phi[d], covariance, phi[d])
        np.testing.assert_allclose(posterior.mean[:, d], phi[d] @ mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.variance(latent=True)[:, d], variance, rtol=1e-8)
        np.testing.assert_allclose(posterior.variance()[:, d], variance + noise[:, d], rtol=1e-8)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("kind", [DATA["complete"], DATA["both"]], ids=["complete", "both"])
def test_full_weights_descend_to_the_conjugate_posterior(layer, kind):
    model, batch = one_layer("full", **layer), data(**kind)
    mean, covariance, evidence = reference(model, batch)
    optimiser = torch.optim.LBFGS(
        list(model.layers[0].weights.parameters()),
        max_iter=500,
        history_size=50,
        tolerance_grad=1e-4,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        loss = -elbo(model, batch, n_samples=1)
        loss.backward()
        return loss

    assert -closure().item() < evidence
    optimiser.step(closure)
    gap = evidence - elbo(model, batch, n_samples=1).item()
    assert -1e-9 < gap < 1e-3
    assert relative(learned(model)[0], mean) < 1e-4
    assert relative(learned(model)[1], covariance) < 1e-4


def test_mean_field_weights_stay_below_the_evidence():
    model, batch = one_layer("mean-field"), data(gaps=True)
    _, _, evidence = reference(model, batch)
    optimiser = torch.optim.Adam(model.layers[0].weights.parameters(), lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        value = elbo(model, batch, n_samples=1)
        (-value).backward()
        optimiser.step()
        assert value.item() < evidence


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_natural_steps_of_rate_one_over_k_give_the_full_batch_posterior(layer):
    model, batch = one_layer(**layer), data(gaps=True, weighted=True)
    mean, covariance, _ = reference(model, batch)
    order = torch.randperm(N_ROWS, generator=torch.Generator().manual_seed(0))
    for k, rows in enumerate(order.split(6), start=1):
        part = Batch(batch.x[rows], batch.y[rows], N_ROWS, batch.row_weight[rows])
        collapsed(model, part, n_samples=1, rate=1 / k)
    assert relative(learned(model)[0], mean) < 1e-8
    assert relative(learned(model)[1], covariance) < 1e-8


def test_natural_steps_of_a_small_rate_approach_the_posterior():
    model, batch = one_layer(), data()
    mean, covariance, _ = reference(model, batch)
    generator = torch.Generator().manual_seed(0)
    for k in range(1, 601):
        rows = torch.randperm(N_ROWS, generator=generator)[:8]
        part = Batch(batch.x[rows], batch.y[rows], N_ROWS)
        collapsed(model, part, n_samples=1, rate=min(1.0, 2 / k))
    assert relative(learned(model)[0], mean) < 0.1
    assert relative(learned(model)[1], covariance) < 0.1


def explicit_collapsed(model, batch, n_samples, generator):
    """−½ Σ log 2πσ² − ½ Σ y²/σ² + ½ bᵀA⁻¹b − ½ log|A| − KL(rest) − penalty, per output."""
    layer = model.output_layer
    phi = torch.cat(
        [
            family.expand(n_samples, *family.shape[-3:])
            for family in model.features(batch.x, n_samples, generator).whole()
        ],
        dim=-1,
    )  # S G N K
    weight = torch.ones(len(batch.x)).double() if batch.row_weight is None else batch.row_weight
    noise = model.likelihood.variance(batch.x)
    total = -model.likelihood.penalty()
    precisions, shifts = [], []
    for d in range(batch.y.shape[1]):
        seen = ~batch.y[:, d].isnan()
        y, variance, w = batch.y[seen, d], noise[seen, d], weight[seen]
        total = total - 0.5 * (w * torch.log(2 * torch.pi * variance)).sum()
        total = total - 0.5 * (w * y.square() / variance).sum()
        group = phi[:, min(d, phi.shape[1] - 1), seen]  # S N K
        precisions.append((group.mT @ ((w / variance)[:, None] * group)).mean(0))
        shifts.append(group.mean(0).mT @ (w * y / variance))
    if layer.shared_weights:
        precisions, shifts = [sum(precisions)], [sum(shifts)]
    for gram, b in zip(precisions, shifts, strict=True):
        a = torch.eye(len(b)).double() + gram
        total = total + 0.5 * b @ torch.linalg.solve(a, b) - 0.5 * torch.logdet(a)
    rest = [hidden.kl() for hidden in model.layers[:-1]] + [block.kl() for block in layer.blocks]
    return total - sum(rest)


def two_layers(**layer):
    hidden = LayerConfig(2, (BlockConfig(n_features=3),))
    deep = BlockConfig(n_features=3, inputs="hidden", frequencies="var-resampled")
    linear = BlockConfig(n_features=2, inputs="original", frequencies="prior-fixed")
    config = ModelConfig(
        n_inputs=1,
        layers=(hidden, LayerConfig(N_OUTPUTS, (deep, linear), weights="exact", **layer)),
        input_dependent_noise=True,
    )
    return scatter(DeepLFM(config, seed=3).double())


@pytest.mark.parametrize("make", [one_layer, two_layers])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_collapsed_has_the_value_and_gradient_of_the_explicit_formula(make, layer):
    model, batch = make(**layer), data(gaps=True, weighted=True)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad and p.numel()}

    def value_and_gradient(bound):
        value = bound(model, batch, 3, torch.Generator().manual_seed(1))
        return value, torch.autograd.grad(value, list(parameters.values()))

    found, found_gradient = value_and_gradient(collapsed)
    expected, expected_gradient = value_and_gradient(explicit_collapsed)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    for name, left, right in zip(parameters, found_gradient, expected_gradient, strict=True):
        scale = max(1.0, right.abs().max().item())
        assert (left - right).abs().max().item() / scale < 1e-6, name
