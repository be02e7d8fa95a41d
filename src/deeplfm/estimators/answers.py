"""Predictions and their scores as tables, from the distributions of some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.estimators.observations import Name
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.roles import SUFFIXES
from deeplfm.predictive.metrics import nmse
from deeplfm.predictive.mixture import Predictive

if TYPE_CHECKING:
    from deeplfm.plots import Fan

SCORES = ("nmse", "mnll", "crps", "rmse", "mae", "coverage95")

_ROWS = 4096  # held at a time with all their mixture components


def prediction_table(
    regressor: DeepLFMRegressor,
    x: Float64[ndarray, "N P"],
    index: pd.Index,
    targets: Sequence[Name],
    coverage: float,
) -> pd.DataFrame:
    """Mean, standard deviation and central interval of an observation of each target.

    Args:
        regressor: the fitted model.
        x: inputs.
        index: of the table's rows.
        targets: names of the outputs.
        coverage: probability of the interval.
    """
    columns = [column for name in targets for column in (name, *(f"{name}{s}" for s in SUFFIXES))]
    if len(index) == 0:
        return pd.DataFrame(index=index, columns=columns, dtype=float)
    answers = _in_pieces(
        regressor,
        x,
        lambda posterior, _: (posterior.mean, posterior.std(), *posterior.interval(coverage)),
    )
    values = torch.stack(answers, dim=-1).flatten(1)  # N 4D
    return pd.DataFrame(values.numpy(), index=index, columns=columns)


def prediction_fans(
    regressor: DeepLFMRegressor, x: Float64[ndarray, "N P"], names: Sequence[str]
) -> dict[str, Fan]:
    """Mean and several intervals of each output, as figures show them."""
    from deeplfm.plots import COVERAGES, Fan

    levels = [(1 + sign * coverage) / 2 for sign in (-1, 1) for coverage in COVERAGES]
    mean, ends = (
        answer.numpy()
        for answer in _in_pieces(
            regressor,
            x,
            lambda posterior, _: (posterior.mean, posterior.quantile(levels).movedim(0, -1)),
        )
    )
    return {
        name: Fan(
            mean[:, output],
            {
                coverage: (ends[:, output, i], ends[:, output, i + len(COVERAGES)])
                for i, coverage in enumerate(COVERAGES)
            },
        )
        for output, name in enumerate(names)
    }


def score_table(
    regressor: DeepLFMRegressor, x: Float64[ndarray, "N P"], truth: pd.DataFrame
) -> pd.DataFrame:
    """Scores of each target over the rows where it is known.

    Args:
        regressor: the fitted model.
        x: inputs.
        truth: observed targets of these inputs; NaN marks one that is missing.
    """
    target = torch.from_numpy(truth.to_numpy(dtype=np.float64).copy())

    def question(posterior: Predictive, rows: slice) -> tuple[Tensor, ...]:
        known = target[rows]
        return (
            posterior.mean,
            posterior.log_prob(known),
            posterior.crps(known),
            posterior.cdf(known),
        )

    mean, log_density, crps, position = _in_pieces(regressor, x, question)
    error = mean - target
    is_inside = ((position - 0.5).abs() <= 0.475).double()
    scores = {
        "rows": (~target.isnan()).sum(0),
        "nmse": nmse(mean, target),
        "mnll": -log_density.nanmean(0),
        "crps": crps.nanmean(0),
        "rmse": error.square().nanmean(0).sqrt(),
        "mae": error.abs().nanmean(0),
        "coverage95": is_inside.where(~target.isnan(), torch.nan).nanmean(0),
    }
    table = pd.DataFrame(
        {name: score.numpy() for name, score in scores.items()},
        index=pd.Index(truth.columns, name="target"),
    )
    # targets that do not vary over the scored rows have no variance to compare with
    return table.assign(nmse=table["nmse"].where(np.isfinite(table["nmse"])))


def _in_pieces(
    regressor: DeepLFMRegressor,
    x: Float64[ndarray, "N P"],
    question: Callable[[Predictive, slice], tuple[Tensor, ...]],
) -> list[Tensor]:
    """Answers for all rows, from the distributions of some at a time."""
    pieces = [slice(first, first + _ROWS) for first in range(0, len(x), _ROWS)]
    answers = [question(regressor.posterior(x[rows]), rows) for rows in pieces]
    return [torch.cat(answer) for answer in zip(*answers, strict=True)]
