"""What the nearest rows say: the Gaussian process of these rows, exactly."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.ensemble.local_gp import MATERN12, MATERN32, Kernel, NeighbourSearch
from deeplfm.ensemble.local_gp_fit import find_tails, fit_local_gp
from deeplfm.ensemble.mixture_density import mixture_density_candidate
from deeplfm.ensemble.nearest_neighbour_gp import NearestNeighbourGP, nearest_neighbour_candidate
from deeplfm.selection import fitting
from deeplfm.selection.fitting import fit_candidate, set_train_data
from deeplfm.terms import BuildContext
from deeplfm.training import Rows
from deeplfm.training.rows import StoredRows


def kernel(left: np.ndarray, right: np.ndarray, is_smooth: bool = False) -> np.ndarray:
    """Ornstein–Uhlenbeck along every input, or Matérn's of one derivative; lengthscales are 1."""
    apart = left[:, None] - right
    if not is_smooth:
        return np.exp(-np.abs(apart).sum(-1))
    distance = np.sqrt(3 * np.square(apart).sum(-1))
    return (1 + distance) * np.exp(-distance)


def drawn(
    n_rows: int, lengthscale: list[float], noise: float, seed: int = 0, is_smooth: bool = False
) -> Rows:
    """A draw of a process of several inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, len(lengthscale)))
    scaled = x / lengthscale
    root = np.linalg.cholesky(kernel(scaled, scaled, is_smooth) + 1e-9 * np.eye(n_rows))
    y = root @ rng.normal(size=n_rows) + noise * rng.normal(size=n_rows)
    return Rows(torch.as_tensor(x), torch.as_tensor(y[:, None]))


def fitted(rows: Rows) -> NearestNeighbourGP:
    model, _ = fit_candidate(
        nearest_neighbour_candidate(BuildContext()), rows, False, 0, progress=False
    )
    assert isinstance(model, NearestNeighbourGP)
    return model


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def exact(
    x: np.ndarray,
    y: np.ndarray,
    at: np.ndarray,
    lengthscale: np.ndarray,
    scale: float,
    noise: float,
    is_smooth: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The Gaussian process of all rows, by its textbook formula."""
    known, asked = x / lengthscale, at / lengthscale
    gram = scale**2 * kernel(known, known, is_smooth) + noise * np.eye(len(x))
    cross = scale**2 * kernel(asked, known, is_smooth)
    mean = cross @ np.linalg.solve(gram, y)
    return mean, scale**2 - np.einsum("nm,mn->n", cross, np.linalg.solve(gram, cross.T))


@pytest.mark.parametrize("kernel_of", [MATERN12, MATERN32])
def test_few_rows_are_predicted_by_their_gaussian_process(kernel_of: Kernel) -> None:
    rows, lengthscale = drawn(60, [1.0, 3.0], 0.3), torch.tensor([0.7, 2.0])
    at = torch.as_tensor(np.random.default_rng(1).normal(size=(9, 2)))
    search = NeighbourSearch(rows.x, rows.y[:, 0], lengthscale, kernel=kernel_of, n_neighbours=64)
    mean, variance = search.predict(at, torch.tensor(1.3), torch.tensor(0.2))
    arrays = (item.numpy() for item in (rows.x, rows.y[:, 0], at, lengthscale))
    expected = exact(*arrays, scale=1.3, noise=0.2 + 1e-6, is_smooth=kernel_of is MATERN32)
    np.testing.assert_allclose(mean, expected[0], atol=1e-7)
    np.testing.assert_allclose(variance, expected[1], atol=1e-7)


def test_both_ends_of_a_long_gap_count() -> None:
    """The exact process of all rows, whose 16 nearest would be on one side."""
    x = torch.cat([torch.arange(80.0), torch.arange(120.0, 200.0)]).double()[:, None]
    y = (x[:, 0] > 100).double()
    at = torch.arange(80.0, 120.0).double()[:, None]
    search = NeighbourSearch(x, y, torch.tensor([500.0]))
    found = search.predict(at, torch.tensor(3.0), torch.tensor(1e-3))
    arrays = (item.numpy() for item in (x, y, at))
    expected = exact(*arrays, np.array([500.0]), scale=3.0, noise=1e-3 + 1e-6)
    for item, truth in zip(found, expected, strict=True):
        np.testing.assert_allclose(item, truth, atol=2e-3)


