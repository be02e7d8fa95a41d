r"""A race of recipes on held-out rows inside the training data.

The extrapolation of this model is its frequencies, and no single start wins everywhere. So every
candidate is fitted without a part of the rows (the last part of a series, random rows of a table),
calibrated and scored there; the survivors are stacked and refitted on all rows. Of very many rows a
bounded number is held out, and a bounded number shown to the starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import DeepLFMError, InputError, TrainingDivergedError, UnsuitableError
from deeplfm.model import DeepLFM
from deeplfm.predictive.metrics import nmse
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.parallel import attempts
from deeplfm.selection.score import (
    IN_GAPS,
    Entrant,
    Job,
    jobs_of,
    weight_ahead,
    weight_in_gaps,
)
from deeplfm.selection.split_and_fit import Course
from deeplfm.training.interruption import stop_reason, time_left, within
from deeplfm.training.loop import History
from deeplfm.training.rows import Rows, RowSource


@dataclass
class Report:
    """What a race found.

    Attributes:
        names: of the members of the stack: recipes, some of them with a copy for gaps.
        held_out_mnll: score of every candidate that forecasts on the held-out rows, for each output.
        held_out_nmse: error of the stack on the held-out rows over their variance, for each output; of
            the logarithm, where an output is heard by it.
        units: what a score of the held-out rows has more in the user's units than here, for each output.
        weight: stacking weight of every candidate that is kept, for each output.
        weight_in_gaps: the same between the first and the last row of a series that has gaps, where
            copies of their own speak.
        histories: training of the members of the stack.
        failed: recipes that could not be fitted, and why.
        left_out: recipes that are not made for such rows, and what they need.
        untried: recipes, or logarithms, for which no time was left or that the user did not wait for.
        interrupted: the user ended it before all recipes had been fitted and refitted.
    """

    names: list[str] = field(default_factory=list)
    held_out_mnll: dict[str, list[float]] = field(default_factory=dict)
    held_out_nmse: list[float] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    weight: dict[str, list[float]] = field(default_factory=dict)
    weight_in_gaps: dict[str, list[float]] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    interrupted: bool = False

    def note(self, candidate: Candidate, error: Exception) -> None:
        """A candidate could not be fitted, or is not made for such rows."""
        place = self.left_out if isinstance(error, UnsuitableError) else self.failed
        place[candidate.name] = str(error)


@dataclass(frozen=True)
class Heat:
    """A race up to the judgement of the held-out rows.

    Attributes:
        inner: rows before those.
        held_out: these rows.
        density: logarithm of the density of their targets, by all who stay together.
    """

    inner: RowSource
    held_out: Rows
    density: Float[Tensor, "N D"]
    _course: Course
    _kept: list[tuple[Entrant, list[Job]]]
    _report: Report

    def leave_out(self, what: str) -> None:
        """Tell of something that there was no time to try."""
        self._report.untried.append(what)

    def finish(self, rows: RowSource) -> tuple[ModelAverage, Report]:
        """Refit who stays on all rows, those that the heat was run on.

        Where the user has interrupted or time is over, they are kept as they are, and only their last
        layer hears all rows.
        """
        report = self._report
        stack = _stack(_members(self._kept, rows, self._course, report), self._course, report)
        report.interrupted = stop_reason() == "interrupt"
        return stack, report


def heat(
    recipes: list[Candidate],
    rows: RowSource,
    is_series: bool,
    seed: int = 0,
    progress: bool | None = None,
    n_jobs: int = 1,
    label: str = "race",
) -> Heat:
    """Fit all recipes without the held-out rows, and see which to keep.

    A candidate that cannot be fitted, or is not made for such rows, is reported and left out, as long as
    another can. Of the time that is left, half is taken; the other is for :meth:`Heat.finish`.

    Args:
        recipes: who races.
        rows: all of them.
        is_series: rows have an order in time.
        seed: of all that is random.
        progress: show bars.
        n_jobs: fits at a time, each in a process of its own.
        label: of the bars.
    """
    report = Report()
    course = Course.on(rows, is_series, seed, progress, n_jobs, label, is_alone=len(recipes) == 1)
    with within(time_left() / 2):
        entrants = _entrants(recipes, course, report)
    weight, in_gaps = weight_ahead(entrants, is_series), weight_in_gaps(entrants)
    report.held_out_nmse = _nmse_of_stack(entrants, weight, course.held_out)
    jobs = jobs_of(entrants, weight, in_gaps)
    kept = [(entrant, work) for entrant, work in zip(entrants, jobs, strict=True) if work]
    density = torch.stack([entrant.ahead.density for entrant in entrants])
    together = torch.logsumexp(density + weight.log()[:, None], dim=0)
    return Heat(course.inner, course.held_out, together, course, kept, report)


def race(
    recipes: list[Candidate], rows: RowSource, is_series: bool, **settings: Any
) -> tuple[ModelAverage, Report]:
    """Fit all recipes without the held-out rows, stack the best, refit them; as in :func:`heat`."""
    return heat(recipes, rows, is_series, **settings).finish(rows)


def _entrants(recipes: list[Candidate], course: Course, report: Report) -> list[Entrant]:
    """Recipes that could be fitted without the held-out rows."""
    racing = [item for item in recipes if item.forecasts or course.hidden is not None]
    entrants = []
    for candidate, found in attempts(
        course.enter,
        racing,
        course.n_jobs,
        is_optional=True,
        label="race",
        progress=course.progress,
    ):
        if isinstance(found, Exception):
            report.note(candidate, found)
            continue
        entrants.append(found)
        if candidate.forecasts:
            report.held_out_mnll[candidate.name] = (-found.ahead.score).tolist()
    if not entrants:
        raise _nobody_left(report)
    tried = (
        {item.candidate.name for item in entrants} | report.failed.keys() | report.left_out.keys()
    )
    report.untried = [candidate.name for candidate in racing if candidate.name not in tried]
    return entrants


def _members(
    kept: list[tuple[Entrant, list[Job]]],
    rows: RowSource,
    course: Course,
    report: Report,
) -> list[tuple[DeepLFM, Float[Tensor, "2 D"]]]:
    """Those kept, refitted on all rows: a model for each of their jobs, with its weights."""
    members = []
    refit = partial(course.refit, rows=rows)
    for (entrant, jobs), found in attempts(
        refit, kept, course.n_jobs, label="refit", progress=course.progress
    ):
        if isinstance(found, Exception):
            report.note(entrant.candidate, found)
            continue
        models, history = found
        for job, model in zip(jobs, models, strict=True):
            members.append((model, job.share))
            name = entrant.candidate.name + (IN_GAPS if job.by is entrant.in_gaps else "")
            report.names.append(name)
            report.histories[name] = history
    if not members:
        raise _nobody_left(report)
    return members


def _stack(
    members: list[tuple[DeepLFM, Float[Tensor, "2 D"]]], course: Course, report: Report
) -> ModelAverage:
    """Members with weights that sum to one, in gaps too where some are there for them."""
    models, shares = zip(*members, strict=True)
    kept = torch.stack(shares)
    kept = torch.where(kept.sum(0) > 0, kept, 1.0)  # outputs whose members all failed
    ahead, between = (kept / kept.sum(0)).unbind(dim=1)
    for name, share, other in zip(report.names, ahead.tolist(), between.tolist(), strict=True):
        if name.endswith(IN_GAPS):
            report.weight_in_gaps[name.removesuffix(IN_GAPS)] = other
        else:
            report.weight[name] = share
    if not report.weight_in_gaps:
        return ModelAverage(list(models), ahead)
    return ModelAverage(list(models), ahead, between, course.span)


def _nmse_of_stack(entrants: list[Entrant], weight: Tensor, held_out: Rows) -> list[float]:
    means = torch.stack([entrant.ahead.mean for entrant in entrants])  # B N D
    return nmse((weight[:, None] * means).sum(0), held_out.y, held_out.counts).tolist()


def _nobody_left(report: Report) -> DeepLFMError:
    if not report.failed:
        reasons = "; ".join(f"{name}: {needs}" for name, needs in report.left_out.items())
        return InputError(
            f"race: no start is made for these rows ({reasons}). Choose another start."
        )
    return TrainingDivergedError(
        f"race: none of {len(report.failed)} starts could be fitted: {report.failed}. "
        "Check the data for extreme values, or choose one start with start=."
    )
