"""How rough a table is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from deeplfm.recipes import Architecture, density_recipe, rough_recipe
from deeplfm.starts.rough import find_roughness
from deeplfm.training import Rows
from deeplfm.training.race import fit_recipe


def drawn(n_rows: int, lengthscale: list[float], noise: float, seed: int = 0) -> Rows:
    """A draw of an Ornstein–Uhlenbeck process of several inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, len(lengthscale)))
    distance = (np.abs(x[:, None] - x) / lengthscale).sum(-1)
    root = np.linalg.cholesky(np.exp(-distance) + 1e-9 * np.eye(n_rows))
    y = root @ rng.normal(size=n_rows) + noise * rng.normal(size=n_rows)
    return Rows(torch.as_tensor(x), torch.as_tensor(y[:, None]))


def test_evidence_finds_lengthscales_and_noise() -> None:
    """Six seeds were within a factor 1.6 and 1.3; the bounds are a factor 2.5 and 1.8."""
    rows = drawn(400, [2.0, 20.0], 0.2)
    found = find_roughness(rows.x, rows.y[:, 0])
    ratio = found.lengthscale / torch.tensor([2.0, 20.0])
    assert 0.4 < float(ratio[0]) < 2.5
    assert float(found.lengthscale[1]) > 3 * float(found.lengthscale[0])
    assert 0.2 / 1.8 < found.noise_variance**0.5 < 0.2 * 1.8


def test_a_rough_model_with_a_landmark_on_every_row_is_the_exact_process() -> None:
    rows = drawn(60, [1.0], 0.3)
    model, _ = fit_recipe(rough_recipe(Architecture()), rows, False, 0, progress=False)
    features = model.output_layer.blocks[0].features
    x = torch.linspace(-2, 2, 7, dtype=torch.float64)[:, None]
    rate, scale = 1 / features.lengthscale.detach()[0, 0, 0], features.sensitivity.detach()[0, 0, 0]

    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return scale**2 * torch.exp(-(a - b.mT).abs() * rate)

    noise = model.gaussian.variance(x)[0, 0].detach()
    gram = kernel(rows.x, rows.x) + noise * torch.eye(60, dtype=torch.float64)
    expected = kernel(x, rows.x) @ torch.linalg.solve(gram, rows.y)
    torch.testing.assert_close(model.posterior(x).mean, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("n_rows", "n_missing"), [(1, 0), (3, 1), (3, 3), (40, 1)])
def test_few_rows_and_missing_targets_are_no_trouble(n_rows: int, n_missing: int) -> None:
    rows = drawn(n_rows, [1.0, 1.0], 0.3)
    y = rows.y.repeat(1, 2)
    y[:n_missing, 1] = torch.nan
    some = Rows(rows.x, y)
    for recipe in (rough_recipe(Architecture()), density_recipe(Architecture(), 2)):
        model, _ = fit_recipe(recipe, some, False, 0, progress=False)
        posterior = model.posterior(rows.x)
        assert posterior.mean.shape == (n_rows, 2)
        assert bool(posterior.std().isfinite().all())


def test_a_target_near_either_of_two_values_is_told_so() -> None:
    """Gaussian noise costs log √(2πe) σ = 1.4 nats here, two bells 0 and what they cost to learn."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    sign = np.where(rng.random(800) < 1 / (1 + np.exp(-2 * x[:, 0])), 1.0, -1.0)
    y = sign + 0.1 * rng.normal(size=800)
    rows, later = (
        Rows(torch.as_tensor(x[part]), torch.as_tensor(y[part, None]))
        for part in (slice(0, 600), slice(600, 800))
    )
    model, _ = fit_recipe(density_recipe(Architecture(), 200), rows, False, 0, progress=False)
    posterior = model.posterior(later.x)
    assert float(-posterior.log_prob(later.y).mean()) < 0.5
    between = torch.zeros(200, 1, dtype=torch.float64)
    assert float(posterior.log_prob(between).mean()) < -3


def test_a_million_rows_get_fewer_landmarks() -> None:
    """So that a pass through them stays a matter of seconds."""
    rows = drawn(400, [1.0], 0.3)
    few = rough_recipe(Architecture()).build(replace(rows, n_all=4_000_000), 0)
    all_of_them = rough_recipe(Architecture()).build(rows, 0)
    counts = [model.output_layer.blocks[0].features.n_features for model in (few, all_of_them)]
    assert counts == [316, 400]
