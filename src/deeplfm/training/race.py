r"""A race of recipes on held-out rows inside the training data.

The extrapolation of this model is its frequencies, and no single start wins everywhere. So every
recipe is fitted without a part of the rows (the last part of a series, random rows of a table),
calibrated and scored there; the survivors are stacked and refitted on all rows. Of very many rows a
bounded number is held out, and a bounded number shown to the starts.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import DeepLFMError, InputError, TrainingDivergedError, UnsuitableError
from deeplfm.interruption import stop_requested
from deeplfm.metrics import nmse
from deeplfm.model import DeepLFM
from deeplfm.randomness import seed_for
from deeplfm.training.attempts import FAILURES, attempts
from deeplfm.training.calibration import set_calibration
from deeplfm.training.conditioning import condition, remember
from deeplfm.training.entrants import (
    IN_GAPS,
    Entrant,
    Job,
    jobs_of,
    judge,
    weight_ahead,
    weight_in_gaps,
)
from deeplfm.training.gaps import hide_like_gaps
from deeplfm.training.held_out import SERIES_START, order_of, split, start_rows
from deeplfm.training.loop import History, train
from deeplfm.training.progress import progress_bar
from deeplfm.training.recipe import Recipe
from deeplfm.training.rows import Rows, RowSource
from deeplfm.training.stack import Stack, known_span


@dataclass
class Report:
    """What a race found.

    Attributes:
        names: of the members of the stack: recipes, some of them with a copy for gaps.
        held_out_mnll: score of every recipe that foretells on the held-out rows, for each output.
        held_out_nmse: error of the stack on the held-out rows over their variance, for each output.
        weight: stacking weight of every recipe that is kept, for each output.
        weight_in_gaps: the same between the first and the last row of a series that has gaps, where
            copies of their own speak.
        histories: training of the members of the stack.
        failed: recipes that could not be fitted, and why.
        left_out: recipes that are not made for such rows, and what they need.
        interrupted: the user ended it before all recipes had been fitted and refitted.
    """

    names: list[str] = field(default_factory=list)
    held_out_mnll: dict[str, list[float]] = field(default_factory=dict)
    held_out_nmse: list[float] = field(default_factory=list)
    weight: dict[str, list[float]] = field(default_factory=dict)
    weight_in_gaps: dict[str, list[float]] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def note(self, recipe: Recipe, error: Exception) -> None:
        """A recipe could not be fitted, or is not made for such rows."""
        place = self.left_out if isinstance(error, UnsuitableError) else self.failed
        place[recipe.name] = str(error)


def fit_recipe(
    recipe: Recipe,
    rows: RowSource,
    is_series: bool,
    seed: int,
    progress: bool | None = None,
    label: str = "",
    solve: bool = True,
) -> tuple[DeepLFM, History]:
    """Build a model and train it; ``solve`` as in :func:`train`."""
    start = start_rows(rows, is_series)
    model = recipe.build(start, seed).to(start.x.device)
    with progress_bar(label or recipe.name, progress) as bar:
        history = train(
            model, rows, recipe.schedule, seed_for(seed, "step"), progress=bar, solve=solve
        )
    return model, history


def race(
    recipes: list[Recipe],
    rows: RowSource,
    is_series: bool,
    seed: int = 0,
    progress: bool | None = None,
    n_jobs: int = 1,
) -> tuple[Stack, Report]:
    """Fit all recipes without the held-out rows, stack the best, refit them on all rows.

    A recipe that cannot be fitted, or is not made for such rows, is reported and left out, as long as
    another can. Where the user interrupts, those fitted so far are kept as they are, and only their
    last layer hears all rows.

    Args:
        recipes: who races.
        rows: all of them.
        is_series: rows have an order in time.
        seed: of all that is random.
        progress: show bars.
        n_jobs: fits at a time, each in a process of its own.
    """
    report = Report()
    course = _Course.on(rows, is_series, seed, progress, is_alone=len(recipes) == 1)
    entrants = _entrants(recipes, course, report, n_jobs)
    weight, in_gaps = weight_ahead(entrants, is_series), weight_in_gaps(entrants)
    report.held_out_nmse = _nmse_of_stack(entrants, weight, course.held_out)
    jobs = jobs_of(entrants, weight, in_gaps)
    kept = [(entrant, work) for entrant, work in zip(entrants, jobs, strict=True) if work]
    stack = _stack(_members(kept, rows, course, report, n_jobs), course, report)
    report.interrupted = stop_requested()
    return stack, report


def _entrants(recipes: list[Recipe], course: _Course, report: Report, n_jobs: int) -> list[Entrant]:
    """Recipes that could be fitted without the held-out rows."""
    racing = [item for item in recipes if item.foretells or course.hidden is not None]
    entrants = []
    for recipe, found in attempts(
        course.enter, racing, n_jobs, is_optional=True, label="race", progress=course.progress
    ):
        if isinstance(found, Exception):
            report.note(recipe, found)
            continue
        entrants.append(found)
        if recipe.foretells:
            report.held_out_mnll[recipe.name] = (-found.ahead.score).tolist()
    if not entrants:
        raise _nobody_left(report)
    return entrants


def _members(
    kept: list[tuple[Entrant, list[Job]]],
    rows: RowSource,
    course: _Course,
    report: Report,
    n_jobs: int,
) -> list[tuple[DeepLFM, Float[Tensor, "2 D"]]]:
    """Those kept, refitted on all rows: a model for each of their jobs, with its weights."""
    members = []
    refit = partial(course.refit, rows=rows)
    for (entrant, jobs), found in attempts(
        refit, kept, n_jobs, label="refit", progress=course.progress
    ):
        if isinstance(found, Exception):
            report.note(entrant.recipe, found)
            continue
        models, history = found
        for job, model in zip(jobs, models, strict=True):
            members.append((model, job.share))
            name = entrant.recipe.name + (IN_GAPS if job.by is entrant.in_gaps else "")
            report.names.append(name)
            report.histories[name] = history
    if not members:
        raise _nobody_left(report)
    return members


def _stack(
    members: list[tuple[DeepLFM, Float[Tensor, "2 D"]]], course: _Course, report: Report
) -> Stack:
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
        return Stack(list(models), ahead)
    return Stack(list(models), ahead, between, course.span)


@dataclass(frozen=True)
class _Course:
    """What a race is run on.

    Attributes:
        inner: rows to fit on.
        held_out: rows to judge by.
        rest: all rows without values that are hidden; what is to fill gaps is fitted on these too.
        hidden: values to judge by what is said of gaps, where a series has any.
        span: first and last time at which each output of a series is known.
        is_series: rows have an order in time.
        seed: of all that is random.
        progress: show a bar.
    """

    inner: RowSource
    held_out: Rows
    rest: RowSource
    hidden: Rows | None
    span: Float[Tensor, "2 D"] | None
    is_series: bool
    seed: int
    progress: bool | None

    @classmethod
    def on(
        cls, rows: RowSource, is_series: bool, seed: int, progress: bool | None, is_alone: bool
    ) -> Self:
        """Divide rows; for a single recipe, which has all weight in gaps too, hide none."""
        inner, held_out = split(rows, is_series, seed)
        rest, hidden, span = rows, None, None
        if is_series and not is_alone and len(rows) <= SERIES_START:
            ordered = rows.take(order_of(rows))
            rest, hidden = hide_like_gaps(ordered)
            span = known_span(ordered.x, ordered.y)
        return cls(inner, held_out, rest, hidden, span, is_series, seed, progress)

    def enter(self, recipe: Recipe) -> Entrant:
        """Fit a recipe, and judge it by what it does not know."""
        model, history = self._fit(recipe, self.inner, "race")
        remember(model, self.inner, self._reach)
        entrant = Entrant(recipe, model, history, judge(model, self.inner, self.held_out))
        if self.hidden is not None and recipe.fills_gaps and not stop_requested():
            with suppress(*FAILURES, UnsuitableError):  # it may foretell all the same
                other, _ = self._fit(recipe, self.rest, "gaps")
                remember(other, self.rest, self._reach)
                entrant.in_gaps = judge(other, self.rest, self.hidden)
        return entrant

    def refit(
        self, kept: tuple[Entrant, list[Job]], rows: RowSource
    ) -> tuple[list[DeepLFM], History]:
        """Fit a recipe again, on all rows; where the user interrupts, what there is. For each job one."""
        entrant, jobs = kept
        model, history = entrant.model, entrant.history
        if not stop_requested():
            again = self._fit(entrant.recipe, rows, "refit")
            model, history = (model, history) if stop_requested() else again
        remember(model, rows, self._reach)
        models = [model if job is jobs[-1] else deepcopy(model) for job in jobs]
        for member, job in zip(models, jobs, strict=True):
            set_calibration(member, job.by.temperature, job.by.inflation)
            condition(member, rows)
        return models, history

    def _fit(self, recipe: Recipe, rows: RowSource, word: str) -> tuple[DeepLFM, History]:
        label = f"{word}: {recipe.name}"
        return fit_recipe(
            recipe, rows, self.is_series, self.seed, self.progress, label, solve=False
        )

    @property
    def _reach(self) -> float | None:
        """Half the length of a series' tail: there, on average, its calibration holds."""
        if not self.is_series:
            return None
        time = self.held_out.x[:, 0]
        return float(time.max() - time.min()) / 2 or 1.0


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
