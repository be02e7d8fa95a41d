"""Fits of sums in state-space form: parameters, logarithms and scores without a comparison of candidates.

The evidence of all rows determines the parameters of each sum, and whether a positive target is modelled
by its logarithm. It does not decide which sum forecasts best far ahead, since it adds up predictions
of the next row. So several sums have equal weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deeplfm.errors import TrainingDivergedError
from deeplfm.estimators.arrays import Arrays
from deeplfm.estimators.scaling import Scaling
from deeplfm.predictive.metrics import nmse
from deeplfm.predictive.mixture import mix
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.select import CandidateResult, Comparison, Selection, compare
from deeplfm.selection.split import hold_out
from deeplfm.statespace import StateSpaceLFM
from deeplfm.terms import Sum
from deeplfm.training import Rows, RowSource

Prepare = Callable[[NDArray[np.bool_]], tuple[Scaling, Rows, list[Candidate]]]


FEWEST_TO_CHALLENGE = (
    100  # rows, from which on other sums are compared with those in state-space form
)
_MARGIN = 0.05  # nats per row by which one of them must lead


def is_exact(model: Any) -> bool:
    """Whether a declared model is a sum in state-space form."""
    return isinstance(model, Sum) and model.is_markov


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
    is_scored: bool,
) -> tuple[Scaling, ModelAverage, Selection]:
    """Fit candidates in state-space form to all rows, and average them.

    Args:
        prepare: scaling, rows and candidates, with logarithms of some targets; the last candidate is the
            cheapest, and its evidence compares both scales.
        may_be_log: targets whose logarithms are compared by the evidence.
        is_log: targets that are modelled by their logarithm in any case.
        seed: of all that is random.
        is_scored: fit without the last rows too, and score the forecast of these.
    """
    is_log = is_log | (may_be_log & _logarithms_are_better(prepare, may_be_log, seed))
    scaling, rows, candidates = prepare(is_log)
    results, models = [], []
    for candidate in candidates:
        began = time.process_time()
        models.append(fitted(candidate, rows, seed))
        results.append(
            CandidateResult(candidate.name, "fitted", seconds=time.process_time() - began)
        )
    share = 1 / len(models)
    weight = torch.full((len(models), rows.y.shape[1]), share, dtype=torch.float64)
    selection = Selection(results, [item.name for item in results], [False] * len(results))
    for result in results:
        result.weight = [share] * rows.y.shape[1]
    if is_scored:
        _score(selection, scaling, candidates, rows, seed)
    return scaling, ModelAverage(models, weight), selection


def challenge(
    candidates: list[Candidate],
    exact: set[str],
    rows: RowSource,
    seed: int,
    progress: bool | None,
    n_jobs: int,
) -> Comparison:
    """Compare sums in state-space form with others, which must lead them on held-out rows."""
    with_margin = [
        replace(item, margin=0.0 if item.name in exact else max(item.margin, _MARGIN))
        for item in candidates
    ]
    return compare(with_margin, rows, True, seed, progress, n_jobs)


def fitted(candidate: Candidate, rows: Rows, seed: int) -> StateSpaceLFM:
    """The model of a candidate, fitted to rows."""
    model = candidate.build(rows, seed)
    if not isinstance(model, StateSpaceLFM):
        raise TypeError(f"{candidate.name} is no sum in state-space form")
    return model


def _logarithms_are_better(
    prepare: Prepare, may_be_log: NDArray[np.bool_], seed: int
) -> NDArray[np.bool_]:
    """Targets whose rows are more probable by their logarithms, under the cheapest candidate."""
    if not may_be_log.any():
        return np.zeros_like(may_be_log)
    plain, logarithms = (
        _log_evidence(*prepare(is_log), seed) for is_log in (np.zeros_like(may_be_log), may_be_log)
    )
    return logarithms > plain


def _log_evidence(
    scaling: Scaling, rows: Rows, candidates: Sequence[Candidate], seed: int
) -> NDArray[np.float64]:
    """Of the last candidate, in the user's units, for each output."""
    try:
        model = fitted(candidates[-1], rows, seed)
    except TrainingDivergedError:
        return np.full(rows.y.shape[1], -np.inf)
    jacobian = torch.where(rows.y.isnan(), 0.0, scaling.log_jacobian(rows.y))
    return (model.log_evidence - (jacobian * rows.counts).sum(0)).numpy()


def _score(
    selection: Selection,
    scaling: Scaling,
    candidates: Sequence[Candidate],
    rows: Rows,
    seed: int,
) -> None:
    """Score forecasts of the last rows by models that were fitted without them."""
    before, held_out = hold_out(rows, is_series=True, seed=seed)
    training = before.everything()
    if len(training) < 3 or bool((~training.y.isnan()).sum(0).lt(3).any()):
        return
    predictions = []
    for candidate, result in zip(candidates, selection.candidates, strict=True):
        try:
            prediction = fitted(candidate, training, seed).posterior(held_out.x)
        except TrainingDivergedError:
            return
        result.mnll = (-held_out.mean_by_count(prediction.log_prob(held_out.y))).tolist()
        predictions.append(prediction)
    share = torch.full((len(predictions), rows.y.shape[1]), 1 / len(predictions)).double()
    mean = mix(predictions, share[:, None]).mean
    selection.held_out_nmse = nmse(mean, held_out.y, held_out.counts).tolist()
    jacobian = scaling.log_jacobian(held_out.y)
    selection.log_jacobian = held_out.mean_by_count(jacobian).tolist()
