r"""Model selection: fit candidates without some rows, score, calibrate and weigh them, refit the best.

The extrapolation of a latent force model is in its frequencies, and no single initialisation of them is
best everywhere. So every candidate is fitted without a part of the rows (the last part of a series,
random rows of a table), calibrated and scored there; the best are averaged and refitted on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import DeepLFMError, InputError, TrainingDivergedError, UnsuitableError
from deeplfm.predictive.mixture import nmse
from deeplfm.selection.average import (
    ModelAverage,
    choose_members,
    forecast_weights,
    gap_weights,
)
from deeplfm.selection.candidate import Candidate, Fit, FittedCandidate, Member
from deeplfm.selection.fitting import fit_and_score, fit_candidate, refit
from deeplfm.selection.parallel import Attempt, attempt_all
from deeplfm.selection.record import NO_TIME, CandidateResult, Selection
from deeplfm.selection.split import Split
from deeplfm.training.interruption import stop_reason, time_left, within
from deeplfm.training.rows import RowSource

_LOW_WEIGHT = "its weight is too small"


@dataclass(frozen=True)
class Comparison:
    """Candidates that were fitted without the held-out rows, scored and weighed."""

    split: Split
    density: Float[Tensor, "N D"]
    selection: Selection
    _members: list[FittedCandidate]
    _fit: Fit
    _attempt_all: Callable[..., list[Attempt]]

    @property
    def names(self) -> list[str]:
        """Candidates that are to be members of the average."""
        return [item.candidate.name for item in self._members]

    def refit(self, rows: RowSource) -> tuple[ModelAverage, Selection]:
        """Refit the members on all rows, those of the comparison, and average them.

        Where the user has interrupted or time is over, they are kept as they are, and only the weights
        of their last layer are solved on all rows.
        """
        selection = self.selection
        parts: list[tuple[Member, Float[Tensor, "2 D"]]] = []
        function = partial(refit, rows=rows, reach=self.split.reach, fit=self._fit)
        for item, found, seconds in self._attempt_all(function, self._members, label="refit"):
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
    fit: Fit = partial(
        fit_candidate, is_series=is_series, seed=seed, progress=progress, solve=False
    )
    attempts = partial(attempt_all, n_jobs=n_jobs, progress=progress)
    with within(time_left() / 2):
        function = partial(fit_and_score, split=split, fit=fit, label=label)
        suitable = _suitable(candidates, split, selection)
        found = attempts(function, suitable, is_optional=True, label=label)
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
            record.reason = NO_TIME
    return fitted


def _average(
    parts: list[tuple[Member, Float[Tensor, "2 D"]]], split: Split, selection: Selection
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
