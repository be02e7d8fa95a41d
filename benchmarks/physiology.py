"""Extrapolation of three vital signs (MIMIC record 037, a substitute for CHARIS).

Each window of 1000 rows: 700 to train on, 300 to forecast, standardised on the training rows. Results
are written after every fit, and a run that was stopped goes on where it was.

    DEEPLFM_DATA=path/to/data python benchmarks/physiology.py --json physiology.json
    DEEPLFM_DATA=path/to/data python benchmarks/physiology.py --presets paper --time-limit 170
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import Ridge

from deeplfm import DeepLFMRegressor
from deeplfm.experiments.scores import ScoreRow, score, write_json

FILE = "mimic_037_50hz_5000.csv"
OUTPUTS = ("ABP", "ECG", "RESP")
N_TRAIN, N_ROWS, N_LAGS = 700, 1000, 200


def window(first: int) -> tuple[np.ndarray, np.ndarray]:
    """Time and standardised values of one window."""
    path = Path(os.environ.get("DEEPLFM_DATA", ".")) / FILE
    table = np.loadtxt(path, delimiter=",", skiprows=1)[first : first + N_ROWS]
    values = table[:, 1:]
    return table[:, 0], (values - values[:N_TRAIN].mean(0)) / values[:N_TRAIN].std(0)


def ridge_on_lags(values: np.ndarray) -> np.ndarray:
    """Recursive forecast of each output from its own last values: what a user would try first."""
    forecasts = []
    for series in values[:N_TRAIN].T:
        lags = np.lib.stride_tricks.sliding_window_view(series[:-1], N_LAGS)
        model = Ridge(alpha=1e-2).fit(lags, series[N_LAGS:])
        history = list(series)
        for _ in range(N_ROWS - N_TRAIN):
            history.append(float(model.predict(np.array(history[-N_LAGS:])[None])[0]))
        forecasts.append(history[N_TRAIN:])
    return np.array(forecasts).T


def fit_and_score(preset: str, first: int, seed: int, time_limit: float | None) -> list[ScoreRow]:
    """One fit of one window."""
    time_axis, values = window(first)
    started = time.monotonic()
    model = DeepLFMRegressor(preset=preset, time_limit=time_limit, random_state=seed)
    model.fit(time_axis[:N_TRAIN], values[:N_TRAIN])
    posterior = model.posterior(time_axis[N_TRAIN:])
    return score(
        posterior,
        torch.as_tensor(values[N_TRAIN:]),
        model="DLFM" if preset == "default" else "DLFM (paper)",
        split=f"rows {first}-{first + N_ROWS}",
        outputs=OUTPUTS,
        seed=seed,
        seconds=time.monotonic() - started,
    )


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("physiology.json"))
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 1500, 3000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--presets", nargs="+", default=["default"])
    parser.add_argument("--time-limit", type=float, default=None, help="seconds for each model")
    arguments = parser.parse_args()
    saved = json.loads(arguments.json.read_text())["rows"] if arguments.json.exists() else []
    rows = [ScoreRow(**row) for row in saved]
    done = {(row.model, row.split, row.seed) for row in rows}
    for preset in arguments.presets:
        for seed in arguments.seeds:
            for first in arguments.windows:
                name = "DLFM" if preset == "default" else "DLFM (paper)"
                if (name, f"rows {first}-{first + N_ROWS}", seed) in done:
                    continue
                new = fit_and_score(preset, first, seed, arguments.time_limit)
                rows += new
                write_json(arguments.json, rows, settings={"time_limit": arguments.time_limit})
                print(*new, sep="\n", flush=True)
    for first in arguments.windows:
        _, values = window(first)
        error = ((ridge_on_lags(values) - values[N_TRAIN:]) ** 2).mean(0) / values[N_TRAIN:].var(0)
        print(f"ridge on {N_LAGS} lags, rows {first}: NMSE", error.round(4))


if __name__ == "__main__":
    main()
