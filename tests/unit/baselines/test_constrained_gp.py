"""Processes held to an equation find its parameters, as well as the data allow."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from sklearn.gaussian_process.kernels import Matern

from deeplfm.baselines.constrained_gp import ConstrainedGP
from deeplfm.baselines.deep_states import DeepStates
from deeplfm.baselines.evidence import fit_from
from deeplfm.baselines.gradient_matching import SYSTEMS, Matching, follow
from deeplfm.data.simulated import SimulatedData, fitzhugh_nagumo
from deeplfm.predictive.mixture import coverage, nmse

TRUTH = np.array([3.0, 0.2, 0.2])
DATA = fitzhugh_nagumo(seed=3, n_rows=401)


@pytest.fixture(scope="module")
def fitted():
    return ConstrainedGP().fit(DATA.time, DATA.value)


def rate(name, state, parameters):
    tensors = (
        torch.as_tensor(np.asarray(item), dtype=torch.float64) for item in (state, parameters)
    )
    return SYSTEMS[name].rate(*tensors).numpy()


def prey_and_predators(n_rows):
    """Noisy rows of s' = s(2 − w), w' = −w(4 − s) from (5, 3)."""
    time = np.linspace(0, 2, n_rows)
    solved = solve_ivp(
        lambda _, state: rate("lotka-volterra", state, [2.0, 1.0, 4.0, 1.0]),
        (0, 2),
        [5.0, 3.0],
        t_eval=time,
        rtol=1e-9,
        atol=1e-9,
    )
    noise = np.random.default_rng(0).normal(0, 0.1, (n_rows, 2))
    return SimulatedData(time, solved.y.T, solved.y.T + noise, ("prey", "predators"))


def test_fitzhugh_nagumo_parameters_within_a_fifth(fitted):
    """The last parameter is known to ±31 % by any method: see the least squares below."""
    mean = fitted.parameters_["mean"].to_numpy()
    np.testing.assert_allclose(mean, TRUTH, rtol=0.2)
    assert (np.abs(mean - TRUTH) < 1.96 * fitted.parameters_["std"]).all()
    assert list(fitted.parameters_.index) == ["a", "b", "c"]


def test_posterior_of_parameters_is_that_of_least_squares_on_solutions(fitted):
    """With noise of 0.5, the truth, and a flat prior: what the data can say, and no more."""

    def residual(unknown):
        solved = solve_ivp(
            lambda _, state: rate("fitzhugh-nagumo", state, unknown[:3]),
            (0, 20),
            unknown[3:],
            t_eval=DATA.time,
            rtol=1e-5,
            atol=1e-5,
        )
        return ((solved.y.T - DATA.value) / 0.5).ravel()

    start = [*fitted.parameters_["mean"], -1.0, 1.0]
    exact = least_squares(residual, start, diff_step=1e-3, xtol=1e-5, ftol=1e-6)
    std = np.sqrt(np.diag(np.linalg.inv(exact.jac.T @ exact.jac)))[:3]
    np.testing.assert_allclose(fitted.parameters_["mean"], exact.x[:3], atol=0.2 * std.min())
    np.testing.assert_allclose(fitted.parameters_["std"], std, rtol=0.15)


def test_states_are_found_under_the_noise(fitted):
    posterior = fitted.posterior(DATA.time)
    assert nmse(posterior.mean, torch.as_tensor(DATA.clean)).max() < 0.01
    std = posterior.component_noise.sqrt().mean((0, 1))
    np.testing.assert_allclose(std, 0.5, rtol=0.1)
    assert 0.92 < coverage(posterior, torch.as_tensor(DATA.value)).mean() < 0.98


def test_the_equation_carries_on_beyond_the_data():
    model = ConstrainedGP().fit(DATA.time[:301], DATA.value[:301])
    posterior = model.posterior(DATA.time[301:])
    assert nmse(posterior.mean, torch.as_tensor(DATA.clean[301:])).max() < 0.05
    later, at_once = model.posterior(DATA.time[[400]]).mean, posterior.mean[[-1]]
    torch.testing.assert_close(later, at_once, rtol=1e-4, atol=1e-4)


def test_lotka_volterra_from_few_rows_at_odd_times_with_gaps():
    data = prey_and_predators(60)
    keep = np.sort(np.random.default_rng(0).permutation(60)[:40])
    value = data.value[keep]
    value[10:14, 0] = np.nan
    model = ConstrainedGP("lotka-volterra", n_grid=100).fit(data.time[keep], value)
    np.testing.assert_allclose(model.parameters_["mean"], [2, 1, 4, 1], rtol=0.1)
    posterior = model.posterior(data.time)
    assert nmse(posterior.mean, torch.as_tensor(data.clean)).max() < 0.01


def test_time_is_looked_at_between_steps(monkeypatch):
    data = prey_and_predators(40)
    steps = []
    original = Matching._normal_equations

    def counted(self, *arguments):
        steps.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(Matching, "_normal_equations", counted)
    counts = []
    for limit in (None, 0.0):
        steps.clear()
        model = ConstrainedGP("lotka-volterra", n_grid=40, time_limit=limit)
        model.fit(data.time, data.value)
        counts.append(len(steps))
        assert np.isfinite(model.predict(data.time)).all()
    assert counts[0] > 10
    assert counts[1] == 3  # one step of each search, and the posterior


def test_before_the_first_row_the_equation_runs_backwards():
    data = prey_and_predators(60)
    model = ConstrainedGP("lotka-volterra", n_grid=60).fit(data.time[10:], data.value[10:])
    error = model.predict(data.time[5:10][::-1]) - data.clean[5:10][::-1]
    assert np.abs(error).max() < 0.5


def test_derivatives_of_the_process_are_derivatives():
    """Against central differences, whose error is of the order of the step squared."""
    process = DeepStates(2, 3, 5, 0.3).requires_grad_(False)
    time = torch.tensor([0.0, 0.11, 0.5], dtype=torch.float64)
    other = torch.tensor([0.05, 0.3], dtype=torch.float64)
    step = 1e-4

    def difference(of, at):
        return (of(at + step) - of(at - step)) / (2 * step)

    values, cross, both = process.covariances(time, other)
    assert values.shape == (2, 3, 2)
    expected = difference(lambda t: process.covariances(t, other)[0], time)
    torch.testing.assert_close(cross, expected, rtol=1e-5, atol=1e-5)
    expected = difference(lambda t: process.covariances(time, t)[1], other)
    torch.testing.assert_close(both, expected, rtol=1e-5, atol=1e-5)


def test_without_hidden_weights_a_state_is_a_matern_process():
    process = DeepStates(1, 3, 5, lengthscale=0.3).requires_grad_(False)
    process.weight.zero_()
    time = torch.tensor([0.0, 0.07, 0.3, 0.9], dtype=torch.float64)
    kernel = Matern(1 / (1 / 0.3 + 1 / 0.5), nu=2.5)  # no more than half the record
    np.testing.assert_allclose(process.covariances(time, time)[0][0], kernel(time[:, None].numpy()))


def test_a_hidden_layer_is_learned_where_it_pays():
    """A chirp is no stationary process; a layer that bends time makes it one."""
    time = torch.linspace(0, 1, 80, dtype=torch.float64)
    values = torch.sin(30 * time**3)[:, None]
    values[20:25] = torch.nan
    deep = DeepStates.fitted(time, values, n_hidden=2, n_features=20)
    hidden, slope = deep.hidden(time)
    torch.testing.assert_close(slope[1:-1], (hidden[2:] - hidden[:-2]) * 79 / 2, rtol=0.1, atol=0.1)
    deep_loss = deep._loss(*deep.seen)
    shallow = fit_from(
        [_without_hidden(size) for size in (0.02, 0.1, 0.4)],
        lambda model: model._loss(*deep.seen),
        60,
        "test",
    )
    assert deep_loss < shallow._loss(*deep.seen) - 0.2
    known = deep.seen[2][:, 0]
    assert (deep.smoothed(time) - values)[known].abs().max() < 0.05
    assert (deep.smoothed(time)[~known, 0] - torch.sin(30 * time[~known] ** 3)).abs().max() < 0.05


def _without_hidden(lengthscale):
    model = DeepStates(1, 2, 20, lengthscale)
    model.weight.requires_grad_(False).zero_()
    return model


def test_solutions_of_an_equation():
    system, parameters = SYSTEMS["fitzhugh-nagumo"], torch.as_tensor(TRUTH)
    start = torch.tensor([[-1.0, 1.0]], dtype=torch.float64)
    time = torch.linspace(0.3, 6, 20, dtype=torch.float64)
    path = follow(system, start, parameters[None], torch.tensor(0.0), time, 0.02)
    exact = solve_ivp(
        lambda _, state: rate("fitzhugh-nagumo", state, TRUTH),
        (0, 6),
        [-1, 1],
        t_eval=time.numpy(),
        rtol=1e-10,
        atol=1e-10,
    )
    np.testing.assert_allclose(path[0], exact.y.T, atol=1e-6)
