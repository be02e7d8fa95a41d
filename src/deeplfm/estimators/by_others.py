"""Weights in gaps: models that know the other outputs, beside those that forecast.

How well a model fills gaps is seen where known values are hidden in the pattern of the gaps. As for
forecasts from earlier origins, parameters stay those of all rows, and each model is conditioned on
the rows that are left.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from deeplfm.errors import TrainingDivergedError
from deeplfm.estimators.by_evidence import fit_all
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.candidate import Candidate, Member
from deeplfm.selection.fitting import set_train_data
from deeplfm.selection.record import CandidateResult, Selection
from deeplfm.statespace import OtherOutputsLFM, StateSpaceLFM
from deeplfm.statespace.origins import scale_of
from deeplfm.training import Rows
from deeplfm.training.rows import RowSource, condition

_N_PATTERNS, _FEW_PATTERNS = 6, 2  # copies of the pattern of the gaps, each elsewhere in the record
_MOST_HIDDEN = 0.3  # of the known values of an output
_USUAL_GAP = 0.05  # of the rows
_N_DRAWS = 2  # of the parameters of a model in state-space form
_WORST = -1e12  # log density of a model without a prediction
_FEW_VALUES = 50_000  # rows × outputs: beyond, the last model alone is tried, in fewer patterns
_MOST_VALUES = 30_000_000  # rows × columns of all outputs: memory

Array = NDArray[np.float64]


def fits_into_memory(rows: RowSource) -> bool:
    """Whether the columns of other outputs do, for all outputs."""
    n_outputs = rows.take(torch.arange(min(1, len(rows)))).y.shape[1]
    return len(rows) * n_outputs**2 <= _MOST_VALUES


def with_others(
    average: ModelAverage,
    selection: Selection,
    candidates: Sequence[Candidate],
    source: RowSource,
    seed: int,
) -> ModelAverage:
    """The average with models that know the other outputs, as members for gaps; and their record."""
    rows = source.everything()
    if rows.y.numel() > _FEW_VALUES:
        candidates = candidates[-1:]
    near = next((item for item in average.members[::-1] if isinstance(item, StateSpaceLFM)), None)
    start = {} if near is None else {item.name: near for item in candidates}
    try:
        found = fit_all(candidates, rows, seed, "in gaps", start)
    except TrainingDivergedError as error:
        for item in candidates:
            selection.candidates.append(CandidateResult(item.name, "failed", reason=str(error)))
        return average
    selection.add_untried([item.name for item in candidates[len(found) :]])
    if not found:
        return average
    models = [model for _, model, _ in found if isinstance(model, OtherOutputsLFM)]
    average = weigh_in_gaps(average, models, rows)
    for candidate, _, seconds in found:
        selection.candidates.append(CandidateResult(candidate.name, "fitted", seconds=seconds))
        selection.members.append(candidate.name)
        selection.is_for_gaps.append(True)
    for name in selection.names:
        own = torch.tensor([name == other for other in selection.members])
        selection[name].weight_in_gaps = average.weight_in_gaps[own].sum(0).tolist()
    return average


@torch.no_grad()
def weigh_in_gaps(
    average: ModelAverage, others: Sequence[OtherOutputsLFM], rows: Rows
) -> ModelAverage:
    """The average with further members, which have weight in gaps only."""
    members = [*average.members, *others]
    rows = rows.take(rows.x[:, 0].argsort(stable=True))
    errors = [_errors(members, rows, hidden) for hidden in _patterns(~rows.y.isnan())]
    n_outputs, n_first = rows.y.shape[1], len(average.members)
    weight = torch.cat([average.weight, average.weight.new_zeros(len(others), n_outputs)])
    in_gaps = weight.clone()
    for d in range(n_outputs):
        found = [part for item in errors if (part := item[d]) is not None]
        if not found:
            continue
        score = np.zeros(len(members))
        for b, member in enumerate(members):
            scale = 1.0
            if isinstance(member, OtherOutputsLFM):
                scale = scale_of(np.array([np.mean(z[b][0] ** 2 / z[b][1]) for z, _ in found]))
                member.forecast_scale[d] = scale
            for errors_of, n_gaps in found:
                error, variance = errors_of[b]
                score[b] += n_gaps * norm.logpdf(error, scale=scale * np.sqrt(variance)).mean()
        score = np.where(np.isfinite(score), score, _WORST)
        share = torch.softmax(torch.as_tensor(score) + _prior(weight[:, d], n_first), dim=0)
        in_gaps[:, d] = share.to(in_gaps)
    ends = torch.stack([rows.x[:1, 0], rows.x[-1:, 0]]).expand(2, n_outputs)
    return ModelAverage(members, weight, in_gaps, ends)


def _prior(weight: Float[Tensor, " B"], n_first: int) -> Float[Tensor, " B"]:
    """Log weights a priori: half for all that forecast, as these are weighted, half for the others."""
    n_others = len(weight) - n_first
    shares = torch.cat([weight[:n_first] / 2, weight.new_full((n_others,), 0.5 / n_others)])
    return shares.log().double().cpu()


def _patterns(known: Bool[Tensor, "N D"]) -> list[Bool[Tensor, "N D"]]:
    """Known values that gaps like those of the record would hide elsewhere.

    In an output without gaps, a part of the rows is hidden, in each at another time.
    """
    n_rows, missing = len(known), ~known & known.any(1, keepdim=True)
    n_patterns = _N_PATTERNS if known.numel() <= _FEW_VALUES else _FEW_PATTERNS
    for d in (~missing.any(0)).nonzero()[:, 0].tolist():
        begin = d * n_rows // known.shape[1]
        missing[begin : begin + math.ceil(_USUAL_GAP * n_rows), d] = True
    found = []
    for k in range(1, n_patterns + 1):
        hidden = missing.roll(k * n_rows // (n_patterns + 1), 0) & known
        for d, some in enumerate(hidden.T):
            if not bool(known[:, d].any()):
                continue
            places, ends = some.nonzero()[:, 0], known[:, d].nonzero()[:, 0][[0, -1]]
            hidden[places[int(_MOST_HIDDEN * int(known[:, d].sum())) :], d] = False
            hidden[ends, d] = False  # inside the record
        found.append(hidden)
    return found


Errors = list[tuple[Array, Array]]  # of each member: errors, and their variances


def _errors(
    members: Sequence[Member], rows: Rows, hidden: Bool[Tensor, "N D"]
) -> list[tuple[Errors, int] | None]:
    """Errors of all members in hidden values, and the number of gaps, for each output."""
    left = Rows(rows.x, torch.where(hidden, torch.nan, rows.y), rows.weight, rows.error)
    at = hidden.any(1) & (~left.y.isnan()).any(1)  # another output is known
    x, target, hidden_at = rows.x[at], rows.y[at], hidden[at]
    means, variances = [], []
    for member in members if len(x) else ():
        again = copy.deepcopy(member)
        if isinstance(again, StateSpaceLFM):
            again.draws = again.draws[:, :_N_DRAWS]
            again.asked = hidden.any(0).nonzero()[:, 0].tolist()
            again.set_train_data(left.x, left.y, left.weight, error=left.error)
        else:
            set_train_data(again, left, float(left.x[-1, 0] - left.x[0, 0]))
            condition(again, left)
        posterior = again.posterior(x)
        means.append(posterior.mean)
        variances.append(posterior.std() ** 2)
    found: list[tuple[Errors, int] | None] = []
    for d, some in enumerate(hidden_at.T):
        is_last = some & ~torch.cat([some[1:], some.new_zeros(1)])
        errors = [
            (
                (target - mean)[some, d].double().numpy(force=True),
                v[some, d].double().numpy(force=True),
            )
            for mean, v in zip(means, variances, strict=True)
        ]
        found.append((errors, int(is_last.sum())) if bool(some.any()) else None)
    return found
