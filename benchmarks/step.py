"""Seconds and memory of one training step at the paper's settings, beside those of a transcription.

One hidden layer of 3, 100 features, 100 samples, the input concatenated, float32; forward, backward
and AdamW. ``plain`` is the paper's ELBO in plain PyTorch, ``ours`` the same by the best path of this
machine, ``exact`` has its last layer solved in closed form, ``naive`` is `naive.py`, and ``floor`` is
the unit of time: the sines and cosines of the hidden values, forward and again backward. Hidden values
are scaled to order one: at the paper's starting values they are so small that our features are
polynomials, which cost less than sines.

    python benchmarks/step.py --shape toy
    python benchmarks/step.py --shape charis --json step-charis.json --repeats 9
    python benchmarks/step.py --shape toy --samples 400 --only ours plain exact
    python benchmarks/step.py --shape toy --threads 1        # processor time: for busy machines
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from measure import Step, available_megabytes, floor_step, peak_megabytes, time_in_turns
from naive import NaiveDeepLFM

from deeplfm import DeepLFM
from deeplfm.kernels import compiled_kernels
from deeplfm.objective import Batch, collapsed, elbo
from deeplfm.randomness import generator_for
from deeplfm.terms import BuildContext, Paper
from deeplfm.terms.paper import initialise_as_paper
from deeplfm.training import Rows

N_FEATURES, WIDTH = 100, 3
VARIANTS = ("ours", "plain", "exact", "naive")
NAIVE_BYTES = 40  # held by the transcription for each complex feature of each layer


@dataclass(frozen=True)
class Shape:
    """Rows of a step, and columns of inputs and outputs."""

    n_rows: int
    n_inputs: int
    n_outputs: int

    def floor_elements(self, n_samples: int) -> int:
        """Sines that differ by sample: those of the hidden values, for each output."""
        return n_samples * self.n_rows * N_FEATURES * WIDTH * self.n_outputs

    def naive_megabytes(self, n_samples: int) -> float:
        """Approximate memory of the transcription."""
        per_row = self.n_inputs + (WIDTH + self.n_inputs) * self.n_outputs
        return NAIVE_BYTES * n_samples * self.n_rows * N_FEATURES * per_row / 1e6


SHAPES = {
    "toy": Shape(500, 1, 1),
    "charis": Shape(700, 1, 3),
    "powerplant": Shape(1000, 4, 1),
    "protein": Shape(1000, 9, 1),
}


def paper_model(rows: Rows, n_samples: int, noise_per_sample: bool) -> DeepLFM:
    """The paper's model, with one ε per sample where asked."""
    config = Paper((WIDTH,), n_features=N_FEATURES).build(rows, BuildContext()).config
    layers = tuple(
        replace(
            layer,
            blocks=tuple(
                replace(block, noise_per_sample=noise_per_sample) for block in layer.blocks
            ),
        )
        for layer in config.layers
    )
    config = replace(config, layers=layers, n_samples=n_samples, n_paths=n_samples)
    model = DeepLFM(config, seed=0)
    initialise_as_paper(model, generator_for(0, "start"))
    with torch.no_grad():
        hidden = model.layers[0].moments(model.layers[0].features(rows.x, 1))[0]
        model.layers[0].weights.mean.div_(hidden.std())
    return model


def with_exact_output(model: DeepLFM) -> DeepLFM:
    """The same model, the weights of its last layer in closed form."""
    *hidden, output = model.config.layers
    layers = (*hidden, replace(output, weights="exact"))
    exact = DeepLFM(replace(model.config, layers=layers), seed=0)
    replaced = f"layers.{len(hidden)}.weights."
    kept = {k: v for k, v in model.state_dict().items() if not k.startswith(replaced)}
    exact.load_state_dict(kept, strict=False)
    return exact


def prepare(
    variant: str, shape: Shape, n_samples: int, noise_per_sample: bool, n_threads: int
) -> Step:
    """A training step of one variant, on normal noise."""
    torch.set_num_threads(n_threads)
    torch.manual_seed(0)
    rows = Rows(
        torch.randn(shape.n_rows, shape.n_inputs), torch.randn(shape.n_rows, shape.n_outputs)
    )
    batch = Batch(rows.x, rows.y, shape.n_rows)
    model: DeepLFM | NaiveDeepLFM = paper_model(rows, n_samples, noise_per_sample)
    path, objective = contextlib.nullcontext, elbo
    if variant == "ours":
        path = compiled_kernels
    elif variant == "exact":
        model, objective = with_exact_output(model), collapsed
    elif variant == "naive":
        model = NaiveDeepLFM.like(model)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=0.01, fused=True)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with path():
            if isinstance(model, NaiveDeepLFM):
                bound = model.elbo(rows.x, rows.y, shape.n_rows, n_samples)
            else:
                bound = objective(model, batch, n_samples, generator_for(0, "step"))
            (-bound / shape.n_rows).backward()
        optimiser.step()

    return step


def run(
    shape: Shape,
    variants: list[str],
    n_samples: int,
    n_repeats: int,
    n_threads: int,
    noise_per_sample: bool,
) -> dict[str, dict[str, float]]:
    """Memory of each variant alone, then the time of all in turns."""
    settings = (shape, n_samples, noise_per_sample, n_threads)
    memory = {name: peak_megabytes(prepare, name, *settings) for name in variants}
    steps = {name: prepare(name, *settings) for name in variants if not math.isnan(memory[name])}
    steps["floor"] = floor_step(shape.floor_elements(n_samples))
    clock = time.process_time if n_threads == 1 else time.perf_counter
    seconds = time_in_turns(steps, n_repeats, clock)
    results = {
        name: {"seconds": seconds[name], "peak_mb": round(memory[name], 1)}
        for name in variants
        if name in seconds
    }
    return {**results, "floor": {"seconds": seconds["floor"]}}


def print_table(results: dict[str, dict[str, float]]) -> None:
    """Seconds, memory and ratios."""
    floor, naive = results["floor"]["seconds"], results.get("naive")
    print(f"{'':8}{'seconds':>10}{'peak MB':>10}{'/ floor':>10}{'naive /':>10}{'memory':>10}")
    for name, result in results.items():
        seconds, megabytes = result["seconds"], result.get("peak_mb")
        cells = f"{name:8}{seconds:10.4f}"
        cells += f"{megabytes:10.1f}" if megabytes is not None else " " * 10
        cells += f"{seconds / floor:10.1f}"
        if naive and megabytes:
            cells += f"{naive['seconds'] / seconds:10.1f}{naive['peak_mb'] / megabytes:10.1f}"
        print(cells)
    print("naive / and memory: how many times less than naive, in seconds and in megabytes")


def main() -> None:
    """Measure one shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="toy")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--noise-per-sample", action="store_true", help="not in naive")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shape, variants = SHAPES[arguments.shape], list(arguments.only)
    needed = shape.naive_megabytes(arguments.samples)
    if "naive" in variants and needed > 0.9 * available_megabytes():
        print(f"naive is left out: it needs about {needed / 1000:.0f} GB, more than is free.")
        variants.remove("naive")
    results = run(
        shape,
        variants,
        arguments.samples,
        arguments.repeats,
        arguments.threads,
        arguments.noise_per_sample,
    )
    print_table(results)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
