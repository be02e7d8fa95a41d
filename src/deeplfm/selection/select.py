r"""Model selection: fit candidates without some rows, score, calibrate and weigh them, refit the best.

The extrapolation of a latent force model is in its frequencies, and no single initialisation of them is
best everywhere. So every candidate is fitted without a part of the rows (the last part of a series,
random rows of a table), calibrated and scored there; the best are averaged and refitted on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import pandas as pd
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
from deeplfm.selection.split import Split
from deeplfm.training.interruption import stop_reason, time_left, within
from deeplfm.training.loop import History
from deeplfm.training.rows import RowSource

_LOW_WEIGHT = "its weight is too small"
_NO_TIME = "no time was left to try it"

Status = Literal["fitted", "failed", "unsuitable", "not tried"]


@dataclass
class CandidateResult:
    """The result of a selection for one candidate.

    Attributes:
        name: of the candidate.
        status: "fitted"; "failed", where it could not be fitted; "unsuitable", where it is not made for
            such rows; "not tried", where no time was left or the user did not wait.
        mnll: mean negative log likelihood of the held-out rows for each output, in standardised units;
            None where the candidate does not forecast or was not fitted.
        weight: in the average, for each output; None where it is not a member.
        weight_in_gaps: the same in the gaps of a series, where the average has members for these.
        seconds: of all its fits.
        reason: why it is left out of the average.
        history: of the training of a member.
    """

    name: str
    status: Status = "not tried"
    mnll: list[float] | None = None
    weight: list[float] | None = None
    weight_in_gaps: list[float] | None = None
    seconds: float = 0.0
    reason: str = ""
    history: History | None = None

    def leave_out(self, error: Exception) -> None:
        """Record why it could not be fitted."""
        self.status = "unsuitable" if isinstance(error, UnsuitableError) else "failed"
        self.reason = str(error)


@dataclass
class Selection:
    """The result of a selection: one record for each candidate.

    Attributes:
        candidates: in the order in which they were given.
        members: candidate of each member of the average.
        is_for_gaps: whether a member was calibrated for the gaps of a series.
        held_out_nmse: of the average on the held-out rows, for each output; of the logarithm, where an
            output is modelled by it.
        log_jacobian: difference of a score on the held-out rows in the user's units to that in
            standardised units, for each output.
        logarithms_untried: no time was left to compare models of logarithms.
        interrupted: the user ended it before all candidates had been fitted and refitted.
    """

    candidates: list[CandidateResult] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    is_for_gaps: list[bool] = field(default_factory=list)
    held_out_nmse: list[float] = field(default_factory=list)
    log_jacobian: list[float] = field(default_factory=list)
    logarithms_untried: bool = False
    interrupted: bool = False

    @classmethod
    def of_one(cls, name: str, history: History) -> Self:
        """A model that was fitted to all rows without a comparison."""
        result = CandidateResult(name, "fitted", seconds=history.seconds, history=history)
        interrupted = history.stopped == "interrupt"
        return cls([result], [name], [False], interrupted=interrupted)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The selection of which ``dataclasses.asdict`` made plain data."""
        results = [
            CandidateResult(**item | {"history": item["history"] and History(**item["history"])})
            for item in content["candidates"]
        ]
        return cls(**content | {"candidates": results})

    def add_untried(self, names: list[str]) -> None:
        """Record candidates for which no time was left."""
        self.candidates.extend(CandidateResult(name, reason=_NO_TIME) for name in names)

    def __getitem__(self, name: str) -> CandidateResult:
        """The record of a candidate."""
        return next(item for item in self.candidates if item.name == name)

    @property
    def names(self) -> list[str]:
        """Candidates in the average, each once."""
        return list(dict.fromkeys(self.members))

    @property
    def held_out_mnll(self) -> dict[str, list[float]]:
        """Score of every candidate that has one, for each output, in standardised units."""
        return self._values("mnll")

    @property
    def weight(self) -> dict[str, list[float]]:
        """Weights in the average, for each output."""
        return self._values("weight")

    @property
    def weight_in_gaps(self) -> dict[str, list[float]]:
        """Weights in the gaps of a series, where the average has members for these."""
        return self._values("weight_in_gaps")

    @property
    def histories(self) -> dict[str, History]:
        """Training of the candidates in the average."""
        return self._values("history")

    @property
    def failed(self) -> dict[str, str]:
        """Candidates that could not be fitted, and why."""
        return self._reasons("failed")

    @property
    def unsuitable(self) -> dict[str, str]:
        """Candidates that are not made for such rows, and what they need."""
        return self._reasons("unsuitable")

    @property
    def untried(self) -> list[str]:
        """Candidates, or logarithms, for which no time was left or that the user did not wait for."""
        return [*self._reasons("not tried"), *(["logarithms"] if self.logarithms_untried else [])]

    def _values(self, attribute: str) -> dict[str, Any]:
        values = ((item.name, getattr(item, attribute)) for item in self.candidates)
        return {name: value for name, value in values if value is not None}

    def _reasons(self, status: Status) -> dict[str, str]:
        return {item.name: item.reason for item in self.candidates if item.status == status}

    def table(self, outputs: list[str]) -> pd.DataFrame:
        """One row for each candidate, the best score first, in the user's units.

        Returns:
            Columns ``{output}_mnll`` (mean negative log likelihood of the held-out rows),
            ``{output}_weight`` and ``{output}_weight_in_gaps`` for each output, ``seconds`` and
            ``left_out``, the reason why a candidate is not in the average.
        """
        index = pd.Index([item.name for item in self.candidates], name="candidate")
        table = pd.DataFrame(index=index)
        for d, output in enumerate(outputs):
            shift = self.log_jacobian[d] if self.log_jacobian else 0.0
            table[f"{output}_mnll"] = [
                item.mnll[d] + shift if item.mnll else float("nan") for item in self.candidates
            ]
            table[f"{output}_weight"] = [
                item.weight[d] if item.weight else 0.0 for item in self.candidates
            ]
            if self.weight_in_gaps:
                table[f"{output}_weight_in_gaps"] = [
                    item.weight_in_gaps[d] if item.weight_in_gaps else 0.0
                    for item in self.candidates
                ]
        table["seconds"] = [item.seconds for item in self.candidates]
        table["left_out"] = [item.reason for item in self.candidates]
        scores = table[[f"{output}_mnll" for output in outputs]].mean(axis=1)
        return table.iloc[scores.to_numpy().argsort(kind="stable")]


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
    _fit: Fit
    _attempt_all: Callable[..., list[Attempt]]

    @property
    def names(self) -> list[str]:
        """Candidates that are to be members of the average."""
        return [item.candidate.name for item in self._members]

    def left_as_it_was(self, average: ModelAverage, names: list[str]) -> Selection:
        """The record of a comparison that leaves an average of some candidates as it was."""
        selection = self.selection
        selection.members, selection.is_for_gaps = names, [False] * len(names)
        for record in selection.candidates:
            if record.name in names:
                record.reason = ""
                record.weight = average.weight[names.index(record.name)].tolist()
            elif record.status == "fitted":
                record.reason = "it does not lead the state-space models by enough"
        return selection

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
            record.reason = _NO_TIME
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
