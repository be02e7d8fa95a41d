"""Fitted estimators as HTML, which notebooks show."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from sklearn.base import clone
from sklearn.utils import estimator_html_repr

from deeplfm.inspection.depth import kind_of

if TYPE_CHECKING:
    from deeplfm.estimators.forecaster import DeepLFMForecaster
    from deeplfm.estimators.regressor import DeepLFMRegressor

_LEAST_WEIGHT = 0.005  # of a candidate that is shown
_MOST_SERIES = 20  # of a panel


def regressor_html(regressor: DeepLFMRegressor) -> str:
    """The fitted model, and the parameters below it."""
    if not hasattr(regressor, "model_"):
        return str(estimator_html_repr(regressor))
    inputs = "time" if regressor.is_series_ else "a table"
    facts = {
        "model": kind_of(regressor.model_, regressor.fit_result_),
        "inputs": f"{inputs}, {regressor.n_features_in_} column{'s' * (regressor.n_features_in_ != 1)}",
        "targets": ", ".join(regressor.labels_.texts),
    }
    return _page(regressor, facts, _weights(regressor))


def forecaster_html(forecaster: DeepLFMForecaster) -> str:
    """The fitted model and its rows, and the parameters below them."""
    if forecaster.panel_ is not None:
        table, roles = forecaster.series_, forecaster.panel_.columns
        counts = ", ".join(f"{n} {status}" for status, n in table["status"].value_counts().items())
        facts = {"series": counts, "targets": ", ".join(map(str, roles.targets))}
        unfitted = clone(
            forecaster
        )  # whose parameters are shown: a panel has no attributes of one series
        return _page(unfitted, facts, table.head(_MOST_SERIES).to_html())
    if not hasattr(forecaster, "regressor_"):
        return str(estimator_html_repr(forecaster))
    training = forecaster.training_
    first, last = forecaster.timeline_.texts(training.index[[0, -1]])
    regressor = forecaster.regressor_
    facts = {
        "model": kind_of(regressor.model_, regressor.fit_result_),
        "rows": f"{len(training)}, from {first} to {last}",
        "targets": ", ".join(map(str, forecaster.targets_)),
        "covariates": ", ".join(map(str, forecaster.covariates_)) or "none",
    }
    return _page(forecaster, facts, _weights(regressor))


def _weights(regressor: DeepLFMRegressor) -> str:
    """The candidates with a weight, where there are several."""
    weights = [f"{name}_weight" for name in regressor.labels_.texts]
    table = regressor.selection_
    shown = table[(table[weights] > _LEAST_WEIGHT).any(axis=1)].drop(columns="left_out")
    return shown.to_html(float_format="{:.3g}".format) if len(shown) > 1 else ""


def _page(estimator: Any, facts: dict[str, str], table: str) -> str:
    """Facts, a table, and scikit-learn's table of the parameters."""
    rows = "".join(
        f'<tr><th style="text-align: left">{html.escape(name)}</th>'
        f'<td style="text-align: left">{html.escape(text)}</td></tr>'
        for name, text in facts.items()
    )
    title = f"<p><b>{type(estimator).__name__}</b>, fitted</p>"
    return f"<div>{title}<table>{rows}</table>{table}{estimator_html_repr(estimator)}</div>"
