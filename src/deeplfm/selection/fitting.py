"""A candidate is built and trained, calibrated and scored on held-out rows, and refitted on all rows."""

from __future__ import annotations

import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import TrainingDivergedError, UnsuitableError
from deeplfm.model import DeepLFM
from deeplfm.randomness import seed_for
from deeplfm.selection.candidate import Candidate, Fit, FittedCandidate, Member, Score
from deeplfm.selection.parallel import FAILURES
from deeplfm.selection.split import Split, rows_to_initialise
from deeplfm.statespace import ClocksLFM
from deeplfm.training.distributed import world
from deeplfm.training.interruption import stop_reason, stop_requested, time_left, within
from deeplfm.training.loop import train
from deeplfm.training.parameter_spread import set_parameter_spread
from deeplfm.training.progress import progress_bar
from deeplfm.training.rows import Rows, RowSource, condition, statistics
from deeplfm.training.schedule import History

TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
INFLATIONS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
_PRIOR_POWERS = (-1.0, -0.5)  # of a temperature, and of an inflation: a variance
_ROWS_PER_FACT = 30  # neighbouring residuals of a series repeat each other
_MOST_TRAIN_ROWS = 200_000  # that a model keeps
_MOST_OVERTIME = 1.0  # seconds of a calibration once work is to end
_WORST = -1e9  # density of a prediction that is not a number
_FAR_ENOUGH = 0.5  # of the steps before: a refit with fewer is not worth its rows


def fit_candidate(
    candidate: Candidate,
    rows: RowSource,
    is_series: bool,
    seed: int,
    progress: bool | None = None,
    label: str = "",
    solve: bool = True,
) -> tuple[Member, History]:
    """Build a model and train it; ``solve`` as in :func:`train`.

    Of several restarts the one of the highest objective is kept. The first has the seed itself, so that
    one restart is the fit without any.
    """
    runs = [
        _fit_once(candidate, rows, is_series, own, progress, label, solve)
        for own in (seed, *(seed_for(seed, "restart", k) for k in range(1, candidate.n_restarts)))
        if own == seed or stop_reason() is None
    ]
    return min(runs, key=lambda run: run[1].final_loss)


def _fit_once(
    candidate: Candidate,
    rows: RowSource,
    is_series: bool,
    seed: int,
    progress: bool | None,
    label: str,
    solve: bool,
) -> tuple[Member, History]:
    began = time.monotonic()
    shown = rows_to_initialise(rows, is_series)
    model = candidate.build(shown, seed).to(shown.x.device)
    if candidate.schedule is None or not isinstance(model, DeepLFM):
        if solve:
            set_train_data(model, rows)
            condition(model, rows)
        return model, History(seconds=time.monotonic() - began)
    with progress_bar(label or candidate.name, progress) as bar:
        history = train(
            model, rows, candidate.schedule, seed_for(seed, "step"), progress=bar, solve=solve
        )
    return model, history


@torch.no_grad()
def set_train_data(model: Member, rows: RowSource, reach: float | None = None) -> None:
    """Give rows to a model: all, or evenly spaced ones of very many, which alone are read.

    A :class:`DeepLFM` of a table keeps none, so none are read.
    """
    if reach is None and isinstance(model, DeepLFM):
        return
    if isinstance(model, ClocksLFM):  # follows the phases through all rows that it was built of
        kept = rows_to_initialise(rows, is_series=True)
        model.set_train_data(kept.x, kept.y, kept.weight, reach)
        return
    n_rows = len(rows)
    n_kept = min(n_rows, _MOST_TRAIN_ROWS)
    some = torch.arange(n_kept) * n_rows // n_kept
    kept = rows.everything() if n_kept == n_rows else rows.take(some)
    model.set_train_data(kept.x, kept.y, kept.weight, reach)


def score(model: Member, training: RowSource, held_out: Rows) -> Score:
    """Calibrate a model on held-out rows, and score it there."""
    calibrate(model, training, held_out)
    posterior = model.posterior(held_out.x)
    density = posterior.log_prob(held_out.y)
    if bool((density.isnan() & ~held_out.y.isnan()).any()):
        raise TrainingDivergedError("its prediction of the held-out rows is not a number")
    temperature = None if model.temperature is None else model.temperature.clone()
    inflation = model.likelihood.inflation.clone()
    return Score(temperature, inflation, posterior.mean, density, held_out.counts)


