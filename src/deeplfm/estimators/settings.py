"""Parameters that all estimators share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator

from deeplfm.errors import ConfigError
from deeplfm.estimators.candidates import (
    EFFORTS,
    FEWEST_TO_COMPARE,
    Model,
    candidates_of,
    models_of,
)
from deeplfm.selection.backends import n_workers
from deeplfm.selection.candidate import Candidate
from deeplfm.statespace import PRIOR, Prior
from deeplfm.terms import BuildContext, Sum
from deeplfm.training import Rows, RowSource


class DeepLFMSettings(BaseEstimator):
    """Parameters of a deep latent force model.

    Args:
        model: what to fit: a sum of terms (``Trend() + Season(12) + LocalLevel()``), the same as text
            (``"trend + season(12) + level"``), a whole model (``Paper(hidden=(6,))``), a dict of
            candidates to choose from, or a name. ``"auto"`` averages two latent force models in
            state-space form; where cycles are not those of the calendar, also cycles on clocks and
            sinusoids, by the weight of their forecasts from earlier origins;
            ``"ensemble"`` compares latent force models, deep ones, autoregressions and a
            nearest-neighbour GP on held-out rows and averages the best; ``"dlfm"`` is one deep latent
            force model; ``"lfm"`` the classical one, whose outputs share their forces; ``"paper"`` the
            published model, ``"reference"`` the same as the authors' public code trains it.
        effort: how much ``"auto"`` tries. ``"fast"`` fits the two state-space models only, ``"default"``
            clocks and sinusoids beside them, ``"thorough"`` all candidates of ``"ensemble"``.
        n_steps: training steps of each fit; ``None`` takes the model's own number.
        batch_size: rows in each step; ``None`` takes the model's own: 1000 for tables, all rows for
            series. Of these the 20 000 most recent rows are used, or 100 000 in batches.
        time_limit: seconds for the fit, which all candidates share. It is checked between steps, and the
            search for starting values is not interrupted, so that a fit may take longer. Candidates that
            were left out are in ``selection_``, and the same seed no longer gives the same bits.
        patience: stop a fit after this many steps without a better objective.
        input_dependent_noise: learn the noise as a function of the input.
        log_targets: model logarithms: of all targets, or of none. ``None`` compares both where the
            amplitude of a positive series grows with its level.
        device: where to compute.
        dtype: "float64" or "float32"; ``None`` takes the model's own, float64 but for the paper's.
        compile: use kernels compiled for this machine: the same numbers to rounding, faster with many
            samples. Needs a C++ compiler; without one it warns and goes on.
        random_state: the same integer gives the same bits, with the same numbers of jobs and threads.
        n_jobs: candidates that are fitted at a time, each in a process of its own; -1 for one on each
            core. ``None`` fits one after the other, or as ``joblib.parallel_config`` sets. A panel has as
            many parts fitted at a time.
        backend: where these processes are: "loky" on this machine, "dask" or "ray" on the cluster that
            this process is connected to, or that the environment names. Their default is all workers.
        progress: show a progress bar; ``None`` shows it when standard error is a terminal.
        is_series: the first input is time and the others are known covariates; ``None`` assumes so for
            a single input.
        checkpoint: folder in which a fit keeps its state. A fit that was killed is continued by the same
            call, and ends with the same bits as one that was not; other data or settings are refused.
            Delete the folder when the model is saved.
        prior: of the parameters of sums in state-space form: a :class:`~deeplfm.statespace.Prior`, or a
            dict of one for each sum by its name. A panel learns it from its series (``prior_``).
    """

    def __init__(
        self,
        model: Any = "auto",
        effort: str = "default",
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
        backend: str | None = None,
        progress: bool | None = None,
        is_series: bool | None = None,
        checkpoint: Any = None,
        prior: Any = None,
    ) -> None:
        self.model = model
        self.effort = effort
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
        self.backend = backend
        self.progress = progress
        self.is_series = is_series
        self.checkpoint = checkpoint
        self.prior = prior

    def _models(self, is_series: bool, n_rows: int = FEWEST_TO_COMPARE) -> dict[str, Model]:
        """The declared models, by name."""
        check_settings(self.get_params(deep=False))
        models = models_of(self.model, is_series, self.effort, n_rows)
        if not self.input_dependent_noise and self.dtype != "float32" and self.batch_size is None:
            return models
        return {  # what a state-space form does not have
            name: replace(model, uses_features=True) if isinstance(model, Sum) else model
            for name, model in models.items()
        }

    def _candidates(self, models: Mapping[str, Model], time_scale: float) -> list[Candidate]:
        """The declared models as candidates, trained as the user asks."""
        context = BuildContext(
            dtype=self._dtype(models),
            input_dependent_noise=self.input_dependent_noise,
            time_scale=time_scale,
        )
        changes: dict[str, Any] = {"patience": self.patience}
        if self.batch_size is not None:
            changes["batch_size"] = self.batch_size
        found = [
            item
            for name, model in models.items()
            for item in candidates_of(
                {name: model}, replace(context, prior=prior_of(self.prior, name)), self.n_steps
            )
        ]
        return [
            replace(candidate, schedule=replace(candidate.schedule, **changes))
            if candidate.schedule
            else candidate
            for candidate in found
        ]

    def _n_jobs(self, rows: RowSource) -> int:
        """Fits at a time: one of rows that stay on disk, or that a device holds."""
        if not isinstance(rows, Rows) or rows.x.device.type != "cpu":
            return 1
        return n_workers(self.n_jobs)

    def _dtype(self, models: Mapping[str, Model]) -> torch.dtype:
        """The user's dtype, or that of a whole model alone."""
        if self.dtype is None:
            kinds = {getattr(model, "default_dtype", torch.float64) for model in models.values()}
            return kinds.pop() if len(kinds) == 1 else torch.float64
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype: {self.dtype!r} is not known. Choose float32 or float64.")
        return getattr(torch, self.dtype)


