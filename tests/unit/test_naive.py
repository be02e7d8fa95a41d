"""The yardstick of the speed benchmarks computes what the library computes."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from deeplfm.objective import Batch, elbo
from deeplfm.randomness import generator_for
from deeplfm.terms import BuildContext, Paper
from deeplfm.training import Rows

PATH = Path(__file__).parents[2] / "benchmarks" / "naive.py"
N_SAMPLES, N_ROWS, N_BATCH = 4, 20, 7
SHAPES = {
    "toy": ((3,), 1, 1, 1),
    "several outputs": ((3,), 1, 3, 2),
    "several inputs, deeper": ((2, 3), 3, 2, 1),
}


@pytest.fixture(scope="module")
def naive_module():
    spec = importlib.util.spec_from_file_location("naive", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["naive"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["naive"]


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture(params=SHAPES)
def problem(request):
    """The paper's model, moved off its start, and a batch."""
    hidden, n_inputs, n_outputs, n_forces = SHAPES[request.param]
    rows = Rows(normal(N_BATCH, n_inputs, seed=1), normal(N_BATCH, n_outputs, seed=2))
    model = Paper(hidden, n_forces=n_forces, n_features=6).build(rows, BuildContext())
    with torch.no_grad():  # at the start many parameters are equal, so that swaps would not show
        for index, parameter in enumerate(p for p in model.parameters() if p.requires_grad):
            parameter += 0.1 * normal(*parameter.shape, seed=10 + index)
    return model, rows


def both_bounds(naive_module, problem):
    """The two bounds with the same noise, and the two models."""
    model, rows = problem
    ours = elbo(model, Batch(rows.x, rows.y, N_ROWS), N_SAMPLES, generator_for(3, "step"))
    generator = generator_for(3, "step")
    noise = [
        torch.randn(N_SAMPLES, N_BATCH, layer.width, generator=generator, dtype=torch.float64)
        for layer in model.config.layers[:-1]
    ]
    naive = naive_module.NaiveDeepLFM.like(model)
    return ours, naive.elbo(rows.x, rows.y, N_ROWS, N_SAMPLES, noise), model, naive


def test_the_bound_is_the_same(naive_module, problem):
    ours, theirs, _, _ = both_bounds(naive_module, problem)
    torch.testing.assert_close(theirs, ours, rtol=1e-7, atol=0)


def test_the_gradient_is_the_same(naive_module, problem):
    ours, theirs, model, naive = both_bounds(naive_module, problem)
    ours.backward()
    theirs.backward()
    output, groups = model.output_layer, naive.outputs
    pairs = [
        (output.weights.mean.grad, [group.weight_mean.grad for group in groups]),
        (output.weights.log_std.grad, [group.weight_log_std.grad for group in groups]),
        *(
            (getattr(part, name).grad, [getattr(group.features, other).grad for group in groups])
            for part, name, other in [
                (output.blocks[0].frequencies, "mean", "frequency_mean"),
                (output.blocks[0].frequencies, "log_std", "frequency_log_std"),
                (output.blocks[0].features, "log_decay", "log_decay"),
                (output.blocks[0].features, "log_lengthscale", "log_lengthscale"),
            ]
        ),
        (
            model.layers[0].blocks[0].frequencies.mean.grad,
            [naive.hidden[0].features.frequency_mean.grad],
        ),
        (model.layers[0].weights.mean.grad, [naive.hidden[0].weight_mean.grad]),
        (model.likelihood.log_variance.grad, list(naive.log_noise.grad)),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(torch.stack(theirs), ours, rtol=1e-6, atol=1e-8)


def test_without_noise_it_draws_its_own(naive_module):
    naive = naive_module.NaiveDeepLFM(n_inputs=2, n_outputs=1, hidden=(3,), n_features=5)
    x, y = torch.randn(6, 2), torch.randn(6, 1)
    first, second = (naive.elbo(x, y, len(x), N_SAMPLES) for _ in range(2))
    assert first.isfinite() and second.isfinite()
    assert first != second