@torch.no_grad()
def calibrate(model: Member, training: RowSource, held_out: Rows) -> None:
    """Set temperature and noise inflation of each output by the density of the held-out rows.

    The mean of their logarithms over the grid, weighted by that density: with few independent
    residuals the best point of the grid is mostly luck. A priori twice the temperature is half as
    likely, and so is twice the standard deviation of the noise: without evidence both stay near one,
    since a temperature also shrinks the function towards zero where its values are known.
    """
    is_tempered = model.has_exact_output and model.temperature is not None
    temperatures = TEMPERATURES if is_tempered else (1.0,)
    ones = torch.ones_like(model.likelihood.inflation)
    set_calibration(model, ones, ones)
    own = held_out.take(world().share(len(held_out), "held-out rows"))
    remoteness = model.likelihood.remoteness(own.x)
    known = statistics(model, training) if model.has_exact_output else ()
    began = time.monotonic()
    grid: list[list[float]] = []
    scores: list[Tensor] = []
    for temperature in temperatures:
        if scores and stop_requested():
            is_late = time.monotonic() - began > _MOST_OVERTIME
            if any(world().gather(is_late)):
                break  # of very many outputs, each temperature takes seconds
        set_calibration(model, temperature * ones, ones)
        if known:
            model.solve(*known)
        posterior = model.posterior(own.x)
        plain_noise = posterior.component_noise
        for inflation in INFLATIONS:
            posterior.component_noise = plain_noise * inflation**remoteness
            grid.append([temperature, inflation])
            density = posterior.log_prob(own.y).nan_to_num(_WORST)
            scores.append((density * own.counts).sum(0))
    (density,) = world().sum_(torch.stack(scores))  # grid D
    logs = torch.tensor(grid, dtype=density.dtype, device=density.device).log()
    prior = logs @ logs.new_tensor(_PRIOR_POWERS)
    share = torch.softmax(density / _ROWS_PER_FACT + prior[:, None], dim=0)
    set_calibration(model, *(logs.T @ share).exp())
    if known:
        model.solve(*known)


def set_calibration(
    model: Member, temperature: Float[Tensor, " D"] | None, inflation: Float[Tensor, " D"]
) -> None:
    """Write both into a model."""
    if model.temperature is not None and temperature is not None:
        model.temperature.copy_(temperature)
    model.likelihood.inflation.copy_(inflation)


def fit_and_score(candidate: Candidate, split: Split, fit: Fit, label: str) -> FittedCandidate:
    """Fit a candidate, and score it on rows that it was not fitted on."""
    hidden = split.hidden if candidate.fills_gaps else None
    with within(time_left() / (1 if hidden is None else 2)):
        model, history = fit(candidate, split.training, label=f"{label}: {candidate.name}")
    set_train_data(model, split.training, split.reach)
    found = FittedCandidate(candidate, model, history, score(model, split.training, split.held_out))
    if hidden is not None and stop_reason() is None:
        with suppress(*FAILURES, UnsuitableError):  # it may forecast all the same
            other, _ = fit(candidate, split.around_gaps, label=f"gaps: {candidate.name}")
            set_train_data(other, split.around_gaps, split.reach)
            found.gap_score = score(other, split.around_gaps, hidden)
    return found


def refit(
    item: FittedCandidate, rows: RowSource, reach: float | None, fit: Fit
) -> tuple[list[Member], History]:
    """Models of a candidate on all rows, one for each calibration."""
    model, history = _trained_further(item, rows, fit)
    set_train_data(model, rows, reach)
    models = [model, *(deepcopy(model) for _ in item.members[1:])]
    for member, (calibration, _) in zip(models, item.members, strict=True):
        set_calibration(member, calibration.temperature, calibration.inflation)
        condition(member, rows)
        if isinstance(member, DeepLFM):
            set_parameter_spread(member, rows)
    return models, history


def _trained_further(item: FittedCandidate, rows: RowSource, fit: Fit) -> tuple[Member, History]:
    """Trained on all rows; or as it was compared, where there is no time to get as far again."""
    first = item.history
    reason: str | None = stop_reason()
    if reason is None:
        model, history = fit(item.candidate, rows, label=f"refit: {item.candidate.name}")
        is_far = len(history.loss) >= _FAR_ENOUGH * len(first.loss)
        if not history.was_cut or (history.stopped == "time" and is_far):
            return model, history
        reason = history.stopped
    return item.model, replace(first, stopped="time") if reason == "time" else first


def log_evidence(candidate: Candidate, rows: Rows) -> float:
    """Log evidence of a series under a candidate, or a bound of it where there are hidden layers."""
    model, history = fit_candidate(
        candidate, rows, is_series=True, seed=0, progress=False, solve=False
    )
    if isinstance(model, ClocksLFM):
        return model.log_evidence
    return -history.loss[-1] * len(rows)
