"""A cost model of panels and of one large table: fitted to some measured points, checked on others.

Points are processor seconds of one thread, so that other work on the machine counts for little. They are
saved after each one, and a run that was stopped goes on.

    python benchmarks/cost_model.py         # writes benchmarks/results/cost_model.json, prints the tables
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.optimize import nnls

from deeplfm import DeepLFMForecaster
from deeplfm.io.files import write_whole
from deeplfm.terms import BuildContext, Table
from deeplfm.training import Phase, Rows, Schedule, train

RESULTS = Path(__file__).parent / "results" / "cost_model.json"
SHALLOW = 100  # frequencies of the default table beside its deep path
N_STEPS = 3
LATENCY, BANDWIDTH = 1e-4, 1e9  # assumed: seconds of a message, bytes per second


@dataclass(frozen=True)
class Step:
    """A training step of the default table of one output."""

    rows: int
    features: int = 20
    samples: int = 4
    inputs: int = 10

    @property
    def columns(self) -> int:
        """K of the exact output layer."""
        return 2 * self.features + 2 * SHALLOW + self.inputs + 1

    @property
    def fixed(self) -> list[float]:
        """What each process does alike: the step itself, and the solution of the output layer."""
        return [1.0, self.columns**3]

    @property
    def shared(self) -> list[float]:
        """What is done for each row: sines of each sample, products of columns, sums of squares."""
        deep = 2 * self.features
        return [
            self.rows * self.samples * deep,
            self.rows * self.samples * deep * self.columns,
            self.rows * self.columns**2,
        ]

    def seconds(self, cost: np.ndarray, workers: int = 1) -> float:
        """Of one step of several workers, by the model."""
        wire = 8 * (self.columns**2 + 10 * self.columns)  # the sums of the layer, and gradients
        messages = 0.0 if workers == 1 else 3 * LATENCY + 2 * wire / BANDWIDTH
        return float(cost[:2] @ self.fixed + cost[2:] @ self.shared / workers) + messages


FITTED = [
    *(Step(rows) for rows in (250, 1000, 4000)),
    *(Step(1000, features) for features in (50, 100)),
    *(Step(1000, 20, samples) for samples in (1, 8)),
    Step(250, 100),
]
CHECKED = [Step(2000, 50), Step(500, 100, 2), Step(8000), Step(1000, 30, 6)]
SERIES_FITTED, SERIES_CHECKED = [48, 150, 600], [96, 300]


def step_seconds(step: Step) -> float:
    """Processor seconds of one step, the least of three."""
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4 * step.rows, k, generator=rng) for k in (step.inputs, 1))
    rows = Rows(x, y)
    table = Table((2,), 1, step.features)
    schedule = Schedule(
        "collapsed", (Phase(N_STEPS),), batch_size=step.rows, n_samples=step.samples
    )
    found = []
    for _ in range(3):
        model = table.build(rows.take(slice(0, 1000)), BuildContext(dtype=torch.float32))
        began = time.process_time()
        train(model, rows, schedule, solve=False)
        found.append((time.process_time() - began) / N_STEPS)
    return min(found)


def series_seconds(n_rows: int) -> float:
    """Processor seconds of a monthly series: a fit with effort="fast", and a forecast of 12 months."""
    found = []
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(size=n_rows)
        month = np.arange(n_rows)
        y = 50 + 0.1 * month + 5 * np.sin(month * 2 * np.pi / 12) + noise
        when = pd.date_range("1950-01-01", periods=n_rows, freq="MS")
        frame = pd.DataFrame({"ds": when, "y": y})
        began = time.process_time()
        DeepLFMForecaster(effort="fast", progress=False).fit(frame).forecast(12)
        found.append(time.process_time() - began)
    return sorted(found)[1]


def measured(path: Path) -> dict[str, float]:
    """All points; those that the file does not hold are measured."""
    known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    todo = [(repr(step), lambda step=step: step_seconds(step)) for step in FITTED + CHECKED]
    todo += [
        (f"series of {n}", lambda n=n: series_seconds(n)) for n in SERIES_FITTED + SERIES_CHECKED
    ]
    if not all(name in known for name, _ in todo):
        series_seconds(48), step_seconds(Step(100))  # libraries are loaded
    for name, measure in todo:
        if name not in known:
            known[name] = round(measure(), 5)
            text = json.dumps(known, indent=1) + "\n"
            write_whole(path, lambda temporary, text=text: temporary.write_text(text))
            print(name, known[name], flush=True)
    return known


def coefficients(terms: list[list[float]], seconds: list[float]) -> np.ndarray:
    """Non-negative costs of the terms, by least squares of relative errors."""
    matrix, target = np.array(terms), np.array(seconds)
    unit = np.abs(matrix).max(0)
    found, _ = nnls(matrix / unit / target[:, None], np.ones(len(target)))
    return found / unit


def main() -> None:
    """Measure, fit, check, and extrapolate."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    known = measured(asked.json)
    cost = coefficients([s.fixed + s.shared for s in FITTED], [known[repr(s)] for s in FITTED])
    series = coefficients(
        [[1.0, n] for n in SERIES_FITTED], [known[f"series of {n}"] for n in SERIES_FITTED]
    )
    print("costs of a step:", *(f"{value:.3g}" for value in cost))
    print("costs of a series:", *(f"{value:.3g}" for value in series))
    print("points that the model was not fitted to: measured, modelled, ratio")
    for step in CHECKED:
        _compare(repr(step), known[repr(step)], step.seconds(cost))
    for n in SERIES_CHECKED:
        _compare(f"series of {n}", known[f"series of {n}"], float(series @ [1.0, n]))
    print("hours of one epoch of 10^10 rows, 100 features, batches of 1000 rows per worker")
    for workers in (1, 16, 256):
        step = Step(1000 * workers, 100)
        hours = step.seconds(cost, workers) * 1e10 / step.rows / 3600
        print(f"{workers:>6} workers: {hours:.3g}")
    print("hours of 10^6 monthly series of 100 rows")
    for workers in (1, 16, 256):
        print(f"{workers:>6} workers: {1e6 * float(series @ [1.0, 100]) / workers / 3600:.3g}")


def _compare(name: str, seconds: float, modelled: float) -> None:
    print(f"{name:>55} {seconds:8.4f} {modelled:8.4f} {modelled / seconds:6.2f}")


if __name__ == "__main__":
    main()