Estimator = TypeVar("Estimator", bound=type[DeepLFMSettings])


def with_parameters(estimator: Estimator) -> Estimator:
    """Document the shared parameters on an estimator itself, where ``help`` and editors look."""
    own, shared = (inspect.getdoc(item) or "" for item in (estimator, DeepLFMSettings))
    arguments = shared[shared.find("Args:") :]
    estimator.__doc__ = own.replace("Attributes:", f"{arguments}\n\nAttributes:", 1)
    return estimator


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse counts that are not whole and positive, and a device that is not available."""
    for name in ("n_steps", "batch_size", "random_state"):
        value = settings[name]
        least = 0 if name in ("random_state", "n_steps") else 1
        if name in ("n_steps", "batch_size") and value is None:
            continue
        if not is_whole(value) or value < least:
            raise ConfigError(f"{name}: {value!r} found. Give a whole number of at least {least}.")
    if settings["effort"] not in EFFORTS:
        raise ConfigError(
            f"effort: {settings['effort']!r} is not known. Choose one of {', '.join(EFFORTS)}."
        )
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
    place = settings["checkpoint"]
    if place is not None and not isinstance(place, str | PathLike):
        raise ConfigError(f"checkpoint: {place!r} found. Give the name of a folder.")
    try:
        torch.empty(0, device=settings["device"])
    except (AssertionError, RuntimeError) as error:
        raise ConfigError(
            f"device: {settings['device']!r} is not available here ({error}). Use 'cpu'."
        ) from error


def prior_of(given: Any, name: str) -> Prior:
    """The prior of a sum by its name, from the argument ``prior``."""
    found = (
        given.get(name, PRIOR) if isinstance(given, Mapping) else PRIOR if given is None else given
    )
    if not isinstance(found, Prior):
        raise ConfigError(f"prior: {found!r} found. Give a Prior, or a dict of one for each sum.")
    return found


def is_whole(value: Any) -> bool:
    """Whether a setting is a whole number, and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
