"""Seconds of one training step by system, beside those of the first-order system.

One hidden layer of 3 and one output, the input concatenated, float32, from a finite start; forward and
backward. Systems of all damping ratios run on the same path: a response is a wave and a few transients.

    python benchmarks/systems.py
    python benchmarks/systems.py --rows 1000 --samples 50 --rounds 9
"""

from __future__ import annotations

import argparse
import time

import torch
from measure import Step, time_in_turns

from deeplfm import DeepLFM
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.features import SecondOrder
from deeplfm.kernels import compiled_kernels
from deeplfm.objective import Batch, elbo
from deeplfm.randomness import generator_for

DAMPING = {"underdamped": 0.2, "critical": 1.0, "overdamped": 3.0}


def prepare(system: str, damping: float, is_compiled: bool, n_rows: int, n_samples: int) -> Step:
    """A step of one system, on normal noise."""
    torch.manual_seed(0)
    block = BlockConfig(system, n_features=100)
    layers = (LayerConfig(3, (block,)), LayerConfig(1, (block,)))
    model = DeepLFM(ModelConfig(1, layers, n_samples=n_samples), seed=0)
    with torch.no_grad():
        model.layers[0].weights.mean.normal_()
        model.layers[0].weights.log_std.fill_(-2.0)
    x = torch.linspace(0, 1, n_rows)[:, None]
    for layer in model.layers:
        features = layer.blocks[0].features
        features.set_bandwidth(3.0)
        if isinstance(features, SecondOrder):
            features.log_damping.data.fill_(torch.tensor(damping).log().item())
    with torch.no_grad():  # hidden values of order one: small ones are polynomials, not waves
        hidden = model.layers[0].moments(model.layers[0].features(x, 1))[0]
        model.layers[0].weights.mean.mul_(3 / hidden.std())
    batch = Batch(x, torch.randn(n_rows, 1), n_rows)

    def step() -> None:
        with compiled_kernels(is_compiled):
            (-elbo(model, batch, n_samples, generator_for(0, "step"))).backward()

    return step


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kinds = {"ode1": ("ode1", 1.0)} | {f"ode2, {k}": ("ode2", v) for k, v in DAMPING.items()}
    for is_compiled in (False, True):
        steps = {
            name: prepare(*kind, is_compiled, arguments.rows, arguments.samples)
            for name, kind in kinds.items()
        }
        seconds = time_in_turns(steps, arguments.rounds, time.process_time)
        print("compiled kernels" if is_compiled else "plain kernels")
        for name, value in seconds.items():
            print(f"  {name:18}{value:9.4f} s{value / seconds['ode1']:8.2f} times ode1")


if __name__ == "__main__":
    main()