def test_draws_along_one_input_have_the_moments_of_the_gaussian_process() -> None:
    """20 numbers off by 5 standard errors of 20 000 draws: in fewer than 1 of 10⁵ runs."""
    rows, at = drawn(10, [1.0], 0.3), torch.tensor([[-3.0], [-0.2], [-0.1], [0.4], [5.0]]).double()
    search = NeighbourSearch(rows.x, rows.y[:, 0], torch.tensor([0.7]))
    scale, noise = torch.tensor(1.3).double(), torch.tensor(0.2).double()
    draws = search.draw(at, scale, noise, 20_000, generator())

    def covariance_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return scale**2 * torch.exp(-(a - b.mT).abs() / 0.7)

    gram = covariance_of(rows.x, rows.x) + noise * torch.eye(10)
    cross = covariance_of(at, rows.x)
    mean = cross @ torch.linalg.solve(gram, rows.y[:, 0])
    covariance = covariance_of(at, at) - cross @ torch.linalg.solve(gram, cross.mT)
    variance = covariance.diag()
    assert bool(((draws.mean(0) - mean).abs() < 5 * (variance / 20_000).sqrt()).all())
    error = ((variance[:, None] * variance + covariance.square()) / 20_000).sqrt()
    assert bool(((draws.T.cov() - covariance).abs() < 5 * error).all())


def test_a_rough_series_is_drawn_as_whole_functions() -> None:
    rows = drawn(80, [1.0], 0.1)
    model = fitted(rows)
    near = torch.tensor([[0.5], [0.5 + 1e-7], [0.8]]).double()
    draws = model.posterior(near).sample(500, seed=3, latent=True)[:, :, 0]
    spread = draws.std(0)
    assert float((draws[:, 0] - draws[:, 1]).abs().max()) < 0.1 * float(spread.min())
    assert float((draws[:, 0] - draws[:, 2]).std()) > 0.3 * float(spread.min())


def test_the_nearest_of_many_rows_predict_almost_as_all_rows_do() -> None:
    """Of six seeds, the others moved the mean by 0.4 standard deviations at most, root mean square."""
    rows, lengthscale = drawn(400, [1.0, 1.0], 0.2), torch.ones(2)
    at = torch.as_tensor(np.random.default_rng(1).normal(size=(50, 2)))
    search = NeighbourSearch(rows.x, rows.y[:, 0], lengthscale)
    mean, variance = search.predict(at, torch.tensor(1.0), torch.tensor(0.04))
    arrays = (item.numpy() for item in (rows.x, rows.y[:, 0], at, lengthscale))
    expected = exact(*arrays, scale=1.0, noise=0.04)
    moved = np.sqrt(np.mean((mean.numpy() - expected[0]) ** 2) / expected[1].mean())
    assert moved < 0.6
    ratio = variance.numpy() / expected[1]
    assert ratio.min() > 1 - 1e-4
    assert ratio.max() < 1.6


