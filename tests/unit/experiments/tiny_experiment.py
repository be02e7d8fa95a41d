"""An experiment of seconds, with models that do as they are told; also a program that runs it."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.base import BaseEstimator

from deeplfm.experiments.declaration import Case, Column, Entry, Experiment, Split, paper_table
from deeplfm.predictive.mixture import Predictive


class Constant(BaseEstimator):
    """Predicts its seed; waits, fails or dies first, as it is told."""

    def __init__(self, seed=0, wait=0.0, error=None, dies=False, value=None, is_random=True):
        self.seed, self.wait, self.error = seed, wait, error
        self.dies, self.value, self.is_random = dies, value, is_random

    def fit(self, X, Y):
        time.sleep(self.wait)
        if self.error:
            raise ValueError(self.error)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        warnings.warn(f"{torch.get_num_threads()} threads", stacklevel=1)
        self.n_outputs_ = Y.shape[1]
        return self

    def posterior(self, X):
        value = float(self.seed) if self.value is None else self.value
        mean = torch.full((1, len(X), self.n_outputs_), value, dtype=torch.float64)
        weight = torch.ones(1, self.n_outputs_, dtype=torch.float64)
        return Predictive(mean, mean * 0 + 1, mean[0] * 0 + 1, weight, lambda n, seed: mean)


def build(settings, *, seed, is_quick, budget):
    return Constant(seed=seed, **settings)


def entry(label, paper=None, **settings):
    return Entry(label, partial(build, settings), paper)


def load(seed):
    time_ = np.linspace(0.0, 1.0, 12)[:, None]
    value = np.stack([np.sin(6 * time_[:, 0]), np.cos(6 * time_[:, 0])], 1)
    return Split(
        x_train=time_[:8],
        y_train=value[:8],
        x_test={"test": time_[8:]},
        y_test={"test": value[8:]},
        outputs=("a", "b"),
    )


def experiment(*models, cases=("first", "second"), **changes):
    given = {
        "name": "tiny",
        "title": "A tiny experiment",
        "source": "Table 0",
        "cases": tuple(Case(name, load) for name in cases),
        "models": models or (entry("Constant", "A"),),
        "columns": (
            Column("a NMSE", "nmse", cases[:1], outputs=("a",)),
            Column("MNLL", "mnll", tuple(cases)),
        ),
        "paper": paper_table(("a NMSE", "MNLL"), {"A": "0.39 (0.05) | N/A"}),
    }
    return Experiment(**given | changes)


if __name__ == "__main__":
    from deeplfm.experiments.runner import plan, run

    slow = experiment(entry("slow", wait=0.4))
    run(plan(slow, n_seeds=4), Path(sys.argv[1]), n_jobs=2)
