"""Forecasts judged on the past: a model is fitted before each of several origins and scored after it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.estimators.answers import SCORES, score_table
from deeplfm.estimators.faults import FaultWarning
from deeplfm.estimators.observations import FEWEST_KNOWN
from deeplfm.estimators.regressor import DeepLFMRegressor
from deeplfm.estimators.validation import is_whole
from deeplfm.training.progress import progress_bar


def backtest(
    settings: dict[str, Any],
    x: Float64[ndarray, "N P"],
    observed: pd.DataFrame,
    folds: int,
    horizon: int | None,
) -> pd.DataFrame:
    """Scores of each fold and target.

    Args:
        settings: parameters of the regressor.
        x: inputs of all rows, in order of time.
        observed: their targets, by time.
        folds: number of origins.
        horizon: rows after each origin that are scored; ``None`` takes a tenth of all rows, or less
            where the folds would leave no half of them to train on.
    """
    origins = rolling_origins(observed, folds, horizon)
    tables: list[pd.DataFrame] = []
    with progress_bar("backtest", settings["progress"]) as bar:
        bar.update(0, len(origins), np.nan)
        for fold, (origin, end) in enumerate(origins, start=1):
            regressor = DeepLFMRegressor(**settings | {"progress": False})
            with warnings.catch_warnings():
                # the fit of all rows has told of them
                warnings.simplefilter("ignore", FaultWarning)
                regressor.fit(x[:origin], observed.iloc[:origin].reset_index(drop=True))
            if regressor.fit_result_.interrupted:
                if not tables:
                    raise KeyboardInterrupt
                break  # the fit has said so, and a fold that is not done is no score
            scores = score_table(regressor, x[origin:end], observed.iloc[origin:end])
            scores = scores.rename(columns={"rows": "test_rows"}).reset_index()
            window = observed.index[origin], observed.index[end - 1]
            tables.append(
                scores.assign(fold=fold, train_rows=origin, start=window[0], end=window[1])
            )
            bar.update(fold, len(origins), float(scores["mnll"].mean()))
    columns = ["fold", "target", "train_rows", "test_rows", "start", "end", *SCORES]
    return pd.concat(tables, ignore_index=True)[columns]


def rolling_origins(
    observed: pd.DataFrame, folds: int, horizon: int | None
) -> list[tuple[int, int]]:
    """First and last-but-one row of each test window; they follow one another up to the last row."""
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
