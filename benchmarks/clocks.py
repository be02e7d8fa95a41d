"""Cycles on clocks whose rate varies: simulated sets, physiology windows, and a long record.

    python benchmarks/clocks.py sets          # 20 simulated sets against an oracle
    python benchmarks/clocks.py physiology    # rows of mimic_037_50hz_5000.csv in $DEEPLFM_DATA
    python benchmarks/clocks.py physiology auto    # the same by the default
    python benchmarks/clocks.py long 100000   # a simulated pulse with skips

Sets 0 to 7 have one clock, 8 to 13 one that skips, 14 to 19 two that modulate each other. The oracle is a
particle filter that knows all parameters.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.special import logsumexp, ndtr

from deeplfm import DeepLFMRegressor
from deeplfm.terms import Term, WarpedTime

N_ROWS, N_TRAIN, N_HARMONICS = 1000, 800, 8
N_PARTICLES, N_KEPT = 5_000, 400
KINDS = ["one"] * 8 + ["skips"] * 6 + ["two"] * 6
WINDOWS = [(0, 1000), (1500, 2500), (3000, 4000), (1000, 1500), (2200, 3000), (4000, 5000)]


@dataclass
class Truth:
    """Parameters of a simulated set; ``breath``: period, std, lasting, depth and level."""

    period: float
    std: float
    lasting: float
    noise: float
    weights: np.ndarray
    hazard: float
    breath: tuple[float, ...]

    def move(self, state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The next phases and rates, ``S 4``: phase, rate, phase of the breath, its rate."""
        new, count = state.copy(), len(state)
        clocks = [(0, self.period, self.std, self.lasting)]
        clocks += [(2, *self.breath[:3])] if self.breath else []
        for c, period, std, lasting in clocks:
            frequency, kept = 2 * np.pi / period, np.exp(-1 / lasting)
            new[:, c] += frequency + state[:, c + 1]
            spread = std * frequency * np.sqrt(1 - kept**2)
            new[:, c + 1] = kept * state[:, c + 1] + spread * rng.normal(size=count)
        skips = rng.uniform(size=count) < self.hazard
        new[skips, 0] += rng.uniform(1, 2 * np.pi - 1, skips.sum())
        return new

    def start(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Phases anywhere, rates as they are in the long run."""
        state = rng.uniform(0, 2 * np.pi, (count, 4))
        state[:, 1] = self.std * 2 * np.pi / self.period * rng.normal(size=count)
        if self.breath:
            state[:, 3] = self.breath[1] * 2 * np.pi / self.breath[0] * rng.normal(size=count)
        return state

    def curve(self, state: np.ndarray) -> np.ndarray:
        """Values without noise, ``S D``."""
        angle = state[:, :1] * np.arange(1, N_HARMONICS + 1)
        pulse = np.cos(angle) @ self.weights[0] + np.sin(angle) @ self.weights[1]
        if not self.breath:
            return pulse[:, None]
        breath = np.cos(state[:, 2]) + 0.3 * np.sin(2 * state[:, 2])
        depth = 1 + self.breath[3] * np.cos(state[:, 2] - 1)
        return np.stack([depth * pulse + self.breath[4] * breath, breath], axis=1)


def simulate(seed: int) -> tuple[Truth, np.ndarray]:
    """Parameters and values of one set; a clock that skips does so in the training rows."""
    rng, kind = np.random.default_rng(seed), KINDS[seed]
    period, std, noise = rng.uniform(20, 32), rng.uniform(0.01, 0.05), rng.uniform(0.05, 0.2)
    lasting = rng.uniform(3, 10) * period
    weights = rng.normal(size=(2, N_HARMONICS)) / np.arange(1, N_HARMONICS + 1)
    weights /= np.sqrt((weights**2).sum() / 2)
    breath: tuple[float, ...] = ()
    if kind == "two":
        breath = (rng.uniform(3.2, 5.5) * period, rng.uniform(0.005, 0.02))
        breath += (rng.uniform(12, 32) * period, rng.uniform(0.2, 0.4), rng.uniform(0.2, 0.5))
    hazard = 1 / 800 if kind == "skips" else 0.0
    truth = Truth(period, std, lasting, noise, weights, hazard, breath)
    while True:
        states = [truth.start(1, rng)]
        for _ in range(N_ROWS - 1):
            states.append(truth.move(states[-1], rng))
        path = np.concatenate(states)
        jumps = np.diff(path[:, 0]) - path[:-1, 1] - 2 * np.pi / period
        if kind != "skips" or (jumps[100:600] > 0.5).any():
            values = truth.curve(path)
            return truth, values + noise * rng.normal(size=values.shape)


def oracle(truth: Truth, values: np.ndarray) -> np.ndarray:
    """Forecasts of a particle filter that knows the parameters, ``H S D``."""
    rng = np.random.default_rng(0)
    state, found = truth.start(N_PARTICLES, rng), []
    for n in range(N_ROWS):
        if n == N_TRAIN:
            state = state[rng.choice(len(state), N_KEPT)]
        if n >= N_TRAIN:
            found.append(truth.curve(state))
        else:
            away = ((values[n] - truth.curve(state)) ** 2).sum(1)
            weight = np.exp(-0.5 * (away - away.min()) / truth.noise**2)
            level = (np.arange(len(state)) + rng.uniform()) / len(state)
            place = np.searchsorted(np.cumsum(weight) / weight.sum(), level)
            state = state[np.minimum(place, len(state) - 1)]
        state = truth.move(state, rng)
    return np.array(found)


def scores(value: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """NMSE, MNLL and coverage of 95 % intervals of a mixture ``S N D``, for each output."""
    away = value - mean
    density = -0.5 * (away**2 / variance + np.log(2 * np.pi * variance))
    below = ndtr(away / np.sqrt(variance)).mean(0)
    nmse = ((mean.mean(0) - value) ** 2).mean(0) / value.var(0)
    mnll = -(logsumexp(density, axis=0) - np.log(len(mean))).mean(0)
    return np.array([nmse, mnll, ((below > 0.025) & (below < 0.975)).mean(0)])


def fitted_scores(
    clock: np.ndarray, values: np.ndarray, n_train: int, model: str | Term | None = None
) -> tuple[np.ndarray, DeepLFMRegressor, float]:
    """Scores ahead of the model, fitted through its estimator, in standardised units."""
    began = time.process_time()
    fitted = DeepLFMRegressor(model or WarpedTime(), is_series=True, progress=False)
    fitted.fit(clock[:n_train], values[:n_train])
    took = time.process_time() - began
    ahead = fitted.posterior(clock[n_train:])
    later = torch.as_tensor(values[n_train:])
    low, high = ahead.interval()
    error = ((later - ahead.mean) ** 2).mean(0) / later.var(0, correction=0)
    inside = ((later >= low) & (later <= high)).double().mean(0)
    return torch.stack([error, -ahead.log_prob(later).mean(0), inside]).numpy(), fitted, took


def fixed(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts of one output by a steady season, whose period fits best, and by its last period."""
    n, best = np.arange(N_ROWS), (np.inf, 0.0, np.zeros(0))
    for period in np.geomspace(15, 200, 600):
        angle = 2 * np.pi / period * np.outer(n, np.arange(1, N_HARMONICS + 1))
        columns = np.column_stack([np.cos(angle), np.sin(angle), np.ones(N_ROWS)])
        known = columns[:N_TRAIN]
        gram = known.T @ known + 1e-6 * N_TRAIN * np.eye(known.shape[1])
        weights = np.linalg.solve(gram, known.T @ value[:N_TRAIN])
        left = float(((value[:N_TRAIN] - known @ weights) ** 2).sum())
        if left < best[0]:
            best = (left, period, columns[N_TRAIN:] @ weights)
    whole = max(1, round(best[1]))
    last = value[N_TRAIN - whole : N_TRAIN]
    return best[2], np.resize(last, N_ROWS - N_TRAIN)


def run_sets() -> None:
    """One line for each set, and what the page of decisions quotes."""
    rows = []
    for seed, kind in enumerate(KINDS):
        truth, values = simulate(seed)
        center, spread = values[:N_TRAIN].mean(0), values[:N_TRAIN].std(0)
        known = (values - center) / spread
        ours, model, took = fitted_scores(np.arange(N_ROWS), known, N_TRAIN)
        paths = (oracle(truth, values).transpose(1, 0, 2) - center) / spread
        best = scores(known[N_TRAIN:], paths, (truth.noise / spread) ** 2)
        others = [fixed(known[:, d]) for d in range(known.shape[1])]
        ahead = known[N_TRAIN:]
        nmse = [
            ((np.stack([pair[i] for pair in others], 1) - ahead) ** 2).mean(0) / ahead.var(0)
            for i in (0, 1)
        ]
        row = [ours[0].mean(), nmse[0].mean(), nmse[1].mean(), best[0].mean()]
        row += [ours[1].mean(), best[1].mean(), ours[2].mean(), best[2].mean(), took]
        rows.append(row)
        periods = [2 * np.pi / c.frequency for c in model.model_.members[0].config.clocks]
        print(f"{seed:2d} {kind:5s}", np.round(row, 3), len(periods), "clocks", flush=True)
    table = np.array(rows)
    ahead_of = (table[:, 0] < table[:, 1]) & (table[:, 0] < table[:, 2])
    print("better than both in NMSE:", int(ahead_of.sum()), "of", len(table))
    print("median and mean MNLL less the oracle's:", np.median(table[:, 4] - table[:, 5]).round(3))
    print((table[:, 4] - table[:, 5]).mean().round(3), "within 0.1:", end=" ")
    print(int((table[:, 4] - table[:, 5] < 0.1).sum()))
    print("mean coverage, ours and the oracle's:", table[:, 6].mean(), table[:, 7].mean())


def run_physiology(model_name: str) -> None:
    """Windows of ABP, ECG and RESP: fitted on 70 %, scored on the rest."""
    names = ["ABP_mmHg", "ECG_mV", "RESP_au"]
    frame = pd.read_csv(os.path.join(os.environ["DEEPLFM_DATA"], "mimic_037_50hz_5000.csv"))
    for first, last in WINDOWS:
        part = frame.iloc[first:last]
        n_train = round(0.7 * len(part))
        values = part[names].to_numpy()
        known = (values - values[:n_train].mean(0)) / values[:n_train].std(0)
        found, model, took = fitted_scores(part["time_s"].to_numpy(), known, n_train, model_name)
        weight = model.selection_.filter(like="_weight").round(2).to_dict("list")
        print(
            f"{first}-{last}", np.round(found, 4).tolist(), f"{took:.0f} CPU s", weight, flush=True
        )


def run_long(n_rows: int) -> None:
    """A pulse of 25 rows whose rate varies by 3 %, with a skip in 5000 rows on average."""
    rng = np.random.default_rng(0)
    weights = np.zeros((2, N_HARMONICS))
    weights[0] = 1 / np.arange(1, N_HARMONICS + 1)
    truth = Truth(25.0, 0.03, 125.0, 0.1, weights, 1 / 5000, ())
    state, values = truth.start(1, rng), np.empty((n_rows, 1))
    for n in range(n_rows):
        values[n] = truth.curve(state)
        state = truth.move(state, rng)
    values += 0.1 * rng.normal(size=values.shape)
    began = time.monotonic()
    found, model, took = fitted_scores(np.arange(n_rows), values, n_rows - 100)
    print(n_rows, "rows:", np.round(found[:, 0], 3), f"{took:.0f} CPU s", end=" ")
    print(f"{time.monotonic() - began:.0f} s in all", len(model.model_.members[0].x), "rows kept;")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "sets"
    if kind == "long":
        run_long(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    elif kind == "physiology":
        run_physiology(sys.argv[2] if len(sys.argv) > 2 else "dlfm")
    else:
        run_sets()
