r"""Coverage of intervals of the default on simulated series whose law is known.

Each kind is simulated afresh for each series: parameters, noise and the place of the gap are random. A
share of the values is inside the 80 % and the 95 % interval, after the end of the known rows (ahead) and
in a gap among them.

    python benchmarks/coverage.py --out coverage.jsonl
    python benchmarks/coverage.py --n 20 --seed 1 --out coverage.jsonl

Values of one series depend on each other. So the band is that of one value for each series, the last one
ahead and the middle of the gap: with the nominal coverage, a count outside the band has at most the
probability ``--alarm`` in the whole table (binomial, Bonferroni over its cells). Records are saved as
they are made, and an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from deeplfm import DeepLFMRegressor

Array = NDArray[np.float64]

N_ROWS, N_GAP, N_AHEAD = 150, 12, 24
NOMINAL = (0.80, 0.95)
PLACES = ("ahead", "gap")


def sinusoids(time: Array, rng: np.random.Generator) -> Array:
    """Two sinusoids of unrelated periods and noise."""
    periods, sizes = rng.uniform([8.0, 17.0], [15.0, 40.0]), rng.uniform(0.5, 2.0, 2)
    angles = 2 * np.pi * time[:, None] / periods + rng.uniform(0, 2 * np.pi, 2)
    return np.sin(angles) @ sizes + rng.uniform(0.1, 0.5) * rng.normal(size=len(time))


def trend_and_season(time: Array, rng: np.random.Generator) -> Array:
    """A straight line, three harmonics of twelve rows and noise."""
    orders = np.arange(1, 4)
    angles = 2 * np.pi * time[:, None] * orders / 12 + rng.uniform(0, 2 * np.pi, 3)
    season = np.sin(angles) @ (rng.normal(size=3) / orders)
    return rng.normal(0, 0.03) * time + season + rng.uniform(0.1, 0.7) * rng.normal(size=len(time))


def autoregression(time: Array, rng: np.random.Generator) -> Array:
    """An autoregression of order one around a constant, observed without noise."""
    kept, values = rng.uniform(0.3, 0.95), rng.normal(size=len(time))
    values[0] /= np.sqrt(1 - kept**2)
    for n in range(1, len(values)):
        values[n] += kept * values[n - 1]
    return rng.normal(0, 5) + values


def first_order_system(time: Array, rng: np.random.Generator) -> Array:
    """The response of f' + γf = u to a Gaussian-process force u of squared-exponential covariance."""
    fine = np.linspace(time[0] - 60, time[-1], 4 * (len(time) + 60))
    step, decay, lengthscale = fine[1] - fine[0], rng.uniform(0.05, 0.5), rng.uniform(3, 10)
    lags = np.arange(-4 * lengthscale, 4 * lengthscale, step)
    kernel = np.exp(-((lags / lengthscale) ** 2))  # its square is the force's covariance
    white = rng.normal(size=len(fine) + len(kernel) - 1)
    force = np.convolve(white, kernel / np.linalg.norm(kernel), mode="valid")
    values = np.zeros(len(fine))
    for n in range(1, len(fine)):
        values[n] = np.exp(-decay * step) * values[n - 1] + step * force[n]
    found = np.interp(time, fine, values)
    return found + 0.1 * found.std() * rng.normal(size=len(time))


def random_walk(time: Array, rng: np.random.Generator) -> Array:
    """A random walk with noise."""
    walk = rng.normal(size=len(time)).cumsum()
    return walk + rng.uniform(0, 1.5) * rng.normal(size=len(time))


KINDS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "sinusoids": sinusoids,
    "trend and season": trend_and_season,
    "autoregression": autoregression,
    "first-order system": first_order_system,
    "random walk": random_walk,
}


def record_of(kind: str, number: int, seed: int) -> dict[str, object]:
    """Which values of one series are inside the intervals of a fit."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    time = np.arange(float(N_ROWS + N_AHEAD))
    values = KINDS[kind](time, rng)
    begin = int(rng.integers(N_ROWS // 4, 3 * N_ROWS // 4))
    gap, ahead = slice(begin, begin + N_GAP), slice(N_ROWS, None)
    known = values[:N_ROWS].copy()
    known[gap] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DeepLFMRegressor(effort="fast", is_series=True, random_state=number, progress=False)
        model.fit(time[:N_ROWS], known)
    found: dict[str, object] = {"kind": kind, "number": number, "seed": seed}
    for place, some in zip(PLACES, (ahead, gap), strict=True):
        posterior = model.posterior(time[some])
        for nominal in NOMINAL:
            ends = posterior.quantile([(1 - nominal) / 2, (1 + nominal) / 2])[..., 0].numpy()
            inside = (values[some] >= ends[0]) & (values[some] <= ends[1])
            one = inside[-1] if place == "ahead" else inside[N_GAP // 2]
            key = f"{place} {100 * nominal:.0f}"
            found |= {key: float(inside.mean()), f"{key} one": bool(one)}
    return found


def table(records: list[dict[str, object]], alarm: float) -> str:
    """Coverage of each kind; a star marks counts outside the band."""
    kinds = [kind for kind in KINDS if any(item["kind"] == kind for item in records)]
    n_cells = len(kinds) * len(PLACES) * len(NOMINAL)
    keys = [f"{place} {100 * nominal:.0f}" for place in PLACES for nominal in NOMINAL]
    lines = [
        "| kind | series | " + " | ".join(f"{key} % (one value)" for key in keys) + " |",
        "|---|---|" + "---|" * len(keys),
    ]
    for kind in kinds:
        some = [item for item in records if item["kind"] == kind]
        cells = []
        for key in keys:
            count = sum(bool(item[f"{key} one"]) for item in some)
            low, high = band(len(some), int(key.split()[1]) / 100, alarm / n_cells)
            mark = "" if low <= count <= high else " *"
            share = 100 * float(np.mean([item[key] for item in some]))
            cells.append(f"{share:.0f} ({count}; {low}–{high}){mark}")
        lines.append(f"| {kind} | {len(some)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def band(n: int, nominal: float, alarm: float) -> tuple[int, int]:
    """Least and greatest count that is no alarm: each side has half of its probability."""
    return int(binom.ppf(alarm / 2, n, nominal)), int(binom.isf(alarm / 2, n, nominal))


def main() -> None:
    """Simulate, fit, save and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=40, help="series of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alarm", type=float, default=0.01, help="false-alarm rate of the table")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--out", type=Path, default=Path("coverage.jsonl"))
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    records = [item for item in map(json.loads, lines) if item["seed"] == options.seed]
    done = {(item["kind"], item["number"]) for item in records}
    with threadpool_limits(1):
        for number in range(options.n):
            for kind in options.kinds:
                if (kind, number) in done:
                    continue
                records.append(record_of(kind, number, options.seed))
                with options.out.open("a") as stream:
                    stream.write(json.dumps(records[-1]) + "\n")
    some = [r for r in records if int(str(r["number"])) < options.n and r["kind"] in options.kinds]
    print(table(some, options.alarm))


if __name__ == "__main__":
    main()
