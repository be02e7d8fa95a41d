"""What a race is run on: rows to fit on, rows to judge by, and a fit of either."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import UnsuitableError
from deeplfm.model import DeepLFM
from deeplfm.randomness import seed_for
from deeplfm.selection.average import known_span
from deeplfm.selection.calibrate import set_calibration
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.gaps import hide_like_gaps
from deeplfm.selection.parallel import FAILURES
from deeplfm.selection.score import Entrant, Job, judge
from deeplfm.selection.split import SERIES_START, order_of, split, start_rows
from deeplfm.training.conditioning import condition, set_train_data
from deeplfm.training.interruption import stop_reason, time_left, within
from deeplfm.training.loop import History, train
from deeplfm.training.progress import progress_bar
from deeplfm.training.rows import Rows, RowSource


def fit_candidate(
    candidate: Candidate,
    rows: RowSource,
    is_series: bool,
    seed: int,
    progress: bool | None = None,
    label: str = "",
    solve: bool = True,
) -> tuple[DeepLFM, History]:
    """Build a model and train it; ``solve`` as in :func:`train`."""
    start = start_rows(rows, is_series)
    model = candidate.build(start, seed).to(start.x.device)
    with progress_bar(label or candidate.name, progress) as bar:
        history = train(
            model, rows, candidate.schedule, seed_for(seed, "step"), progress=bar, solve=solve
        )
    return model, history


def log_evidence(candidate: Candidate, rows: Rows) -> float:
    """Logarithm of the evidence of a series under a candidate, or a bound of it with hidden layers."""
    _, history = fit_candidate(candidate, rows, is_series=True, seed=0, progress=False, solve=False)
    return -history.loss[-1] * len(rows)


_FAR_ENOUGH = 0.5  # of the steps before: a refit with fewer is not worth its rows


@dataclass(frozen=True)
class Course:
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
        n_jobs: fits at a time.
        label: of the bars of the race.
    """

    inner: RowSource
    held_out: Rows
    rest: RowSource
    hidden: Rows | None
    span: Float[Tensor, "2 D"] | None
    is_series: bool
    seed: int
    progress: bool | None
    n_jobs: int
    label: str

    @classmethod
    def on(
        cls,
        rows: RowSource,
        is_series: bool,
        seed: int,
        progress: bool | None,
        n_jobs: int,
        label: str,
        is_alone: bool,
    ) -> Self:
        """Divide rows; for a single candidate, which has all weight in gaps too, hide none."""
        inner, held_out = split(rows, is_series, seed)
        rest, hidden, span = rows, None, None
        if is_series and not is_alone and len(rows) <= SERIES_START:
            ordered = rows.take(order_of(rows))
            rest, hidden = hide_like_gaps(ordered)
            span = known_span(ordered.x, ordered.y)
        return cls(inner, held_out, rest, hidden, span, is_series, seed, progress, n_jobs, label)

    def enter(self, candidate: Candidate) -> Entrant:
        """Fit a candidate, and judge it by what it does not know."""
        hidden = self.hidden if candidate.fills_gaps else None
        with within(time_left() / (1 if hidden is None else 2)):
            model, history = self._fit(candidate, self.inner, self.label)
        set_train_data(model, self.inner, self._reach)
        entrant = Entrant(candidate, model, history, judge(model, self.inner, self.held_out))
        if hidden is not None and stop_reason() is None:
            with suppress(*FAILURES, UnsuitableError):  # it may foretell all the same
                other, _ = self._fit(candidate, self.rest, "gaps")
                set_train_data(other, self.rest, self._reach)
                entrant.in_gaps = judge(other, self.rest, hidden)
        return entrant

    def refit(
        self, kept: tuple[Entrant, list[Job]], rows: RowSource
    ) -> tuple[list[DeepLFM], History]:
        """Fit a candidate again, on all rows; where work is to end, what there is. For each job one."""
        entrant, jobs = kept
        model, history = self._trained_further(entrant, rows)
        set_train_data(model, rows, self._reach)
        models = [model if job is jobs[-1] else deepcopy(model) for job in jobs]
        for member, job in zip(models, jobs, strict=True):
            set_calibration(member, job.by.temperature, job.by.inflation)
            condition(member, rows)
        return models, history

    def _trained_further(self, entrant: Entrant, rows: RowSource) -> tuple[DeepLFM, History]:
        """Trained on all rows; or as it entered the race, where there is no time to get as far again."""
        first = entrant.history
        reason: str | None = stop_reason()
        if reason is None:
            model, history = self._fit(entrant.candidate, rows, "refit")
            is_far = len(history.loss) >= _FAR_ENOUGH * len(first.loss)
            if not history.was_cut or (history.stopped == "time" and is_far):
                return model, history
            reason = history.stopped
        return entrant.model, replace(first, stopped="time") if reason == "time" else first

    def _fit(self, candidate: Candidate, rows: RowSource, word: str) -> tuple[DeepLFM, History]:
        label = f"{word}: {candidate.name}"
        return fit_candidate(
            candidate, rows, self.is_series, self.seed, self.progress, label, solve=False
        )

    @property
    def _reach(self) -> float | None:
        """Half the length of a series' tail: there, on average, its calibration holds."""
        if not self.is_series:
            return None
        time = self.held_out.x[:, 0]
        return float(time.max() - time.min()) / 2 or 1.0
