"""Scores of predictions, and backtests: fits before several origins, scored on the rows after them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.estimators.record import FEWEST_KNOWN
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.scaling import Array
from deeplfm.estimators.settings import is_whole
from deeplfm.estimators.targets import OutlierWarning
from deeplfm.predictive.mixture import Predictive, nmse
from deeplfm.selection.backends import LostWorkerError, as_finished, n_workers, on_backend
from deeplfm.training.progress import progress_bar

_WIDEST = 1 - 1e-12  # interval of a forecast
SCORES = ("nmse", "mnll", "crps", "rmse", "mae", "coverage95")


def score_table(
    regressor: DeepLFMRegressor, x: Float64[ndarray, "N P"], truth: pd.DataFrame
) -> pd.DataFrame:
    """Scores of each target over the rows where it is known."""
    return _compared(regressor, x, truth).scores


class _Fold(NamedTuple):
    """A forecast from one origin beside the later values.

    Attributes:
        scores: one row for each target.
        position: the predictive distribution function at each value.
    """

    scores: pd.DataFrame
    position: pd.DataFrame


def _compared(
    regressor: DeepLFMRegressor, x: Float64[ndarray, "N P"], truth: pd.DataFrame
) -> _Fold:
    target = torch.from_numpy(truth.to_numpy(dtype=np.float64).copy())

    def question(posterior: Predictive, rows: slice) -> tuple[Tensor, ...]:
        known = target[rows]
        scores = posterior.log_prob(known), posterior.crps(known), posterior.cdf(known)
        return posterior.mean, *scores

    mean, log_density, crps, position = regressor._in_chunks(x, question)
    error = mean - target
    is_inside = ((position - 0.5).abs() <= 0.95 / 2).double()
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
    # targets that are constant over the scored rows have no variance to compare with
    table["nmse"] = table["nmse"].where(np.isfinite(table["nmse"]))
    known = pd.DataFrame(position.where(~target.isnan(), torch.nan).numpy(), columns=truth.columns)
    return _Fold(table, known)


def backtest(
    settings: dict[str, Any],
    x: Float64[ndarray, "N P"],
    observed: pd.DataFrame,
    folds: int,
    horizon: int | None,
    bounds: Array | None = None,
) -> pd.DataFrame:
    """Scores of each fold and target; see ``DeepLFMForecaster.backtest``."""
    found = _folds(settings, x, observed, rolling_origins(observed, folds, horizon), bounds)
    tables = [fold.scores.assign(fold=number) for number, fold in enumerate(found, start=1)]
    columns = ["fold", "target", "train_rows", "test_rows", "start", "end", *SCORES]
    return pd.concat(tables, ignore_index=True)[columns]


def conformal(
    settings: dict[str, Any],
    x: Float64[ndarray, "N P"],
    observed: pd.DataFrame,
    folds: int,
    horizon: int,
    bounds: Array | None = None,
) -> Callable[[float], list[float]]:
    """From a nominal quantile to the one to ask for instead, for each target.

    Central intervals become as wide as those that held the nominal share of the values after several
    origins in the past: split conformal prediction. The score of a value is how far it is from the
    median, in probability under its forecast.
    """
    found = _folds(settings, x, observed, rolling_origins(observed, folds, horizon), bounds)
    scores = (2 * pd.concat([fold.position for fold in found]) - 1).abs()

    def instead(quantile: float) -> list[float]:
        share = abs(2 * quantile - 1)
        widths = [_conformal_width(column, share, folds) for _, column in scores.items()]
        return [(1 + math.copysign(width, 2 * quantile - 1)) / 2 for width in widths]

    return instead


def _conformal_width(scores: pd.Series, share: float, folds: int) -> float:
    """The central interval whose share of further values is at least the one asked for."""
    known = np.sort(scores.dropna())
    rank = math.ceil((len(known) + 1) * share - 1e-9)
    if rank > len(known):
        raise InputError(
            f"conformal: {len(known)} values of {scores.name!r} follow {folds} origins, and an interval "
            f"of {share:.4g} needs {math.ceil(share / (1 - share) - 1e-9)}. Give more origins, or a "
            "narrower interval."
        )
    return min(float(known[rank - 1]), _WIDEST) if rank else 0.0


def _folds(
    settings: dict[str, Any],
    x: Float64[ndarray, "N P"],
    observed: pd.DataFrame,
    origins: list[tuple[int, int]],
    bounds: Array | None,
) -> list[_Fold]:
    """Fits of a model to the rows before each origin, compared with the rows after it."""
    found: dict[int, _Fold] = {}
    with on_backend(settings["backend"]), progress_bar("backtest", settings["progress"]) as bar:
        bar.update(0, len(origins), np.nan)
        n_jobs = min(n_workers(settings["n_jobs"]), len(origins))
        own: dict[str, Any] = {"progress": False}
        if n_jobs > 1:  # folds at a time, in place of candidates
            own |= {"n_jobs": 1, "backend": None}
        work = partial(_fold, settings | own, x, observed, bounds)
        for index, fold in as_finished(work, origins, n_jobs):
            if isinstance(fold, LostWorkerError):
                raise fold
            if fold is None:
                if not found:
                    raise KeyboardInterrupt
                break  # the fit has warned, and an incomplete fold has no score
            found[index] = fold
            bar.update(len(found), len(origins), float(fold.scores["mnll"].mean()))
    return [found[index] for index in sorted(found)]


def _fold(
    settings: dict[str, Any],
    x: Float64[ndarray, "N P"],
    observed: pd.DataFrame,
    bounds: Array | None,
    window: tuple[int, int],
) -> _Fold | None:
    """The forecast from one origin; ``None`` if its fit was interrupted."""
    origin, end = window
    regressor = DeepLFMRegressor(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)  # the fit of all rows has warned
        regressor.fit(x[:origin], observed.iloc[:origin].reset_index(drop=True))
    regressor.scaling_ = regressor.scaling_.bounded(bounds)
    if regressor.fit_result_.interrupted:
        return None
    fold = _compared(regressor, x[origin:end], observed.iloc[origin:end])
    scores = fold.scores.rename(columns={"rows": "test_rows"}).reset_index()
    first, last = observed.index[origin], observed.index[end - 1]
    return fold._replace(scores=scores.assign(train_rows=origin, start=first, end=last))


def rolling_origins(
    observed: pd.DataFrame, folds: int, horizon: int | None
) -> list[tuple[int, int]]:
    """First row and end of each test window; they follow one another up to the last row."""
    _check_count("folds", folds)
    n_rows = len(observed)
    if horizon is None:
        horizon = max(1, min(n_rows // 10, n_rows // (2 * folds)))
    _check_count("horizon", horizon)
    first = n_rows - folds * horizon
    known = observed.iloc[: max(0, first)].notna().sum()
    if first < FEWEST_KNOWN or known.min() < FEWEST_KNOWN:
        raise InputError(
            f"backtest: {folds} folds of {horizon} rows leave {max(0, first)} of {n_rows} rows to train "
            f"the first fold on, with {known.min()} known values of column {known.idxmin()!r}; at "
            f"least {FEWEST_KNOWN} are needed. Ask for fewer folds or a shorter horizon."
        )
    return [(first + fold * horizon, first + (fold + 1) * horizon) for fold in range(folds)]


def _check_count(name: str, value: Any) -> None:
    if not is_whole(value) or value < 1:
        raise InputError(f"{name}: {value!r} found. Give a whole number of at least 1.")
