r"""Gaps of one output, with the other outputs known: the default against ridge regression.

Simulated sets of four outputs, each with a gap of 50 of 240 rows in the first one:

- "systems": y_d' + γ_d y_d = Σ_q S_dq u_q, two smooth forces, noise of 10 %;
- "stations": a day's cycle, common weather and weather of each station, noise of 10 %.

With ``--data FILE`` also each column of a table in turn; the first column is time, numbers or
timestamps.

    python benchmarks/shared_forces.py --out gaps.jsonl
    python benchmarks/shared_forces.py --kinds --data FILE --rows 1000 --gap 150 --out gaps.jsonl

Ridge regression on the other outputs at the same time has the penalty of leave-one-out errors and a
normal density with the variance of these errors. "default" is the forecaster as it is (``--effort``),
"alone" the same without the other outputs, and "shared" has two forces that the outputs share
(``--models default alone shared``). Records are saved as they are made, and an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from deeplfm import DeepLFMForecaster
from deeplfm.terms.candidates import STATE_SPACE

Array = NDArray[np.float64]

N_ROWS, N_OUTPUTS, GAP = 240, 4, slice(100, 150)
NOISE = 0.1
SHARED = "trend + reversion + shared_forces(2)"
MODELS = {"default": "auto", "alone": STATE_SPACE, "shared": SHARED}


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


def framed(values: Array, index: pd.Index) -> pd.DataFrame:
    """Values as a frame."""
    return pd.DataFrame(values, index=index, columns=[f"y{d}" for d in range(values.shape[1])])


def record_of(
    name: str, frame: pd.DataFrame, gap: slice, target: int, models: list[str], effort: str
) -> dict[str, object]:
    """Scores of the models in the gap of one output, in units of its standard deviation."""
    column, truth = frame.columns[target], frame.iloc[gap, target].to_numpy()
    known = frame.copy()
    known.iloc[gap, target] = np.nan
    spread = float(known[column].std())
    found: dict[str, object] = {"set": name, "ridge": _ridge(known, truth, gap, target, spread)}
    for model in models:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forecaster = DeepLFMForecaster(MODELS[model], effort=effort, progress=False)
            forecaster.fit(known)
        filled = forecaster.impute(intervals=True).iloc[gap]
        rows = torch.full((len(truth), frame.shape[1]), torch.nan, dtype=torch.float64)
        rows[:, target] = torch.tensor(truth)  # NaN in the others: only the target is scored
        density = forecaster.posterior(frame.index[gap]).log_prob(rows)[:, target].numpy()
        ends = filled[f"{column}_low"].to_numpy(), filled[f"{column}_high"].to_numpy()
        mean = filled[column].to_numpy()
        found[model] = _scores(truth, mean, density + np.log(spread), *ends)
        found[f"{model} seconds"] = time.process_time() - began
    return found


def _ridge(
    known: pd.DataFrame, truth: Array, gap: slice, target: int, spread: float
) -> list[float]:
    """Ridge regression on the other outputs at the same time; their own gaps are interpolated."""
    others = known.drop(columns=known.columns[target]).interpolate(limit_direction="both")
    table = StandardScaler().fit_transform(others)
    y = known.iloc[:, target].to_numpy()
    is_known = np.isfinite(y)
    model = RidgeCV(np.logspace(-4, 4, 25), store_cv_results=True)
    model.fit(table[is_known], y[is_known])
    best = int(np.argmin(model.cv_results_.mean(0)))
    error = float(np.sqrt(model.cv_results_[:, best].mean()))
    mean = model.predict(table[gap])
    density = norm.logpdf(truth, mean, error) + np.log(spread)
    return _scores(truth, mean, density, mean - 1.96 * error, mean + 1.96 * error)


def _scores(truth: Array, mean: Array, density: Array, low: Array, high: Array) -> list[float]:
    """NMSE, MNLL, and the share of values inside the 95 % interval."""
    some = np.isfinite(truth)
    truth, mean, density = truth[some], mean[some], density[some]
    nmse = float(((mean - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    inside = (low[some] <= truth) & (truth <= high[some])
    return [nmse, float(-density.mean()), float(inside.mean())]


def table(records: list[dict[str, object]], models: list[str]) -> str:
    """Median NMSE and MNLL, mean coverage, and sets on which a model is as good as ridge."""
    lines = ["| sets | model | NMSE | MNLL | inside 95 % | NMSE, MNLL as good as ridge |"]
    lines.append("|---|---|---|---|---|---|")
    for kind in dict.fromkeys(str(item["set"]).split()[0] for item in records):
        some = [item for item in records if str(item["set"]).split()[0] == kind]
        for model in ("ridge", *models):
            both = [(item[model], item["ridge"]) for item in some if model in item]
            if not both:
                continue
            scores, ridge = np.array(both).transpose(1, 0, 2)
            good = (scores <= ridge).sum(0)
            lines.append(
                f"| {kind} ({len(both)}) | {model} | {np.median(scores[:, 0]):.3f} | "
                f"{np.median(scores[:, 1]):.2f} | {100 * scores[:, 2].mean():.0f} % | "
                f"{good[0]}, {good[1]} of {len(both)} |"
            )
    return "\n".join(lines)


def read(path: Path, first: int, n_rows: int) -> pd.DataFrame:
    """Some rows of a table whose first column is time."""
    frame = pd.read_csv(path, index_col=0).iloc[first : first + n_rows]
    if not pd.api.types.is_numeric_dtype(frame.index):
        frame.index = pd.to_datetime(frame.index)
    return frame.astype(float)


def main() -> None:
    """Simulate, fit, save and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20, help="sets of each kind")
    parser.add_argument("--kinds", nargs="*", default=["systems", "stations"])
    parser.add_argument("--models", nargs="*", default=["default", "alone"], choices=MODELS)
    parser.add_argument("--effort", default="fast", help="of the fits")
    parser.add_argument("--data", type=Path, help="table whose first column is time")
    parser.add_argument("--first", type=int, default=0, help="first row of the table")
    parser.add_argument("--rows", type=int, default=1000, help="rows of the table")
    parser.add_argument("--gap", type=int, default=150, help="rows of the gap in the table")
    parser.add_argument("--out", type=Path, default=Path("gaps.jsonl"))
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    records = [json.loads(line) for line in lines]
    done = {item["set"] for item in records}
    steps = {"systems": pd.RangeIndex(N_ROWS), "stations": pd.date_range("2024", None, N_ROWS, "h")}
    simulators = {"systems": systems, "stations": stations}
    jobs = [
        (f"{kind} {number}", framed(simulators[kind](number), steps[kind]), GAP, 0)
        for number in range(options.n)
        for kind in options.kinds
    ]
    if options.data is not None:
        frame = read(options.data, options.first, options.rows)
        begin = (len(frame) - options.gap) // 2
        gap = slice(begin, begin + options.gap)
        for target, column in enumerate(frame.columns):
            jobs.append((f"{options.data.stem} {options.first} {column}", frame, gap, target))
    with threadpool_limits(1):
        for name, frame, gap, target in jobs:
            if name not in done:
                records.append(record_of(name, frame, gap, target, options.models, options.effort))
                with options.out.open("a") as stream:
                    stream.write(json.dumps(records[-1]) + "\n")
    print(table(records, options.models))


if __name__ == "__main__":
    main()
