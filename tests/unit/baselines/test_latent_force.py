"""The exact latent force kernel against quadrature, and its forces on draws of the model itself."""

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad, quad

from deeplfm.baselines.latent_force import LatentForceKernel, LatentForceModel, _Process
from deeplfm.errors import InputError

LENGTHSCALE, DECAYS = 0.8, (0.7, 1.6)
TRUE_DECAYS, NOISE = (3.0, 12.0), 0.05


def kernel_with(is_running, lengthscale=LENGTHSCALE, decays=DECAYS, sensitivity=(1.0, 1.0)):
    kernel = LatentForceKernel(len(decays), 1, is_running)
    with torch.no_grad():
        kernel.log_lengthscale.fill_(np.log(lengthscale))
        kernel.log_decay.copy_(torch.tensor(decays).log())
        kernel.sensitivity.copy_(torch.tensor(sensitivity)[:, None])
    return kernel


def places(*pairs):
    return torch.tensor(pairs, dtype=torch.float64)


def dense(kernel, a, b):
    return kernel(a, b).to_dense().detach()


@pytest.mark.parametrize(("is_running", "start"), [(False, 0.0), (True, -30.0)])
@pytest.mark.parametrize(("t1", "t2"), [(1.3, 0.9), (0.2, 2.0), (0.5, 0.5)])
@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (0, 0)])
def test_kernel_is_the_double_integral(is_running, start, t1, t2, pair):
    kernel = kernel_with(is_running, sensitivity=(2.0, -0.5))
    g1, g2 = DECAYS[pair[0]], DECAYS[pair[1]]
    strength = (2.0, -0.5)[pair[0]] * (2.0, -0.5)[pair[1]]
    # the inner integral ends near the outer point, where all of it is
    truth, _ = dblquad(
        lambda b, a: np.exp(-g1 * (t1 - a) - g2 * (t2 - b) - ((a - b) / LENGTHSCALE) ** 2),
        start,
        t1,
        lambda a: max(start, a - 8),
        lambda a: max(start, min(t2, a + 8)),
        epsabs=1e-11,
    )
    value = dense(kernel, places((t1, pair[0])), places((t2, pair[1]))).item()
    assert value == pytest.approx(strength * truth, rel=1e-6)


@pytest.mark.parametrize(("is_running", "start"), [(False, 0.0), (True, -30.0)])
@pytest.mark.parametrize(("t", "s"), [(1.3, 0.9), (0.4, 1.5)])
def test_covariance_with_the_force_is_the_integral(is_running, start, t, s):
    value = kernel_with(is_running).with_force(places((t, 1)), torch.tensor([s]).double(), 0)
    truth, _ = quad(
        lambda a: np.exp(-DECAYS[1] * (t - a) - ((a - s) / LENGTHSCALE) ** 2),
        start,
        t,
        points=[s] if start < s < t else None,
        epsabs=1e-12,
    )
    assert value.item() == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize("is_running", [False, True])
