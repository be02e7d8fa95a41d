r"""Gaps of one output, with the other outputs known: shared forces against ridge regression.

Simulated sets of four outputs, each with a gap in the first one:

- "systems": y_d' + γ_d y_d = Σ_q S_dq u_q, two smooth forces, noise of 10 %;
- "stations": a day's cycle, common weather and weather of each station, noise of 10 %.

With ``--data FILE`` also each channel of a table in turn (the first column is time), in a gap of 150
rows.

    python benchmarks/shared_forces.py --out shared.jsonl
    python benchmarks/shared_forces.py --kinds channels --data FILE --rows 1000 --out shared.jsonl

Ridge regression on the other outputs at the same time has the penalty of leave-one-out errors and a
normal density with the variance of these errors. "alone" is the same sum of terms without shared forces.
Records are saved as they are made, and an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_limits

from deeplfm import DeepLFMRegressor

Array = NDArray[np.float64]

N_ROWS, N_OUTPUTS, GAP = 240, 4, slice(100, 150)
NOISE = 0.1
SUMS = {
    "systems": "trend + level + reversion",
    "stations": "trend + season(24) + level + reversion",
}
CHANNELS = "trend + season + level + reversion"


def systems(number: int) -> Array:
    """First-order systems with two smooth forces."""
    rng = np.random.default_rng([7, number])
    fine, n_before = 4, 200
    n_steps, step = fine * (N_ROWS + n_before), 1 / fine
    forces = []
    for lengthscale in rng.uniform(4, 12, 2):
        lags = np.arange(-4 * lengthscale, 4 * lengthscale, step)
        kernel = np.exp(-((lags / lengthscale) ** 2))
        white = rng.normal(size=n_steps + len(kernel) - 1)
        forces.append(np.convolve(white, kernel / np.linalg.norm(kernel), mode="valid"))
    decay = np.exp(rng.uniform(np.log(0.05), np.log(0.5), N_OUTPUTS))
    driven = np.stack(forces, axis=1) @ rng.normal(size=(N_OUTPUTS, 2)).T
    kept, values = np.exp(-decay * step), np.zeros((n_steps, N_OUTPUTS))
    for n in range(1, n_steps):
        values[n] = kept * values[n - 1] + (1 - kept) / decay * driven[n]
    return _noisy(values[n_before * fine :: fine], rng)


def stations(number: int) -> Array:
    """Hourly values of stations under common weather, which reaches them with different strength."""
    rng = np.random.default_rng([8, number])

    def weather(kept: float) -> Array:
        found = np.zeros(N_ROWS)
        for n in range(1, N_ROWS):
            found[n] = kept * found[n - 1] + np.sqrt(1 - kept**2) * rng.normal()
        return found

    common = np.stack([weather(0.99), weather(0.9)], axis=1)
    hour = 2 * np.pi * np.arange(N_ROWS) / 24
    columns = []
    for _ in range(N_OUTPUTS):
        day = rng.uniform(0.3, 1.0) * np.sin(hour + rng.normal(0, 0.3))
        columns.append(day + common @ rng.uniform(0.4, 1.2, 2) + 0.3 * weather(0.8))
    return _noisy(np.stack(columns, axis=1), rng)


def _noisy(values: Array, rng: np.random.Generator) -> Array:
    values = (values - values.mean(0)) / values.std(0)
    return values + NOISE * rng.normal(size=values.shape)


def record_of(
    kind: str, number: int, values: Array, gap: slice, target: int, text: str
) -> dict[str, object]:
    """Scores of the three models in the gap of one output."""
    truth = values[gap, target]
    known = values.copy()
    known[gap, target] = np.nan
    found: dict[str, object] = {"kind": kind, "number": number}
    clock = np.arange(float(len(values)))
    for name, model in (("alone", text), ("shared", f"{text} + shared_forces(2)")):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regressor = DeepLFMRegressor(model, effort="fast", is_series=True, log_targets=False)
            regressor.set_params(random_state=number, progress=False).fit(clock, known)
        posterior = regressor.posterior(clock[gap])
        # every row's own target stands in its column, NaN in the others
        rows = np.full((len(truth), values.shape[1]), np.nan)
        rows[:, target] = truth
        density = posterior.log_prob(rows)[:, target].numpy()
        ends = posterior.quantile([0.025, 0.975])[..., target].numpy()
        mean = posterior.mean[:, target].numpy()
        found[name] = _scores(truth, mean, density, ends[0], ends[1])
        found[f"{name} seconds"] = time.process_time() - began
    others = np.delete(values, target, axis=1)
    is_known = np.isfinite(known[:, target])
    ridge = RidgeCV(np.logspace(-4, 4, 25), store_cv_results=True)
    ridge.fit(others[is_known], known[is_known, target])
    best = int(np.argmin(ridge.cv_results_.mean(0)))
    spread = float(np.sqrt(ridge.cv_results_[:, best].mean()))
    mean = ridge.predict(others[gap])
    density = norm.logpdf(truth, mean, spread)
    found["ridge"] = _scores(truth, mean, density, mean - 1.96 * spread, mean + 1.96 * spread)
    return found


def _scores(truth: Array, mean: Array, density: Array, low: Array, high: Array) -> list[float]:
    """NMSE, MNLL, and the share of values inside the 95 % interval."""
    nmse = float(((mean - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    return [nmse, float(-density.mean()), float(((low <= truth) & (truth <= high)).mean())]


def table(records: list[dict[str, object]]) -> str:
    """Median NMSE and MNLL, mean coverage, and sets on which shared forces are as good as ridge."""
    lines = ["| sets | model | NMSE | MNLL | inside 95 % | NMSE, MNLL as good as ridge |"]
    lines.append("|---|---|---|---|---|---|")
    for kind in dict.fromkeys(str(item["kind"]) for item in records):
        some = [item for item in records if item["kind"] == kind]
        ridge = np.array([item["ridge"] for item in some])
        for model in ("ridge", "alone", "shared"):
            scores = np.array([item[model] for item in some])
            good = (scores <= ridge).sum(0)
            lines.append(
                f"| {kind} ({len(some)}) | {model} | {np.median(scores[:, 0]):.3f} | "
                f"{np.median(scores[:, 1]):.2f} | {100 * scores[:, 2].mean():.0f} % | "
                f"{good[0]}, {good[1]} of {len(some)} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Simulate, fit, save and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20, help="sets of each kind")
    parser.add_argument("--kinds", nargs="*", default=["systems", "stations"])
    parser.add_argument("--data", type=Path, help="table whose first column is time")
    parser.add_argument("--rows", type=int, default=1000, help="rows of the table")
    parser.add_argument("--out", type=Path, default=Path("shared-forces.jsonl"))
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    records = [json.loads(line) for line in lines]
    done = {(item["kind"], item["number"]) for item in records}
    jobs = [
        (kind, number, simulate, GAP, 0, SUMS[kind])
        for number in range(options.n)
        for kind, simulate in (("systems", systems), ("stations", stations))
        if kind in options.kinds
    ]
    if options.data is not None:
        frame = pd.read_csv(options.data, nrows=options.rows).iloc[:, 1:]
        columns = frame.to_numpy(np.float64)
        begin = len(frame) // 2 - 75
        gap = slice(begin, begin + 150)
        for target in range(columns.shape[1]):
            jobs.append(("channels", target, lambda _: columns, gap, target, CHANNELS))
    with threadpool_limits(1):
        for kind, number, simulate, gap, target, text in jobs:
            if (kind, number) not in done:
                records.append(record_of(kind, number, simulate(number), gap, target, text))
                with options.out.open("a") as stream:
                    stream.write(json.dumps(records[-1]) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
