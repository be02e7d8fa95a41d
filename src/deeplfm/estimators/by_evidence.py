"""Fits of sums in state-space form: parameters, logarithms and scores without a comparison of candidates.

The evidence of all rows determines the parameters of each sum, and whether a positive target is modelled
by its logarithm. It does not decide which sum forecasts best far ahead, since it adds up predictions
of the next row. So sums are weighted by their forecasts from earlier origins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeGuard

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from deeplfm.errors import ConfigError, TrainingDivergedError, UnsuitableError
from deeplfm.estimators.arrays import Arrays
from deeplfm.estimators.scaling import Scaling
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.parallel import attempt_all
from deeplfm.selection.record import CandidateResult, Selection
from deeplfm.statespace import ClocksLFM, StateSpaceLFM
from deeplfm.statespace.fit import MOST_ROWS
from deeplfm.terms import Sum
from deeplfm.terms.candidates import IN_GAPS
from deeplfm.training import Rows
from deeplfm.training.checkpoint import part
from deeplfm.training.interruption import stop_reason, stop_requested, time_left, within
from deeplfm.training.schedule import History

Prepare = Callable[[NDArray[np.bool_], bool], tuple[Scaling, Rows, list[Candidate]]]


def is_exact(model: Any) -> TypeGuard[Sum]:
    """Whether a declared model is a sum in state-space form."""
    return isinstance(model, Sum) and model.is_markov


def is_of_clocks(model: Any) -> bool:
    """Whether a declared model is a sum that is solved as a chain of knots, linear in the rows."""
    return isinstance(model, Sum) and model.is_of_clocks


def is_solved(model: Any) -> bool:
    """Whether a declared model is solved as a Markov process, without training."""
    return is_exact(model) or is_of_clocks(model)


def with_errors(models: dict[str, Any], log_targets: bool | None) -> dict[str, Any]:
    """The models that take measurement errors: sums in state-space form, without logarithms."""
    if log_targets:
        raise ConfigError(
            "measurement_error: log_targets=True found. The errors add to the values and not to their "
            "logarithms. Give log_targets=None, or logarithms and their errors as the targets."
        )
    exact = {
        name: model for name, model in models.items() if is_exact(model) and model == model.alone
    }
    others = [
        name
        for name, model in models.items()
        if name not in exact and name not in IN_GAPS and not is_of_clocks(model)
    ]
    if others or not exact:
        refuse_errors(", ".join(others or models))
    return exact


def refuse_errors(name: str) -> NoReturn:
    """Raise the error of a model whose noise is the same for all rows."""
    raise ConfigError(
        f"measurement_error: {name} has noise that does not differ by row. Use 'auto' for a series, or a "
        "sum of trend, season, level, reversion and covariates; or give row weights as sample_weight."
    )


def is_positive(arrays: Arrays) -> NDArray[np.bool_]:
    """Targets whose known values are all positive."""
    lowest = np.full(arrays.y.shape[1], np.inf)
    for _, y, _ in arrays.chunks():
        lowest = np.fmin(lowest, np.fmin.reduce(y, axis=0))
    return np.asarray((lowest > 0) & np.isfinite(lowest))


def fit_by_evidence(
    prepare: Prepare,
    may_be_log: NDArray[np.bool_],
    is_log: NDArray[np.bool_],
    seed: int,
    is_by_last: bool = True,
) -> tuple[Scaling, ModelAverage, Selection]:
    """Fit candidates that are solved as Markov processes to all rows, and average them.

    Args:
        prepare: scaling, rows and candidates, with logarithms of some targets; or, instead of the
            candidates, the model of each output alone whose evidence compares both scales.
        may_be_log: targets whose logarithms are compared by the evidence.
        is_log: targets that are modelled by their logarithm in any case.
        seed: of all that is random.
        is_by_last: that model is the last candidate, which is the cheapest.
    """
    may_be_log = may_be_log & ~is_log
    with within(time_left() / 2):
        is_log, last = _on_better_scale(prepare, may_be_log, is_log, seed)
    scaling, rows, candidates = prepare(is_log, False)
    selection = Selection()
    with part(scaling.digest):
        found = _in_turn(candidates, rows, seed, last, is_by_last, selection)
    models = [model for _, model, _ in found]
    weight = _weights(models)
    for (candidate, model, seconds), share in zip(found, weight, strict=True):
        record = CandidateResult(candidate.name, "fitted", seconds=seconds, weight=share.tolist())
        if bool(model.forecast_density.isfinite().all()):
            record.mnll = (-model.forecast_density).tolist()
        selection.candidates.append(record)
        selection.members.append(candidate.name)
        selection.is_for_gaps.append(False)
    known = {record.name for record in selection.candidates}
    selection.add_untried([item.name for item in candidates if item.name not in known])
    later = rows.y[rows.x[:, 0].argsort(stable=True)][len(rows) // 2 :]  # forecast from the origins
    selection.log_jacobian = scaling.log_jacobian(later).nanmean(0).nan_to_num(0.0).tolist()
    selection.interrupted = stop_reason() == "interrupt"
    return scaling, ModelAverage(models, weight), selection


Solved = StateSpaceLFM | ClocksLFM
Near = Mapping[str, Solved]
Found = list[tuple[Candidate, Solved, float]]


def _weights(models: Sequence[Solved]) -> Float[Tensor, "B D"]:
    """Of each model for each output, by the densities of its forecasts; equal where one has none."""
    density = torch.stack([model.n_origins * model.forecast_density for model in models])
    return torch.softmax(torch.where(density.isfinite().all(0), density, 0.0), dim=0)


def _in_turn(
    candidates: list[Candidate],
    rows: Rows,
    seed: int,
    last: tuple[Solved, float] | None,
    is_by_last: bool,
    selection: Selection,
) -> Found:
    """The last candidate, which may be fitted already, and then the others from its parameters."""
    if last is None or not is_by_last:
        near = {} if last is None else {candidates[-1].name: last[0]}
        first = fit_all(candidates[-1:], rows, seed, "all rows", near)
    else:
        first = [(candidates[-1], *last)]
    others: Found = []
    if len(candidates) > 1 and not stop_requested():
        near = {candidate.name: first[0][1] for candidate in candidates}
        others = fit_all(candidates[:-1], rows, seed, "all rows", near, selection)
    return others + first


def fit_all(
    candidates: Sequence[Candidate],
    rows: Rows,
    seed: int,
    label: str,
    near: Near,
    selection: Selection | None = None,
) -> Found:
    """Candidates, their models and seconds; those that no time is left for are missing, but not all.

    A checkpoint keeps the models under the label. Searches start from the parameters of other models.
    Candidates that such rows do not suit are recorded in the selection; without one they are refused.
    """
    function = partial(_build, rows=rows, seed=seed, near=near)
    attempts = attempt_all(function, candidates, is_optional=True, label=label, progress=False)
    found: Found = []
    for candidate, result, seconds in attempts:
        if isinstance(result, UnsuitableError) and selection is not None:
            record = CandidateResult(candidate.name, seconds=seconds)
            record.leave_out(result)
            selection.candidates.append(record)
        elif isinstance(result, Exception):
            raise result
        else:
            found.append((candidate, result[0][0], seconds))
    return found


def _build(candidate: Candidate, rows: Rows, seed: int, near: Near) -> tuple[list[Solved], History]:
    model = candidate.build(rows, seed, near.get(candidate.name))
    if isinstance(model, ClocksLFM):
        model.calibrate()
    if not isinstance(model, Solved):
        raise TypeError(f"{candidate.name} is not solved as a Markov process")
    return [model], History()


def _on_better_scale(
    prepare: Prepare, may_be_log: NDArray[np.bool_], is_log: NDArray[np.bool_], seed: int
) -> tuple[NDArray[np.bool_], tuple[Solved, float] | None]:
    """Targets to model by their logarithm; the last candidate and its seconds, if it was fitted so.

    Logarithms are taken where the rows are more probable by them, under the last candidate of each output
    alone; or of all outputs, if they are on common clocks.
    """
    if not may_be_log.any():
        return is_log, None
    scales = (is_log, is_log | may_be_log)
    found: list[tuple[Solved, float] | None] = []
    evidence = []
    for n_left, some in zip((2, 1), scales, strict=True):
        scaling, rows, candidates = prepare(some, True)
        near = {candidates[-1].name: found[0][0]} if found and found[0] else {}
        try:
            with within(time_left() / n_left), part(scaling.digest):
                ((_, model, seconds),) = fit_all(candidates[-1:], rows, seed, "scale", near)
        except TrainingDivergedError:
            found.append(None)
            evidence.append(np.full(len(is_log), -np.inf))
            continue
        known = ~rows.y.isnan()
        is_seen = known & (known.flip(0).cumsum(0).flip(0) <= MOST_ROWS)  # by the evidence
        jacobian = torch.where(is_seen, scaling.log_jacobian(rows.y), 0.0)
        found.append((model, seconds))
        densities = (jacobian * rows.counts).sum(0)
        is_joint = isinstance(model, ClocksLFM)  # outputs on common clocks
        evidence.append((model.log_evidence - (densities.sum() if is_joint else densities)).numpy())
    better = is_log | (may_be_log & (evidence[1] > evidence[0]))
    same = [item for some, item in zip(scales, found, strict=True) if (some == better).all()]
    return better, same[0] if same else None
