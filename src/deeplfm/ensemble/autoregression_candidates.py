"""Recipes for series whose past drives their future: systems that hear themselves."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.autoregression_start import (
    StepPrior,
    find_lines,
    find_share,
    find_steps,
    forecast_error,
    learn_without_tail,
    origins,
    raise_noise,
    some_steps,
    start_steps,
    sure_steps,
)
from deeplfm.ensemble.even_grid import even_step, steps_of
from deeplfm.errors import UnsuitableError
from deeplfm.selection.candidate import Candidate
from deeplfm.terms.base import BuildContext, collapsed_schedule
from deeplfm.training import Rows

_FEW_LAGS = (1, 2, 4, 8, 16, 32)
_ROWS_PER_LAG, _MOST_INPUTS = 20, 100
_TRIAL_FEATURES, _FEATURES = 100, 200
_MOST_LAGS, _FEWEST_LAGS, _ROWS_PER_OLD_LAG, _MOST_OLD_INPUTS = 200, 8, 3, 600
_FEWEST_ROWS = 60
_MOST_MISSING = 0.2  # of the values
_FEWEST_ORIGINS = 10  # rows from which to judge forecasts
_PATHS = 64
_HANDICAP = 0.2


def feedback_recipe(context: BuildContext) -> Candidate:
    """The next row as a smooth function of a few last ones, rolled into the future."""
    return _recipe("feedback", context, few_lags, find_steps, _TRIAL_FEATURES, _FEATURES)


def memory_recipe(context: BuildContext) -> Candidate:
    """The next row as a straight line through many last ones, rolled into the future.

    What a linear system does, whatever its order, and what any system does that returns to where it was;
    many lags also average the observer's noise, which few take for a derivative.
    """
    return _recipe("memory", context, many_lags, find_lines, 0, 0)


def few_lags(n_rows: int, n_outputs: int) -> list[int]:
    """Numbers of lags that a smooth function may have."""
    most = min(n_rows // _ROWS_PER_LAG, _MOST_INPUTS // n_outputs)
    return [n_lags for n_lags in _FEW_LAGS if n_lags <= most]


def many_lags(n_rows: int, n_outputs: int) -> list[int]:
    """Numbers of lags that a straight line may have: as many as can be, half of them, and so on."""
    most = min(_MOST_LAGS, n_rows // _ROWS_PER_OLD_LAG, _MOST_OLD_INPUTS // n_outputs)
    halves = [most >> k for k in range(most.bit_length())]
    return [n_lags for n_lags in halves if n_lags >= _FEWEST_LAGS] or halves[:1]


def _recipe(
    name: str,
    context: BuildContext,
    lags_for: Callable[[int, int], list[int]],
    find: Callable[[Tensor, Tensor], list[StepPrior]],
    n_trial_features: int,
    n_features: int,
) -> Candidate:
    """A rule for the next row, whose number of lags forecasts decide.

    Needs an even grid of times, and no covariates, whose future it could not know. Of long gaps, and of
    rows that would look back into them, nothing is learned. Where a function of time does nearly as well,
    that one can be looked into, and knows both sides of a gap: hence the margin.

    Args:
        name: of the candidate.
        context: dtype and seed.
        lags_for: how many lags to try for a number of rows and outputs.
        find: scales of the rule, from lags and increments.
        n_trial_features: while lags are tried.
        n_features: in the end.
    """

    def build(rows: Rows, seed: int) -> Autoregression:
        check_record(rows)
        n_outputs = rows.y.shape[1]
        trials = []
        for n_lags in lags_for(len(rows), n_outputs):
            model = _model(context, n_outputs, n_lags, n_trial_features, seed)
            model.to(rows.x.device).set_train_data(rows.x, rows.y)
            if not is_told_enough(model):
                continue
            priors = find(*some_steps(model))
            start_steps(model, priors)
            learn_without_tail(model, rows)
            trials.append((forecast_error(model), n_lags, priors, model))
        if not trials:
            raise UnsuitableError(
                "gaps leave too few rows that follow known ones, or none at the end"
            )
        _, n_lags, priors, trial = min(trials, key=lambda trial: trial[0])
        model = _model(context, n_outputs, n_lags, n_features, seed).to(rows.x.device)
        start_steps(model, priors)
        model.share.fill_(find_share(trial, seed))
        model.set_train_data(rows.x, rows.y)
        raise_noise(model, rows)
        return model

    return Candidate(name, build, collapsed_schedule(0), margin=_HANDICAP, fills_gaps=False)


def check_record(rows: Rows) -> None:
    """Raise where a record has no even steps of its own to learn from."""
    n_rows, n_inputs = rows.x.shape
    if n_inputs > 1:
        raise UnsuitableError("it knows no covariates")
    if n_rows < _FEWEST_ROWS:
        raise UnsuitableError(f"it needs {_FEWEST_ROWS} rows, and here are {n_rows}")
    if bool(rows.y.isnan().all(0).any()):
        raise UnsuitableError("it needs values of every output")
    if rows.y.shape[1] > _MOST_INPUTS:
        raise UnsuitableError(
            f"it takes {_MOST_INPUTS} outputs at most, and here are {rows.y.shape[1]}"
        )
    time = rows.x[:, 0].double()
    if even_step(time) is None:
        raise UnsuitableError("it needs rows at even steps of time")
    n_steps = int(steps_of(time)[-1]) + 1
    share = 1 - float((~rows.y.isnan()).sum()) / (n_steps * rows.y.shape[1])
    if share > _MOST_MISSING:
        raise UnsuitableError(f"it needs four of five values, and {share:.0%} are missing")


def is_told_enough(model: Autoregression) -> bool:
    """Whether gaps leave a model enough steps to learn from, to be judged by, and to go on from."""
    n_steps = len(sure_steps(model))
    return (
        n_steps >= max(_FEWEST_ROWS - model.n_lags, _ROWS_PER_OLD_LAG * model.n_lags)
        and len(origins(model)) >= _FEWEST_ORIGINS
        and bool(model.is_sure[-1])
    )


def _model(
    context: BuildContext, n_outputs: int, n_lags: int, n_features: int, seed: int
) -> Autoregression:
    block = BlockConfig(
        "eq", n_features=n_features, frequencies="prior-fixed", extras=("constant", "trend")
    )
    output = LayerConfig(n_outputs, (block,), "exact", own_features=True)
    config = ModelConfig(n_lags * n_outputs, (output,), n_samples=1, n_paths=_PATHS)
    return Autoregression(config, seed, n_lags).to(context.dtype)
