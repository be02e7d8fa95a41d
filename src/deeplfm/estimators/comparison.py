"""Comparison of several models on the same origins of one frame."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

import pandas as pd

from deeplfm.errors import ConfigError
from deeplfm.estimators.columns import Roles, as_frame
from deeplfm.estimators.evaluation import SCORES, backtest
from deeplfm.estimators.forecaster import DeepLFMForecaster, in_own_units
from deeplfm.estimators.record import Record
from deeplfm.estimators.scaling import bounds_of


def compare(
    models: Mapping[str, DeepLFMForecaster],
    frame: pd.DataFrame,
    *,
    folds: int = 3,
    horizon: int | None = None,
    floor: float | None = None,
    cap: float | None = None,
    time: Any = None,
    targets: Any = None,
    covariates: Any = None,
    **options: Any,
) -> pd.DataFrame:
    """Mean scores of several models, fitted before the same origins and scored on the rows after them.

    Args:
        models: forecasters by name; they need not be fitted, and are not changed.
        frame: as :meth:`DeepLFMForecaster.fit` takes it, with all arguments that follow.
        folds: number of origins.
        horizon: rows after each origin; by default as in :meth:`DeepLFMForecaster.backtest`.
        floor: least value of the targets.
        cap: largest value of the targets.
        time: name of the column of times.
        targets: names of the columns to predict.
        covariates: names of the columns that are known at all times.
        **options: other arguments of :meth:`DeepLFMForecaster.fit`.

    Returns:
        Indexed by target and model, the lowest CRPS first: the mean of each score over the folds, and
        the seconds of all fits.

    >>> import numpy as np
    >>> frame = pd.DataFrame({"load": 50 + 9 * np.sin(np.arange(60) * 2 * np.pi / 12)})
    >>> kinds = {text: DeepLFMForecaster(text, n_steps=3) for text in ("trend", "trend + season(12)")}
    >>> compare(kinds, frame, folds=2).index[0]
    ('load', 'trend + season(12)')
    """
    if not models:
        raise ConfigError("models: none given. Name at least one.")
    given = as_frame(frame, "frame")
    record = Record.of(given, Roles.choose(given, time, targets, covariates), **options)
    bounds, x = bounds_of(record.observed, floor, cap), record.inputs(record.rows)
    tables = []
    for name, model in models.items():
        settings = model._settings()
        settings["model"] = in_own_units(model.model, record.timeline, model.effort)
        started = monotonic()
        found = backtest(settings, x, record.observed, folds, horizon, bounds)
        table = found.groupby("target", sort=False)[list(SCORES)].mean()
        tables.append(table.assign(model=name, seconds=monotonic() - started).reset_index())
    columns = ["target", "model", *SCORES, "seconds"]
    result = pd.concat(tables, ignore_index=True)[columns]
    order = pd.Categorical(result["target"], categories=record.targets)
    result = result.assign(order=order).sort_values(["order", "crps"], kind="stable")
    return result.drop(columns="order").set_index(["target", "model"])
