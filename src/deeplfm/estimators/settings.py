"""What a user may choose about a model: the parameters that all estimators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator

from deeplfm.errors import ConfigError
from deeplfm.recipes import Architecture, recipes_for
from deeplfm.selection.candidate import Candidate
from deeplfm.training import Rows, RowSource

PRESETS = ("default", "paper")


class DeepLFMSettings(BaseEstimator):
    """Parameters of a deep latent force model.

    Args:
        preset: "default", the best we know: several starts race on held-out rows and are stacked; or
            "paper", the published model letter by letter.
        system: what the layers of the deep path are made of: "ode1" (the paper), "eq" (a deep
            Gaussian process), "arc0", "arc1", "arc2".
        hidden: widths of the hidden layers of the deep path.
        n_forces: number of latent forces of a deep block, or of the latent force model.
        n_features: number of frequencies per force.
        start: "race", or one start alone: "pursuit", "rhythm" (all outputs repeat one cycle), "phase"
            (each repeats one, but not on time), "deep", "spectrum", "composition", "feedback" (the
            next row from a few last ones), "memory" (in a straight line from many), "lfm" (the
            classical latent force model, whose outputs share their forces); for tables "table" (deep),
            "neighbours" (what the nearest rows share), "density" (targets of any distribution);
            "paper". ``None`` takes the preset's.
        n_steps: training steps of each fit; ``None`` takes the candidate's own number.
        batch_size: rows in each step; ``None`` takes the candidate's own: 1000 for tables, all rows for
            series. Of these the 20 000 most recent rows are used, or 100 000 in batches.
        time_limit: seconds for the fit, which all starts share. It is looked at between steps, and a
            start that has begun is built to its end, so that a fit may take longer. What it stopped is in
            ``fit_result_``, and the same seed no longer gives the same bits.
        patience: stop a fit after this many steps without a better objective.
        input_dependent_noise: learn the noise as a function of the input.
        log_targets: model logarithms: of all targets, or of none. ``None`` lets both race where swings
            of a positive series grow with its level, and the rows choose.
        device: where to compute.
        dtype: "float64" or "float32"; ``None`` takes float64 (the paper's preset float32).
        compile: use kernels compiled for this machine: the same numbers to rounding, faster where
            there are many samples. Needs a C++ compiler; without one it warns and goes on.
        random_state: the same integer gives the same bits, with the same numbers of jobs and threads.
        n_jobs: fits of a race at a time, each in a process of its own; -1 for one on each core.
            ``None`` does one after the other, or what ``joblib.parallel_config`` says.
        progress: show a progress bar; ``None`` shows it when standard error is a terminal.
        is_series: the first input is time and the others are known covariates; ``None`` says so of a
            single input.
    """

    def __init__(
        self,
        preset: str = "default",
        system: str = "ode1",
        hidden: tuple[int, ...] = (3,),
        n_forces: int = 1,
        n_features: int = 100,
        start: str | None = None,
        n_steps: int | None = None,
        batch_size: int | None = None,
        time_limit: float | None = None,
        patience: int | None = None,
        input_dependent_noise: bool = False,
        log_targets: bool | None = None,
        device: str = "cpu",
        dtype: str | None = None,
        compile: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
        progress: bool | None = None,
        is_series: bool | None = None,
    ) -> None:
        self.preset = preset
        self.system = system
        self.hidden = hidden
        self.n_forces = n_forces
        self.n_features = n_features
        self.start = start
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.time_limit = time_limit
        self.patience = patience
        self.input_dependent_noise = input_dependent_noise
        self.log_targets = log_targets
        self.device = device
        self.dtype = dtype
        self.compile = compile
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.is_series = is_series

    def _recipes(self, is_series: bool) -> list[Candidate]:
        """The recipes of the chosen start, as the user wants them trained."""
        recipes = recipes_for(self._start(), self._architecture(), is_series, self.n_steps)
        wishes: dict[str, Any] = {"patience": self.patience}
        if self.batch_size is not None:
            wishes["batch_size"] = self.batch_size
        return [
            replace(candidate, schedule=replace(candidate.schedule, **wishes))
            for candidate in recipes
        ]

    def _start(self) -> str:
        if self.preset not in PRESETS:
            raise ConfigError(
                f"preset: {self.preset!r} is not known. Choose one of {', '.join(PRESETS)}."
            )
        return self.start or ("paper" if self.preset == "paper" else "race")

    def _n_jobs(self, rows: RowSource) -> int:
        """Fits at a time: one of rows that stay on disk, or that a device holds."""
        if not isinstance(rows, Rows) or rows.x.device.type != "cpu":
            return 1
        return effective_n_jobs(self.n_jobs)

    def _architecture(self) -> Architecture:
        check_settings(self.get_params())
        return Architecture(
            system=self.system,
            hidden=tuple(self.hidden),
            n_forces=self.n_forces,
            n_features=self.n_features,
            input_dependent_noise=self.input_dependent_noise,
            dtype=self._dtype(),
        )

    def _dtype(self) -> torch.dtype:
        name = self.dtype or ("float32" if self.preset == "paper" else "float64")
        if name not in ("float32", "float64"):
            raise ConfigError(f"dtype: {name!r} is not known. Choose float32 or float64.")
        return getattr(torch, name)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse counts that are not whole and positive, and a device that is not available."""
    for name in ("n_forces", "n_features", "n_steps", "batch_size", "random_state"):
        value = settings[name]
        least = 0 if name in ("random_state", "n_steps") else 1
        if name in ("n_steps", "batch_size") and value is None:
            continue
        if not is_whole(value) or value < least:
            raise ConfigError(f"{name}: {value!r} found. Give a whole number of at least {least}.")
    n_jobs = settings["n_jobs"]
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise ConfigError(
            f"n_jobs: {n_jobs!r} found. Give a number of processes, or -1 for one on each core."
        )
    is_log = settings["log_targets"]
    if is_log is not None and not isinstance(is_log, bool | np.bool_):
        raise ConfigError(
            f"log_targets: {is_log!r} found. Give True for all targets, False for none, or None."
        )
    hidden = settings["hidden"]
    if not isinstance(hidden, tuple | list) or any(
        not isinstance(width, int | np.integer) or width < 1 for width in hidden
    ):
        raise ConfigError(f"hidden: {hidden!r} found. Give the width of each layer, such as (3,).")
    try:
        torch.empty(0, device=settings["device"])
    except (AssertionError, RuntimeError) as error:
        raise ConfigError(
            f"device: {settings['device']!r} is not available here ({error}). Use 'cpu'."
        ) from error


def is_whole(value: Any) -> bool:
    """Whether a setting is a whole number, and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
