r"""Model selection: fit candidates without some rows, score, calibrate and weigh them, refit the best.

The extrapolation of a latent force model is in its frequencies, and no single initialisation of them is
best everywhere. So every candidate is fitted without a part of the rows (the last part of a series,
random rows of a table), calibrated and scored there; the best are averaged and refitted on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import DeepLFMError, InputError, TrainingDivergedError, UnsuitableError
from deeplfm.model import DeepLFM
from deeplfm.predictive.metrics import nmse
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Candidate, fit_candidate
from deeplfm.selection.parallel import FAILURES, Attempt, attempt_all
from deeplfm.selection.result import CandidateResult, Selection
from deeplfm.selection.score import (
    FittedCandidate,
    choose_members,
    forecast_weights,
    gap_weights,
    score,
    set_calibration,
)
from deeplfm.selection.split import Split
from deeplfm.training.interruption import stop_reason, time_left, within
from deeplfm.training.loop import History, condition, set_train_data
from deeplfm.training.rows import RowSource

_FAR_ENOUGH = 0.5  # of the steps before: a refit with fewer is not worth its rows
_LOW_WEIGHT = "its weight is too small"

_Fit = Callable[..., tuple[DeepLFM, History]]


@dataclass(frozen=True)
class Comparison:
    """Candidates that were fitted without the held-out rows, scored and weighed.

    Attributes:
        split: training rows and held-out rows.
        density: log density of the held-out targets under the weighted average of the candidates.
        selection: what was found about every candidate.
    """

    split: Split
    density: Float[Tensor, "N D"]
    selection: Selection
    _members: list[FittedCandidate]
    _fit: _Fit
    _attempt_all: Callable[..., list[Attempt]]

    def refit(self, rows: RowSource) -> tuple[ModelAverage, Selection]:
        """Refit the members on all rows, those of the comparison, and average them.

        Where the user has interrupted or time is over, they are kept as they are, and only the weights
        of their last layer are solved on all rows.
        """
        selection = self.selection
        parts: list[tuple[DeepLFM, Float[Tensor, "2 D"]]] = []
        refit = partial(_refit, rows=rows, reach=self.split.reach, fit=self._fit)
        for item, found, seconds in self._attempt_all(refit, self._members, label="refit"):
            record = selection[item.candidate.name]
            record.seconds += seconds
            if isinstance(found, Exception):
                record.leave_out(found)
                continue
            models, record.history = found
            for model, (calibration, weight) in zip(models, item.members, strict=True):
                parts.append((model, weight))
                selection.members.append(record.name)
                selection.is_for_gaps.append(calibration is item.gap_score)
        if not parts:
            raise _none_left(selection)
        selection.interrupted = stop_reason() == "interrupt"
        return _average(parts, self.split, selection), selection


def compare(
    candidates: list[Candidate],
    rows: RowSource,
    is_series: bool,
    seed: int = 0,
    progress: bool | None = None,
    n_jobs: int = 1,
    label: str = "selection",
) -> Comparison:
    """Fit all candidates without the held-out rows, score and weigh them.

    A candidate that cannot be fitted, or is not made for such rows, is recorded and left out, as long as
    another can. Half of the time that is left is used; the rest is for :meth:`Comparison.refit`.

    Args:
        candidates: models to choose from.
        rows: all of them.
        is_series: rows have an order in time.
        seed: of all that is random.
        progress: show bars.
        n_jobs: fits at a time, each in a process of its own.
        label: of the bars.
    """
    # A single candidate has all weight in gaps too.
    split = Split.of(rows, is_series, seed, hide_values=len(candidates) > 1)
    selection = Selection([CandidateResult(candidate.name) for candidate in candidates])
    fit: _Fit = partial(
        fit_candidate, is_series=is_series, seed=seed, progress=progress, solve=False
    )
    attempts = partial(attempt_all, n_jobs=n_jobs, progress=progress)
    with within(time_left() / 2):
        fit_and_score = partial(_fit_and_score, split=split, fit=fit, label=label)
        suitable = _suitable(candidates, split, selection)
        found = attempts(fit_and_score, suitable, is_optional=True, label=label)
    fitted = _recorded(found, selection)
    weight = forecast_weights(fitted, is_series)
    members = choose_members(fitted, weight, gap_weights(fitted))
    for item in fitted:
        if not item.members:
            selection[item.candidate.name].reason = _LOW_WEIGHT
    density = torch.stack([item.score.density for item in fitted])
    together = torch.logsumexp(density + weight.log()[:, None], dim=0)
    mean = (weight[:, None] * torch.stack([item.score.mean for item in fitted])).sum(0)
    selection.held_out_nmse = nmse(mean, split.held_out.y, split.held_out.counts).tolist()
    return Comparison(split, together, selection, members, fit, attempts)


def select(
    candidates: list[Candidate], rows: RowSource, is_series: bool, **settings: Any
) -> tuple[ModelAverage, Selection]:
    """Compare candidates, refit the best on all rows and average them; as in :func:`compare`."""
    return compare(candidates, rows, is_series, **settings).refit(rows)


def _suitable(candidates: list[Candidate], split: Split, selection: Selection) -> list[Candidate]:
    """Candidates that forecast, or that fill gaps where there are any to score them by."""
    for candidate in candidates:
        if not candidate.forecasts and split.hidden is None:
            error = UnsuitableError("it fills gaps, and there are too few to score it by")
            selection[candidate.name].leave_out(error)
    return [item for item in candidates if selection[item.name].status == "not tried"]


def _recorded(found: list[Attempt], selection: Selection) -> list[FittedCandidate]:
    """Candidates that could be fitted, and a record of all that were tried."""
    fitted = []
    for candidate, result, seconds in found:
        record = selection[candidate.name]
        record.seconds = seconds
        if isinstance(result, Exception):
            record.leave_out(result)
            continue
        fitted.append(result)
        record.status = "fitted"
        if candidate.forecasts:
            record.mnll = (-result.score.mean_density).tolist()
    if not fitted:
        raise _none_left(selection)
    for record in selection.candidates:
        if record.status == "not tried":
            record.reason = "no time was left to try it"
    return fitted


def _fit_and_score(candidate: Candidate, split: Split, fit: _Fit, label: str) -> FittedCandidate:
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


def _refit(
    item: FittedCandidate, rows: RowSource, reach: float | None, fit: _Fit
) -> tuple[list[DeepLFM], History]:
    """Models of a candidate on all rows, one for each calibration."""
    model, history = _trained_further(item, rows, fit)
    set_train_data(model, rows, reach)
    models = [model, *(deepcopy(model) for _ in item.members[1:])]
    for member, (calibration, _) in zip(models, item.members, strict=True):
        set_calibration(member, calibration.temperature, calibration.inflation)
        condition(member, rows)
    return models, history


def _trained_further(item: FittedCandidate, rows: RowSource, fit: _Fit) -> tuple[DeepLFM, History]:
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


def _average(
    parts: list[tuple[DeepLFM, Float[Tensor, "2 D"]]], split: Split, selection: Selection
) -> ModelAverage:
    """Members with weights that sum to one, in gaps too where some are there for them."""
    models, shares = zip(*parts, strict=True)
    kept = torch.stack(shares)
    kept = torch.where(kept.sum(0) > 0, kept, 1.0)  # outputs whose members all failed
    weight, in_gaps = (kept / kept.sum(0)).unbind(dim=1)
    for index, (name, is_for_gaps) in enumerate(
        zip(selection.members, selection.is_for_gaps, strict=True)
    ):
        if is_for_gaps:
            selection[name].weight_in_gaps = in_gaps[index].tolist()
        else:
            selection[name].weight = weight[index].tolist()
    if not any(selection.is_for_gaps):
        return ModelAverage(list(models), weight)
    return ModelAverage(list(models), weight, in_gaps, split.span)


def _none_left(selection: Selection) -> DeepLFMError:
    failed = selection.failed
    if not failed:
        listed = "; ".join(f"{name}: {reason}" for name, reason in selection.unsuitable.items())
        return InputError(
            f"selection: no candidate is made for these rows ({listed}). Choose another model."
        )
    return TrainingDivergedError(
        f"selection: none of {len(failed)} candidates could be fitted: {failed}. Check the data for "
        "extreme values, or choose another model."
    )
