"""The reference model against the formulas of the authors' public code, transcribed.

The transcription is ours and shares nothing with the library but the numbers that parameters hold:
complex tensors, every sample replicated from the first layer on, one loop over the outputs. It keeps
the quirks of the code: a constant in the KL, the output KL in the loop over outputs, no division by the
number of samples inside the logarithm, and steps counted as in its training loop.
"""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from deeplfm.objective import Batch, sampled_predictive
from deeplfm.randomness import generator_for
from deeplfm.terms import paper as reference
from deeplfm.terms.base import BuildContext
from deeplfm.terms.paper import Reference
from deeplfm.training import Rows, train

PUBLIC_GUARD = 1e-7  # added to ρ² and to variances, whose roots have no gradient at 0
N_ROWS, N_SAMPLES = 9, 4


def gaussian_kl(mean: Tensor, log_variance: Tensor, prior_log_variance: float) -> Tensor:
    ratio = torch.exp(log_variance - prior_log_variance)
    shift = mean**2 / math.exp(prior_log_variance)
    return 0.5 * (prior_log_variance - log_variance + shift + ratio - 1).sum()


def features(inputs: Tensor, omega: Tensor, log_decay: Tensor, rho: Tensor, guard: float) -> Tensor:
    """Φ of shape S N 2QM for inputs S N P, Ω of shape P QM and ρ of shape P Q."""
    n_forces, n_columns = rho.shape[1], omega.shape[1]
    total = 0
    for p in range(inputs.shape[-1]):
        t, decay = inputs[..., p, None], log_decay[p].exp()
        wave = torch.exp(1j * omega[p] * t) - torch.exp(-decay * t)
        coefficient = torch.sqrt((rho[p] ** 2 + guard) / n_columns)
        coefficient = coefficient.repeat_interleave(n_columns // n_forces)
        total = total + coefficient * wave / (decay + 1j * omega[p])
    return torch.cat([total.real, total.imag], dim=-1)


@dataclass
class PublicModel:
    """Parameters by layer, the last one being the output layer.

    Attributes:
        rho: P Q for a hidden layer, P D Q for the output layer.
        log_decay: P, and P D.
        log_lengthscale: a number for each layer.
        epsilon: the fixed noise of Ω.
        guards: added to ρ² and to variances.
    """

    omega_mean: list[Tensor]
    omega_log_variance: list[Tensor]
    weight_mean: list[Tensor]
    weight_log_variance: list[Tensor]
    rho: list[Tensor]
    log_decay: list[Tensor]
    log_lengthscale: list[float]
    epsilon: list[Tensor]
    noise_log_variance: Tensor
    guards: tuple[float, float] = (PUBLIC_GUARD, PUBLIC_GUARD)

    def parameters(self, omega: bool = True, theta: bool = True) -> list[Tensor]:
        found = [*self.weight_mean, *self.weight_log_variance, self.noise_log_variance]
        found += [*self.omega_mean, *self.omega_log_variance] if omega else []
        return found + ([*self.rho, *self.log_decay] if theta else [])

    def kl(self) -> Tensor:
        n_outputs = self.weight_mean[-1].shape[1]
        total = torch.zeros((), dtype=torch.float64)
        for layer, log_lengthscale in enumerate(self.log_lengthscale):
            prior = math.log(2) - 2 * log_lengthscale
            is_output = layer == len(self.log_lengthscale) - 1
            if not is_output:
                total = total + prior * self.omega_mean[layer].numel()
            for _ in range(n_outputs if is_output else 1):
                total = total + gaussian_kl(
                    self.omega_mean[layer], self.omega_log_variance[layer], prior
                )
                total = total + gaussian_kl(
                    self.weight_mean[layer], self.weight_log_variance[layer], 0.0
                )
        return total

    def forward(self, x: Tensor, noise: list[Tensor]) -> list[Tensor]:
        """Values of every layer, S N ·, from standard normal noise of that shape."""
        x = x.repeat(len(noise[0]), 1, 1)
        inputs, values = x, []
        last = len(self.rho) - 1
        for layer in range(last + 1):
            omega = self.omega_mean[layer]
            omega = omega + torch.exp(self.omega_log_variance[layer] / 2) * self.epsilon[layer]
            mean, variance = self.weight_mean[layer], torch.exp(self.weight_log_variance[layer])
            if layer < last:
                own = [(self.rho[layer], self.log_decay[layer], slice(None))]
            else:
                own = [
                    (self.rho[layer][:, d], self.log_decay[layer][:, d], slice(d, d + 1))
                    for d in range(mean.shape[1])
                ]
            parts = []
            for rho, log_decay, units in own:
                phi = features(inputs, omega, log_decay, rho, self.guards[0])
                std = torch.sqrt(phi**2 @ variance[:, units] + self.guards[1])
                parts.append(phi @ mean[:, units] + std * noise[layer][..., units])
            values.append(torch.cat(parts, dim=-1))
            inputs = torch.cat([values[-1], x], dim=-1)
        return values

    def loss(self, x: Tensor, y: Tensor, n_rows: int, noise: list[Tensor]) -> Tensor:
        error = (y - self.forward(x, noise)[-1]) ** 2 / torch.exp(self.noise_log_variance)
        log_density = -0.5 * (math.log(2 * math.pi) + self.noise_log_variance + error)
        return self.kl() - torch.logsumexp(log_density, dim=0).sum() * n_rows / len(x)


def transcribed(model, guards) -> PublicModel:
    """The transcription with the parameters of a model."""

    def leaf(tensor):
        return tensor.detach().clone().requires_grad_()

    layers, blocks = model.layers, [layer.blocks[0] for layer in model.layers]
    weights = [layer.weights for layer in layers]
    maps, frequencies = [b.features for b in blocks], [b.frequencies for b in blocks]
    return PublicModel(
        omega_mean=[leaf(q.mean[0].flatten(1)) for q in frequencies],
        omega_log_variance=[leaf(2 * q.log_std[0].flatten(1)) for q in frequencies],
        weight_mean=[leaf(matrix(q.mean)) for q in weights],
        weight_log_variance=[leaf(2 * matrix(q.log_std)) for q in weights],
        rho=[leaf(item) for item in by_layer([f.raw_sensitivity for f in maps])],
        log_decay=[leaf(item) for item in by_layer([f.log_decay for f in maps])],
        log_lengthscale=[float(f.log_lengthscale.flatten()[0]) for f in maps],
        epsilon=[q.noise[0, 0].flatten(1) for q in frequencies],
        noise_log_variance=leaf(model.likelihood.log_variance),
        guards=guards,
    )


def matrix(weights: Tensor) -> Tensor:
    """G K U as K × outputs."""
    return weights[0] if len(weights) == 1 else weights[..., 0].T


def by_layer(values: list[Tensor]) -> list[Tensor]:
    """G P · as P · of the one group of each hidden layer, and P G · of the output layer."""
    return [*(item[0] for item in values[:-1]), values[-1].movedim(0, 1)]


def step_noise(model, n_samples: int, generator: torch.Generator) -> list[Tensor]:
    return [
        torch.randn(n_samples, N_ROWS, layer.width, generator=generator, dtype=torch.float64)
        for layer in model.config.layers
    ]


SHAPES = {
    "toy": (Reference((3,), n_features=5, n_samples=N_SAMPLES), 1),
    "several": (Reference((2, 3), n_forces=2, n_features=3, n_samples=N_SAMPLES), 3),
}


@pytest.fixture(params=SHAPES)
def problem(request):
    declared, n_outputs = SHAPES[request.param]
    x = torch.linspace(0, 1, N_ROWS, dtype=torch.float64)[:, None]
    y = torch.sin(torch.arange(1.0, n_outputs + 1) * 4 * x)
    rows = Rows(x, y)
    return declared, rows, declared.build(rows, BuildContext(seed=0, dtype=torch.float64))


def moved(model):
    """Away from the start, where many parameters are equal, so that swaps would not show."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter += 0.1 * noise
    return model


def test_values_of_all_layers_are_those_of_the_public_formulas(problem):
    _, rows, model = problem
    moved(model)
    public = transcribed(model, guards=(0.0, 1e-12))
    expected = public.forward(rows.x, step_noise(model, N_SAMPLES, generator_for(0, "step")))
    generator = generator_for(0, "step")
    hidden = list(model._hidden(rows.x, N_SAMPLES, generator, paths=False))
    columns = model.output_layer.features(rows.x, N_SAMPLES, generator, hidden[-1])
    found = [*hidden, model.output_layer.sample(columns, generator)]
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def test_kl_is_that_of_the_public_formulas_but_for_a_constant(problem):
    _, _, model = problem
    public = transcribed(model, (0.0, 0.0)).kl()
    assert model.kl().item() == 0  # at the start q = p
    constant = public.item()
    assert constant > 0
    public = transcribed(moved(model), (0.0, 0.0)).kl()
    assert (public - constant).item() == pytest.approx(model.kl().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("guards", "tolerance"), [((0.0, 1e-12), 1e-8), ((PUBLIC_GUARD, PUBLIC_GUARD), 1e-3)]
)
def test_loss_and_gradients_are_those_of_the_public_formulas(problem, guards, tolerance):
    _, rows, model = problem
    constant = transcribed(model, guards).kl().item()
    public = transcribed(moved(model), guards)
    expected = public.loss(
        rows.x, rows.y, 20, step_noise(model, N_SAMPLES, generator_for(0, "step"))
    )
    expected.backward()
    batch = Batch(rows.x, rows.y, 20)
    found = -sampled_predictive(model, batch, N_SAMPLES, generator_for(0, "step"))
    found.backward()
    shift = constant - 20 * rows.y.shape[1] * math.log(N_SAMPLES)
    assert found.item() + shift == pytest.approx(expected.item(), rel=tolerance)

    def check(name, left, right):
        scale = max(left.abs().max().item(), 1e-3)
        torch.testing.assert_close(
            left, right, rtol=0, atol=tolerance * scale, msg=lambda m: f"{name}: {m}"
        )

    features = [layer.blocks[0].features for layer in model.layers]
    rho = by_layer([item.raw_sensitivity.grad for item in features])
    decay = by_layer([item.log_decay.grad for item in features])
    for i, layer in enumerate(model.layers):
        q, weights = layer.blocks[0].frequencies, layer.weights
        check("Ω mean", q.mean.grad[0].flatten(1), public.omega_mean[i].grad)
        check("Ω std", q.log_std.grad[0].flatten(1), 2 * public.omega_log_variance[i].grad)
        check("W mean", matrix(weights.mean.grad), public.weight_mean[i].grad)
        check("W std", matrix(weights.log_std.grad), 2 * public.weight_log_variance[i].grad)
        check("ρ", rho[i], public.rho[i].grad)
        check("γ", decay[i], public.log_decay[i].grad)
    check("noise", model.likelihood.log_variance.grad, public.noise_log_variance.grad)


def public_curve(model, rows, n_epochs, fixed_omega, fixed_theta, single_sample) -> list[float]:
    """Losses of the public training loop, whose phases last one step more than its arguments."""
    public = transcribed(model, guards=(0.0, 1e-12))
    constant = public.kl().item()
    has_omega = has_theta = False
    optimiser = torch.optim.AdamW(public.parameters(omega=False, theta=False), lr=0.01)
    losses = []
    for epoch in range(n_epochs):
        n_samples = N_SAMPLES if epoch > single_sample else 1
        noise = step_noise(model, n_samples, generator_for(0, "step", epoch))
        optimiser.zero_grad()
        loss = public.loss(rows.x, rows.y, N_ROWS, noise)
        loss.backward()
        optimiser.step()
        value = loss.item() - constant + rows.y.numel() * math.log(n_samples)
        losses.append(value / N_ROWS)
        if not has_omega and epoch >= fixed_omega:
            has_omega = True
            optimiser = torch.optim.AdamW(public.parameters(True, has_theta), lr=0.01)
        if not has_theta and epoch >= fixed_theta:
            has_theta = True
            optimiser = torch.optim.AdamW(public.parameters(has_omega, True), lr=0.01)
    return losses


def test_training_follows_the_curve_of_the_public_loop(problem, monkeypatch):
    declared, rows, model = problem
    monkeypatch.setattr(reference, "_ONE_SAMPLE", 6)
    monkeypatch.setattr(reference, "_WEIGHTS", 5)
    monkeypatch.setattr(reference, "_FREQUENCIES", 10)
    expected = public_curve(model, rows, 40, fixed_omega=10, fixed_theta=20, single_sample=5)
    found = train(model, rows, declared.schedule(40), seed=0).loss
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-5)
    assert found[-1] < found[6] - 0.1


def test_phases_change_at_the_steps_of_the_public_code():
    ends, step = [], 0
    for phase in Reference().schedule(2000).phases:
        step += phase.n_steps
        ends.append((step, phase.n_samples, len(phase.train)))
    assert ends == [(51, 1, 2), (201, None, 2), (401, None, 3), (2000, None, 4)]
    assert Reference().schedule(100).n_steps == 100