def test_fast_decays_are_exact_where_the_textbook_form_overflows(is_running):
    """ν = 100: e^{ν²} is infinite. As γ grows, f → S u/γ, whose covariance is known."""
    kernel = kernel_with(is_running, lengthscale=0.5, decays=(400.0, 800.0))
    t, s = 2.0, 2.2
    value = dense(kernel, places((t, 0)), places((s, 1))).item()
    assert value == pytest.approx(np.exp(-(((t - s) / 0.5) ** 2)) / (400 * 800), rel=0.01)
    kernel(places((t, 0), (s, 1)), places((t, 0), (s, 1))).to_dense().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in kernel.parameters())


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("decays", [(0.7, 1.6), (0.01, 60.0)])
def test_gradients_are_those_of_the_kernel(is_running, decays):
    kernel = kernel_with(is_running, decays=decays)
    grid = places(*[(t, d) for t in (0.1, 0.6, 2.5) for d in (0, 1)])

    def value(log_lengthscale, log_decay, sensitivity):
        parameters = {
            "log_lengthscale": log_lengthscale,
            "log_decay": log_decay,
            "sensitivity": sensitivity,
        }
        call = torch.func.functional_call(kernel, parameters, (grid, grid))
        return call if isinstance(call, torch.Tensor) else call.to_dense()

    inputs = [parameter.detach().clone().requires_grad_() for parameter in kernel.parameters()]
    assert torch.autograd.gradcheck(value, inputs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("is_running", [False, True])
def test_gram_is_symmetric_and_positive(is_running):
    kernel = kernel_with(is_running)
    grid = places(*[(t, d) for t in np.linspace(0, 5, 20) for d in (0, 1)])
    gram = dense(kernel, grid, grid)
    torch.testing.assert_close(gram, gram.mT)
    assert torch.linalg.eigvalsh(gram).min() > -1e-10
    torch.testing.assert_close(gram.diagonal(), kernel(grid, grid, diag=True).detach())


def test_at_rest_the_response_starts_at_nothing():
    kernel = kernel_with(is_running=False)
    assert dense(kernel, places((0.0, 0)), places((1.0, 1))).abs().item() < 1e-15


def true_kernel():
    return kernel_with(True, lengthscale=0.2, decays=TRUE_DECAYS, sensitivity=(8.0, 15.0))


def draw_of_the_model(seed, n_rows=60, n_outputs=2):
    """A force and two noisy answers to it, from their joint distribution."""
    kernel = true_kernel()
    time = torch.linspace(0, 1, n_rows, dtype=torch.float64)
    grid = torch.cat([torch.stack([time, torch.full_like(time, d)], 1) for d in range(n_outputs)])
    with torch.no_grad():
        cross = kernel.with_force(grid, time, 0)
        force = torch.exp(-((time[:, None] - time) / 0.2).square())
        joint = torch.cat(
            [
                torch.cat([kernel(grid, grid).to_dense(), cross], 1),
                torch.cat([cross.mT, force], 1),
            ]
        )
    generator = torch.Generator().manual_seed(seed)
    factor = torch.linalg.cholesky(joint + 1e-8 * torch.eye(len(joint)))
    value = factor @ torch.randn(len(joint), generator=generator, dtype=torch.float64)
    y = value[: len(grid)].reshape(n_outputs, n_rows).T
    noise = torch.randn(y.shape, generator=generator, dtype=torch.float64)
    return time.numpy(), (y + NOISE * noise).numpy(), value[len(grid) :].numpy()


def test_forces_of_draws_of_the_model_are_covered_by_their_posterior():
    """With the hyper-parameters that made them, the posterior is exact: 95 % of 95 %."""
    inside = []
    for seed in range(100):
        time, y, force = draw_of_the_model(seed)
        process = _Process(true_kernel(), 2)
        with torch.no_grad():
            process.log_noise.fill_(2 * np.log(NOISE))
            grid = places(*[(t, d) for d in (0, 1) for t in time])
            process.condition(grid, torch.as_tensor(y.T.reshape(-1)))
            mean, variance = process.force(torch.as_tensor(time), 0)
        inside.append(np.mean(np.abs(mean.numpy() - force) < 1.96 * variance.sqrt().numpy()))
    assert np.mean(inside) == pytest.approx(0.95, abs=4 * np.std(inside) / np.sqrt(100))
    assert np.std(inside) / np.sqrt(100) < 0.015


@pytest.mark.parametrize("seed", range(3))
def test_forces_and_decays_are_found_from_noisy_outputs_alone(seed):
    """The data do not know a force's sign, size and level."""
    time, y, force = draw_of_the_model(seed)
    model = LatentForceModel(n_forces=1, n_steps=40, random_state=seed).fit(5 + 10 * time, y)
    (curve,) = model.forces(5 + 10 * time)
    assert abs(np.corrcoef(curve.mean, force)[0, 1]) > 0.99
    np.testing.assert_allclose(model.decay_, np.array(TRUE_DECAYS) / 10, rtol=0.3)


def test_prediction_is_the_closed_form():
    time, y, _ = draw_of_the_model(0, n_rows=15)
    model = LatentForceModel(n_forces=1, n_steps=5).fit(time, y)
    process, scaling = model.process_, model.scaling_
    new = np.array([0.13, 1.2])
    grid = places(*[(t, d) for d in (0, 1) for t in time])
    with torch.no_grad():
        target = places(*[(t, d) for d in (0, 1) for t in new])
        gram = dense(process.kernel, grid, grid) + torch.diag(
            process.noise_variance.repeat_interleave(15)
        )
        constant = process.constant.repeat_interleave(15)
        cross = dense(process.kernel, target, grid)
        z = torch.as_tensor(scaling.outputs(y)).T.reshape(-1)
        mean = cross @ torch.linalg.solve(gram, z - constant)
        mean = (mean + process.constant.repeat_interleave(2)).reshape(2, 2).T.numpy()
        covariance = dense(process.kernel, target, target) - cross @ torch.linalg.solve(
            gram, cross.mT
        )
    posterior = model.posterior(new)
    np.testing.assert_allclose(posterior.mean, mean * scaling.y_scale + scaling.y_shift, rtol=1e-5)
    variance = covariance.diagonal().reshape(2, 2).T.numpy() * scaling.y_scale**2
    np.testing.assert_allclose(posterior.variance(latent=True), variance, rtol=1e-4)
    draws = posterior.sample(20_000, latent=True)
    across = torch.cov(torch.stack([draws[:, 1, 0], draws[:, 1, 1]]))[0, 1]
    truth = covariance[1, 3].item() * scaling.y_scale.prod()
    bound = 5 * np.sqrt(2 * variance[1].prod() / 20_000)
    assert abs(across - truth) < bound


def test_too_many_values_are_refused():
    with pytest.raises(InputError, match=r"6500 known values.*Thin"):
        LatentForceModel().fit(np.arange(6500.0), np.zeros(6500))