def test_a_weight_of_two_is_a_row_given_twice_and_one_of_zero_is_none() -> None:
    rows = drawn(6, [1.0], 0.3)
    x, y, at = rows.x, rows.y[:, 0], torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    weight = torch.tensor([2.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    again = torch.tensor([0, 0, 1, 2, 4, 5])
    scale, noise = torch.tensor(1.0), torch.tensor(0.1)
    weighted = NeighbourSearch(x, y, torch.ones(1), weight).predict(at, scale, noise)
    repeated = NeighbourSearch(x[again], y[again], torch.ones(1)).predict(at, scale, noise)
    for left, right in zip(weighted, repeated, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4)  # noise has a floor of 1e-6


def test_a_row_is_not_its_own_neighbour_even_among_equals() -> None:
    x = torch.zeros(30, 1, dtype=torch.float64)
    own = torch.arange(30)
    others = NeighbourSearch(x, torch.arange(30.0), torch.ones(1)).others(own, 5)
    assert others.shape == (30, 5)
    assert not bool((others == own[:, None]).any())


def test_lengthscales_and_noise_are_found() -> None:
    """Six seeds were within a factor 1.6 and 1.2; the bounds are a factor 2.5 and 1.8."""
    rows = drawn(600, [2.0, 20.0], 0.2)
    found = fit_local_gp(rows.x, rows.y[:, 0], generator())
    assert 0.4 < float(found.lengthscale[0]) / 2.0 < 2.5
    assert float(found.lengthscale[1]) > 3 * float(found.lengthscale[0])
    assert 0.2 / 1.8 < float(found.noise_variance) ** 0.5 < 0.2 * 1.8


@pytest.mark.parametrize("is_smooth", [False, True])
def test_matern_32_is_chosen_for_functions_with_a_derivative_only(is_smooth: bool) -> None:
    """Twelve other draws of each were all told right."""
    rows = drawn(400, [1.0, 3.0, 3.0], 0.1, is_smooth=is_smooth)
    assert fit_local_gp(rows.x, rows.y[:, 0], generator()).is_matern32 == is_smooth


def test_rows_of_next_to_no_weight_do_not_affect_the_lengthscale() -> None:
    rows = drawn(300, [2.0, 20.0], 0.2)
    noise = 5 * torch.randn(300, generator=generator()).double()
    x, y = torch.cat([rows.x, rows.x]), torch.cat([rows.y[:, 0], noise])
    weight = torch.cat([torch.ones(300), torch.full((300,), 1e-9)]).double()
    found = fit_local_gp(x, y, generator(), weight)
    assert 0.2 / 1.8 < float(found.noise_variance) ** 0.5 < 0.2 * 1.8
    assert float(fit_local_gp(x, y, generator()).noise_variance) ** 0.5 > 1.0


def test_initialisation_of_tables_uses_weights() -> None:
    rows = drawn(300, [2.0, 20.0], 0.2)
    weight = torch.ones(300).double()
    weight[::3] = 1e-9
    wrong = Rows(rows.x, torch.where(weight[:, None] == 1, rows.y, rows.y + 50), weight)
    found = []
    for given in (wrong, Rows(wrong.x, wrong.y)):
        near = nearest_neighbour_candidate(BuildContext()).build(given, 0)
        density = mixture_density_candidate(BuildContext()).build(given, 0).mixture_density
        noise, center = near.linear.gaussian.log_variance.exp(), density.center.max()
        found.append([float(value.detach()) for value in (noise, near.tail_scale.max(), center)])
    (noise, tail, center), (wrong_noise, _, wrong_center) = found
    assert noise < 1 < 25 < wrong_noise
    assert tail < 5
    assert center < 25 < wrong_center


def test_tails_of_two_widths_are_found() -> None:
    """Errors of width 0.5, and one in ten of width 3: density within 0.02 nats of the truth's."""
    rng = np.random.default_rng(0)
    width = np.where(rng.random(4000) < 0.1, 3.0, 0.5)
    error = torch.as_tensor(width * rng.normal(size=4000))
    share, scale = find_tails(error[:2000], torch.ones(2000).double())

    def density(share: torch.Tensor, scale: torch.Tensor) -> float:
        normal = torch.distributions.Normal(torch.zeros_like(scale), scale)
        return float(torch.logsumexp(normal.log_prob(error[2000:, None]) + share.log(), 1).mean())

    truth = density(torch.tensor([0.9, 0.1]), torch.tensor([0.5, 3.0]))
    assert density(share, scale) > truth - 0.02
    assert density(torch.ones(1), error[:2000].std()[None]) < truth - 0.2


def test_without_errors_tails_are_those_of_a_gaussian() -> None:
    _, scale = find_tails(*torch.zeros(2, 0, dtype=torch.float64))
    torch.testing.assert_close(scale, torch.ones_like(scale))


def test_a_straight_line_is_carried_on_beyond_the_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = x @ [2.0, -1.0] + 0.1 * rng.normal(size=300)
    model = DeepLFMRegressor(model="nearest-neighbour-gp", random_state=0, progress=False).fit(x, y)
    assert model.predict([[8.0, 0.0]]).item() == pytest.approx(16.0, abs=0.5)


def test_rough_rows_are_predicted_as_well_as_their_process_can() -> None:
    """Held-out squared error within 15 % of that of the process that drew the rows."""
    rows = drawn(900, [2.0, 4.0], 0.3)
    x, y = rows.x[:700], rows.y[:700]
    model = fitted(Rows(x, y))
    expected, _ = exact(
        x.numpy(), y[:, 0].numpy(), rows.x[700:].numpy(), np.array([2.0, 4.0]), 1.0, 0.09
    )
    truth = rows.y[700:, 0]
    best = float((truth - torch.as_tensor(expected)).square().mean())
    found = float((truth - model.posterior(rows.x[700:]).mean[:, 0]).square().mean())
    assert found < 1.15 * best


@pytest.mark.parametrize(("n_rows", "n_missing"), [(1, 0), (3, 1), (3, 3), (40, 1)])
def test_few_rows_and_missing_targets_are_no_trouble(n_rows: int, n_missing: int) -> None:
    rows = drawn(n_rows, [1.0, 1.0], 0.3)
    y = rows.y.repeat(1, 2)
    y[:n_missing, 1] = torch.nan
    some = Rows(rows.x, y)
    for candidate in (
        nearest_neighbour_candidate(BuildContext()),
        mixture_density_candidate(BuildContext(n_steps=2)),
    ):
        model, _ = fit_candidate(candidate, some, False, 0, progress=False)
        posterior = model.posterior(rows.x)
        assert posterior.mean.shape == (n_rows, 2)
        assert bool(posterior.std().isfinite().all())
        assert bool(posterior.sample(3, seed=0).isfinite().all())


def test_an_update_makes_neighbours_of_new_rows() -> None:
    rows = drawn(200, [1.0, 1.0], 0.1)
    x, y = rows.x.numpy(), rows.y.numpy()
    model = DeepLFMRegressor(model="nearest-neighbour-gp", random_state=0, progress=False)
    model.fit(x[:150], y[:150])
    before = np.abs(model.predict(x[150:]) - y[150:]).mean()
    model.update(x[150:], y[150:])
    assert np.abs(model.predict(x[150:]) - y[150:]).mean() < 0.5 * before


def test_of_very_many_rows_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_MOST_TRAIN_ROWS", 50)
    rows, n_taken = drawn(200, [1.0], 0.3), []

    def read(index: torch.Tensor) -> Rows:
        n_taken.append(len(index))
        return rows.take(index)

    model = fitted(rows)
    set_train_data(model, StoredRows(read, 200))
    assert n_taken == [50]  # no other row was read
    assert len(model.x) == 50
    assert float(model.x.std() / rows.x.std()) == pytest.approx(1.0, abs=0.3)


def test_a_saved_model_predicts_the_same(tmp_path) -> None:
    rows = drawn(80, [1.0, 1.0], 0.3)
    x, y = rows.x.numpy(), rows.y.numpy()
    model = DeepLFMRegressor(model="nearest-neighbour-gp", random_state=0, progress=False).fit(x, y)
    model.save(tmp_path / "model")
    again = DeepLFMRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(again.predict_interval(x), model.predict_interval(x))


def test_a_model_that_has_predicted_can_be_sent_to_another_process() -> None:
    rows = drawn(80, [1.0, 1.0], 0.3)
    x = rows.x.numpy()
    model = DeepLFMRegressor(model="nearest-neighbour-gp", random_state=0, progress=False)
    mean = model.fit(x, rows.y.numpy()).predict(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), mean)


def test_a_target_near_either_of_two_values_has_two_modes() -> None:
    """Gaussian noise costs log √(2πe) σ = 1.4 nats here, two bells 0 and what they cost to learn."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    sign = np.where(rng.random(800) < 1 / (1 + np.exp(-2 * x[:, 0])), 1.0, -1.0)
    y = sign + 0.1 * rng.normal(size=800)
    rows, later = (
        Rows(torch.as_tensor(x[part]), torch.as_tensor(y[part, None]))
        for part in (slice(0, 600), slice(600, 800))
    )
    model, _ = fit_candidate(
        mixture_density_candidate(BuildContext(n_steps=200)), rows, False, 0, progress=False
    )
    posterior = model.posterior(later.x)
    assert float(-posterior.log_prob(later.y).mean()) < 0.5
    between = torch.zeros(200, 1, dtype=torch.float64)
    assert float(posterior.log_prob(between).mean()) < -3


@pytest.mark.parametrize("n_rows", [500, 4000])
def test_a_short_autoregression_is_found_in_a_record_of_any_length(n_rows: int) -> None:
    """The lengthscale is ten rows; twelve other draws gave 8.7 to 16.7."""
    noise = torch.randn(n_rows, generator=generator()).double()
    keep, y = math.exp(-0.1), torch.zeros(n_rows).double()
    for row in range(1, n_rows):
        y[row] = keep * y[row - 1] + math.sqrt(1 - keep**2) * noise[row]
    x = torch.linspace(0, 1, n_rows).double()[:, None]
    found = fit_local_gp(x, y, generator())
    assert 5 < float(found.lengthscale) * n_rows < 20
    assert 0.6 < float(found.scale) < 1.6
