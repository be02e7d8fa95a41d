"""A recipe for series whose past drives their future: a system that hears itself."""

from __future__ import annotations

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import UnsuitableError
from deeplfm.feedback import Feedback
from deeplfm.recipes.architecture import Architecture, collapsed_schedule
from deeplfm.starts.feedback import (
    find_share,
    find_steps,
    forecast_error,
    learn_without_tail,
    raise_noise,
    start_steps,
)
from deeplfm.training import Rows
from deeplfm.training.race import Recipe

_LAGS = (1, 2, 4, 8, 16, 32)
_ROWS_PER_LAG, _MOST_INPUTS = 20, 100
_FEWEST_ROWS, _UNEVEN = 60, 0.1  # of a step
_TRIAL_FEATURES, _FEATURES, _PATHS = 100, 200, 64


def feedback_recipe(architecture: Architecture) -> Recipe:
    """The next row as a function of the last ones, rolled into the future.

    Needs an even grid of times without gaps, and no covariates, whose future it could not know. Where
    a function of time does nearly as well, that one can be looked into, and knows both sides of a gap.
    """

    def build(rows: Rows, seed: int) -> Feedback:
        check_record(rows)
        n_outputs = rows.y.shape[1]
        trials = []
        for n_lags in _lags_for(rows):
            model = _model(architecture, n_outputs, n_lags, _TRIAL_FEATURES, seed)
            model.to(rows.x.device).remember(rows.x, rows.y)
            lags = model.lags(torch.arange(n_lags, len(rows), device=rows.x.device))
            priors = find_steps(lags, rows.y[n_lags:] - lags[:, :n_outputs])
            start_steps(model, priors)
            learn_without_tail(model, rows)
            trials.append((forecast_error(model, rows), n_lags, priors, model))
        _, n_lags, priors, trial = min(trials, key=lambda trial: trial[0])
        model = _model(architecture, n_outputs, n_lags, _FEATURES, seed).to(rows.x.device)
        start_steps(model, priors)
        model.share.fill_(find_share(trial, rows, seed))
        model.remember(rows.x, rows.y)
        raise_noise(model, rows)
        return model

    return Recipe("feedback", build, collapsed_schedule(0), handicap=0.2)


def check_record(rows: Rows) -> None:
    """Raise where a record has no even steps of its own to learn from."""
    n_rows, n_inputs = rows.x.shape
    if n_inputs > 1:
        raise UnsuitableError("it knows no covariates")
    if n_rows < _FEWEST_ROWS:
        raise UnsuitableError(f"it needs {_FEWEST_ROWS} rows, and here are {n_rows}")
    if bool(rows.y.isnan().any()):
        raise UnsuitableError("it needs every value, and some are missing")
    time = rows.x[:, 0].double()
    even = torch.linspace(float(time[0]), float(time[-1]), n_rows, dtype=time.dtype).to(time)
    step = float(time[-1] - time[0]) / (n_rows - 1)
    if float((time - even).abs().max()) > _UNEVEN * step:
        raise UnsuitableError("it needs rows at even steps of time")


def _lags_for(rows: Rows) -> list[int]:
    n_rows, n_outputs = rows.y.shape
    most = min(n_rows // _ROWS_PER_LAG, max(1, _MOST_INPUTS // n_outputs))
    return [n_lags for n_lags in _LAGS if n_lags <= most]


def _model(
    architecture: Architecture, n_outputs: int, n_lags: int, n_features: int, seed: int
) -> Feedback:
    block = BlockConfig(
        "eq", n_features=n_features, frequencies="prior-fixed", extras=("constant", "trend")
    )
    output = LayerConfig(n_outputs, (block,), "exact", own_features=True)
    config = ModelConfig(n_lags * n_outputs, (output,), n_samples=1, n_paths=_PATHS)
    return Feedback(config, seed, n_lags).to(architecture.dtype)
