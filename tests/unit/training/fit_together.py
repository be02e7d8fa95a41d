"""One fit of a small table; under torchrun, process 1 is killed once in the middle of it.

python tests/unit/training/fit_together.py RESULT [CHECKPOINT]
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

from deeplfm import DeepLFMRegressor
from deeplfm.terms import Paper, Table
from deeplfm.training import checkpoint, loop
from deeplfm.training.distributed import world

KILLED_AT = 5
STEPS = 8


def table(n_rows: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Two targets with missing values, on a memory map."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 3))
    y = np.stack([np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2], x[:, 1]], axis=1)
    y += 0.1 * rng.normal(size=y.shape)
    y[::7, 0] = np.nan
    return x, y


def fitted(folder: Path | None = None) -> DeepLFMRegressor:
    """Two candidates, compared and averaged."""
    x, y = table()
    if folder is not None:  # from disk, as a large table
        np.save(folder / f"x{os.getpid()}.npy", x)
        x = np.load(folder / f"x{os.getpid()}.npy", mmap_mode="r")
    candidates = {
        "deep": Table(hidden=(2,), n_features=4),
        "paper": Paper(hidden=(2,), n_features=4),
    }
    settings = {"n_steps": STEPS, "batch_size": 60, "dtype": "float64", "progress": False}
    place = None if folder is None else folder / "checkpoint"
    return DeepLFMRegressor(candidates, checkpoint=place, **settings).fit(x, y)


def results(model: DeepLFMRegressor) -> np.ndarray:
    """Predictions, losses and weights."""
    mean, std = model.predict(table()[0][:20], return_std=True)
    histories = model.fit_result_.histories.values()
    losses = [value for history in histories for value in history.loss]
    weights = [value for weight in model.fit_result_.weight.values() for value in weight]
    return np.concatenate([mean.ravel(), std.ravel(), losses, weights])


def main() -> None:
    """Fit, with a state after every step, and save the results of every process."""
    folder = Path(sys.argv[1])
    checkpoint._LEAST_SECONDS, checkpoint._COST = 0.0, float("inf")
    begins = []
    step = loop._Run._step

    def fatal_step(run: loop._Run, *arguments: object) -> None:
        begins.append(run.step)
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if is_first and world().rank == 1 and run.step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        step(run, *arguments)

    loop._Run._step = fatal_step  # type: ignore[method-assign]
    model = fitted(folder)
    model.save(folder / f"model{os.environ['RANK']}")
    np.savez(folder / f"{os.environ['RANK']}.npz", found=results(model), begin=begins[0])


if __name__ == "__main__":
    main()
