"""How much noise a gradient has, and how much of it a second of work removes.

At fixed parameters (the paper's model on the toy problem after some training) the gradient of the bound
is drawn many times. Its variance relative to its squared length is the noise of one step; noise × seconds
is the price of a step of given quality, and the kind of sampling with the lowest price is the best. Kinds
of noise of the hidden layer: independent, antithetic, scrambled Sobol points. Output weights: integrated
(``analytic``, the ELBO of the library) or drawn (``sampled``, as a first implementation would).

    python benchmarks/gradients.py                  # writes benchmarks/results/gradients.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import deeplfm.layers
from deeplfm.data.simulated import toy_system
from deeplfm.kernels import compiled_kernels
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, elbo
from deeplfm.randomness import generator_for, standard_normal
from deeplfm.terms import BuildContext, Paper
from deeplfm.training import Rows, train

RESULTS = Path(__file__).parent / "results" / "gradients.json"
KINDS = ("independent", "antithetic", "sobol")


def sobol_normal(
    n_samples: int,
    shape: Sequence[int],
    like: Tensor,
    generator: torch.Generator | None = None,
    is_antithetic: bool = False,
) -> Tensor:
    """Quasi-random normals: a scrambled Sobol sequence over all rows and units."""
    seed = int(torch.randint(2**31, (), generator=generator))
    engine = torch.quasirandom.SobolEngine(shape[0] * shape[1], scramble=True, seed=seed)
    uniform = engine.draw(n_samples, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
    return torch.special.ndtri(uniform).to(like.dtype).view(n_samples, *shape)


def sampled_bound(
    model: DeepLFM, batch: Batch, n_samples: int, generator: torch.Generator
) -> Tensor:
    """The bound with values of the output drawn in place of integrated."""
    values = model.output_layer.sample(model.features(batch.x, n_samples, generator), generator)
    log_density = model.likelihood.log_prob(batch.x, batch.y, values).mean(0)
    return batch.scale * log_density.sum() - model.kl()


def problem(n_steps: int) -> tuple[DeepLFM, Batch]:
    """The paper's model after some training on the toy problem."""
    data = toy_system(seed=0)
    x, y = (
        torch.as_tensor(item[data.train], dtype=torch.float32)[:, None]
        for item in (data.time, data.value)
    )
    x, y = (x - x.min()) / (x.max() - x.min()), (y - y.mean()) / y.std()
    rows = Rows(x, y)
    model = Paper().build(rows, BuildContext(dtype=torch.float32))
    train(model, rows, replace(Paper().schedule(n_steps), n_samples=20), seed=0)
    return model, Batch(x, y, len(x))


def measure(bound: Callable[[int], Tensor], model: DeepLFM, n_draws: int) -> dict[str, float]:
    """Relative variance of the gradient and seconds of one."""
    parameters = [p for p in model.parameters() if p.requires_grad and p.numel()]
    gradients, seconds = [], []
    for draw in range(n_draws):
        started = time.perf_counter()
        found = torch.autograd.grad(bound(draw), parameters, allow_unused=True)
        seconds.append(time.perf_counter() - started)
        gradients.append(torch.cat([g.flatten() for g in found if g is not None]).double())
    stacked = torch.stack(gradients)
    noise = float(stacked.var(0).sum() / stacked.mean(0).square().sum())
    spent = statistics.median(seconds)
    return {"noise": noise, "seconds": spent, "price": noise * spent}


def main() -> None:
    """Measure all kinds and numbers of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="training before the measurement")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--samples", type=int, nargs="+", default=[2, 4, 10, 30, 100])
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = []
    with compiled_kernels():
        model, batch = problem(arguments.steps)
        for kind in KINDS:
            deeplfm.layers.standard_normal = sobol_normal if kind == "sobol" else standard_normal
            for layer in model.layers:
                layer.is_antithetic = kind == "antithetic"
            for output in ("analytic", "sampled") if kind == "independent" else ("analytic",):
                bound = elbo if output == "analytic" else sampled_bound
                for n_samples in arguments.samples:
                    found = measure(
                        lambda draw, bound=bound, n=n_samples: bound(
                            model, batch, n, generator_for(draw, "step")
                        ),
                        model,
                        arguments.draws,
                    )
                    results.append(
                        {"noise_kind": kind, "output": output, "n_samples": n_samples, **found}
                    )
                    print(
                        f"{kind:12}{output:10}{n_samples:5}  noise {found['noise']:9.4f}  "
                        f"{found['seconds'] * 1e3:7.1f} ms  price {found['price'] * 1e3:9.4f}",
                        flush=True,
                    )
                    arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
