r"""Candidates that are autoregressions: nonlinear in few lags, or linear in many.

Of two models that predict the next row alike, one may be useless after ten: where there is little noise,
many lags determine a derivative to many digits and multiply its error with every step. So the evidence
decides on scales and noise, and the error of forecasts from many origins on the number of lags.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.autoregression_steps import (
    LEAST_SQUARE,
    StepPrior,
    draw_weights,
    linear_priors,
    nonlinear_priors,
)
from deeplfm.errors import UnsuitableError
from deeplfm.randomness import generator_for
from deeplfm.selection.candidate import Candidate
from deeplfm.terms.base import BuildContext
from deeplfm.terms.spectrum import even_step, steps_of
from deeplfm.training import Rows

_MARGIN = 0.2  # nats per row by which an autoregression must lead functions of time
_PATHS = 64
_FEWEST_ROWS, _MOST_OUTPUTS = 60, 100
_MOST_MISSING = 0.2  # of the values
_FEWEST_ORIGINS = 10  # of forecasts to score by
# nonlinear in few lags
_FEW_LAGS, _ROWS_PER_LAG, _MOST_INPUTS = (1, 2, 4, 8, 16, 32), 20, 100
_TRIAL_FEATURES, _FEATURES = 100, 200
# linear in many lags
_MOST_LAGS, _FEWEST_LAGS, _ROWS_PER_LINEAR_LAG, _MOST_LINEAR_INPUTS = 200, 8, 3, 600
# scales by the evidence of some steps; lags by forecasts of the tail, noise by noisy ones
_EVIDENCE_STEPS, _TAIL = 300, 0.25
_ORIGINS, _HORIZON, _FEWEST_ERRORS = 60, 100, 5
_NOISY_ORIGINS, _NOISY_PATHS, _NOISY_HORIZON = 30, 8, 50
_PROCESS_SHARES = (0.0, 0.1, 1.0)


def autoregression_candidate(context: BuildContext) -> Candidate:
    """The next row as a nonlinear function of a few last ones."""
    return _candidate(
        "autoregression", context, few_lags, nonlinear_priors, _TRIAL_FEATURES, _FEATURES
    )


def linear_autoregression_candidate(context: BuildContext) -> Candidate:
    """The next row as a linear function of many last ones: a vector autoregression (VAR).

    It can follow any linear system, and any periodic one; many lags also average observation noise,
    which few would take for a derivative.
    """
    return _candidate("linear autoregression", context, many_lags, linear_priors, 0, 0)


def few_lags(n_rows: int, n_outputs: int) -> list[int]:
    """Numbers of lags that a nonlinear function may have."""
    most = min(n_rows // _ROWS_PER_LAG, _MOST_INPUTS // n_outputs)
    return [n_lags for n_lags in _FEW_LAGS if n_lags <= most]


def many_lags(n_rows: int, n_outputs: int) -> list[int]:
    """Numbers of lags that a linear function may have: as many as can be, half of them, and so on."""
    most = min(_MOST_LAGS, n_rows // _ROWS_PER_LINEAR_LAG, _MOST_LINEAR_INPUTS // n_outputs)
    halves = [most >> k for k in range(most.bit_length())]
    return [n_lags for n_lags in halves if n_lags >= _FEWEST_LAGS] or halves[:1]


def _candidate(
    name: str,
    context: BuildContext,
    lags_for: Callable[[int, int], list[int]],
    priors_of: Callable[[Tensor, Tensor], list[StepPrior]],
    n_trial_features: int,
    n_features: int,
) -> Candidate:
    """An autoregression whose number of lags is chosen by the error of its forecasts.

    It needs an even grid of times, and no covariates, whose future lags do not include. Steps into long
    gaps, and from them, are not learned from. A function of time that is nearly as good can be inspected
    and depends on both sides of a gap: hence the margin.
    """

    def new_model(rows: Rows, n_lags: int, n_features: int, seed: int) -> Autoregression:
        block = BlockConfig(
            "eq", n_features=n_features, frequencies="prior-fixed", extras=("constant", "trend")
        )
        n_outputs = rows.y.shape[1]
        output = LayerConfig(n_outputs, (block,), "exact", own_features=True)
        config = ModelConfig(n_lags * n_outputs, (output,), n_samples=1, n_paths=_PATHS)
        model = Autoregression(config, seed, n_lags).to(context.dtype).to(rows.x.device)
        model.set_train_data(rows.x, rows.y)
        return model

    def build(rows: Rows, seed: int) -> Autoregression:
        check_series(rows)
        trials = []
        for n_lags in lags_for(len(rows), rows.y.shape[1]):
            model = new_model(rows, n_lags, n_trial_features, seed)
            if has_enough_steps(model):
                priors = priors_of(*_some_steps(model))
                set_priors(model, priors)
                _condition_without_tail(model, rows)
                trials.append((_forecast_error(model), n_lags, priors, model))
        if not trials:
            raise UnsuitableError(
                "gaps leave too few rows that follow known ones, or none at the end"
            )
        _, n_lags, priors, trial = min(trials, key=lambda trial: trial[0])
        model = new_model(rows, n_lags, n_features, seed)
        set_priors(model, priors)
        model.process_share.fill_(_best_process_share(trial, seed))
        _raise_noise(model, rows)
        return model

    return Candidate(name, build, None, margin=_MARGIN, fills_gaps=False)


def check_series(rows: Rows) -> None:
    """Raise where rows have no even steps to learn from."""
    n_rows, n_inputs = rows.x.shape
    n_outputs = rows.y.shape[1]
    if n_inputs > 1:
        raise UnsuitableError("it takes no covariates")
    if n_rows < _FEWEST_ROWS:
        raise UnsuitableError(f"it needs {_FEWEST_ROWS} rows, and here are {n_rows}")
    if bool(rows.y.isnan().all(0).any()):
        raise UnsuitableError("it needs values of every output")
    if n_outputs > _MOST_OUTPUTS:
        raise UnsuitableError(f"it takes {_MOST_OUTPUTS} outputs at most, and here are {n_outputs}")
    time = rows.x[:, 0].double()
    if even_step(time) is None:
        raise UnsuitableError("it needs rows at even steps of time")
    n_steps = int(steps_of(time)[-1]) + 1
    share = 1 - float((~rows.y.isnan()).sum()) / (n_steps * n_outputs)
    if share > _MOST_MISSING:
        raise UnsuitableError(f"it needs four of five values, and {share:.0%} are missing")


def has_enough_steps(model: Autoregression) -> bool:
    """Whether gaps leave enough steps to learn from and to score by, and known rows at the end."""
    least = max(_FEWEST_ROWS - model.n_lags, _ROWS_PER_LINEAR_LAG * model.n_lags)
    return (
        len(_known_steps(model)) >= least
        and len(_origins(model)) >= _FEWEST_ORIGINS
        and bool(model.has_known_lags[-1])
    )


@torch.no_grad()
def set_priors(model: Autoregression, priors: list[StepPrior]) -> None:
    """Write the priors of a step into the features of each output."""
    features = model.step_model.output_layer.blocks[0].features
    sensitivity = features.sensitivity
    for d, prior in enumerate(priors):
        features.log_lengthscale[d] = math.log(prior.lengthscale)
        sensitivity[d] = prior.scale
        features.log_extra_scale[d, 0] = math.log(prior.level_scale)
        features.log_extra_scale[d, 1:] = prior.slope_scale.log()
        model.step_model.gaussian.log_variance[d] = math.log(prior.noise_variance)
    features.set_sensitivity(sensitivity)


def _some_steps(model: Autoregression) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N D"]]:
    """Lags and increments of some rows of the series, for the evidence."""
    index = _some(_known_steps(model), _EVIDENCE_STEPS)
    lags = model.lags(index)
    return lags, model.series[index] - lags[:, : model.series.shape[1]]


def _known_steps(model: Autoregression) -> Int64[Tensor, " N"]:
    """Rows of the series that are known, as are their lags."""
    is_known = (model.variance == 0).all(1)
    return (model.has_known_lags[:-1] & is_known).nonzero()[:, 0]


def _condition_without_tail(model: Autoregression, rows: Rows) -> None:
    """Solve the weights on all but the last quarter of the series."""
    inner = model.place(rows.x) < _n_inner(len(model.series)) - 0.5
    weight = None if rows.weight is None else rows.weight[inner]
    model.solve(*model.statistics(rows.x[inner], rows.y[inner], weight))


@torch.no_grad()
def _raise_noise(model: Autoregression, rows: Rows) -> None:
    """Raise the noise to the residuals of one step, where few features leave more than the evidence."""
    model.solve(*model.statistics(rows.x, rows.y, rows.weight))
    mean, _ = model.fitted()
    squares = (model.series - mean)[_known_steps(model)].square().mean(0)
    noise = model.step_model.gaussian.log_variance
    noise.copy_(torch.maximum(noise, squares.clamp_min(LEAST_SQUARE**2).log()))


@torch.no_grad()
def _forecast_error(model: Autoregression) -> float:
    """Mean log squared error of forecasts in the last quarter, over all horizons.

    Logarithms, since the errors of a chaotic system grow until they mean nothing: each horizon counts
    by the ratio of two models' errors there.
    """
    origin = _some(_origins(model), _ORIGINS)
    weights = draw_weights(model.step_model.output_layer, len(origin))
    paths = model.roll(model.lags(origin), _HORIZON, weights)
    errors = []
    for value, truth in _with_truth(paths, model, origin):
        errors.append(((value - truth).square().nanmean(0) + LEAST_SQUARE).log().nanmean())
    return float(torch.stack(errors).nanmean())


@torch.no_grad()
def _best_process_share(model: Autoregression, seed: int) -> float:
    """Share of process noise with the highest density of forecasts in the last quarter."""
    origin = _some(_origins(model), _NOISY_ORIGINS)
    lags = model.lags(origin).repeat(_NOISY_PATHS, 1)
    noise = model.step_model.gaussian.log_variance.exp()
    scores = []
    for share in _PROCESS_SHARES:
        generator = generator_for(seed, "start", device=lags.device)
        weights = draw_weights(model.step_model.output_layer, len(lags), generator)
        model.process_share.fill_(share)
        paths = model.roll(lags, _NOISY_HORIZON, weights, generator)  # H S·B D
        paths = paths.unflatten(1, (_NOISY_PATHS, len(origin))).movedim(1, 2)  # H B S D
        density = []
        for value, truth in _with_truth(paths, model, origin):
            variance = value.var(1) + noise + LEAST_SQUARE
            error = (truth - value.mean(1)).square() / variance
            density.append(-0.5 * (variance.log() + error).nanmean())
        scores.append(float(torch.stack(density).nanmean()))
    return _PROCESS_SHARES[max(range(len(scores)), key=scores.__getitem__)]


def _n_inner(n_rows: int) -> int:
    return n_rows - max(1, round(_TAIL * n_rows))


def _origins(model: Autoregression) -> Int64[Tensor, " B"]:
    """Rows of the tail that follow known ones: the first that a forecast is to predict."""
    n_rows = len(model.series)
    first, last = _n_inner(n_rows), n_rows - _FEWEST_ERRORS
    return first + model.has_known_lags[first : max(first, last) + 1].nonzero()[:, 0]


def _some(index: Int64[Tensor, " N"], most: int) -> Int64[Tensor, " B"]:
    """Some of many, at even distances."""
    return index[torch.linspace(0, len(index) - 1, min(most, len(index))).long()]


def _with_truth(
    paths: Float[Tensor, "H B *S D"], model: Autoregression, origin: Int64[Tensor, " B"]
) -> list[tuple[Float[Tensor, "b *S D"], Float[Tensor, "b D"]]]:
    """Forecasts of every horizon that enough rows have, with the truth; NaN where it is not known."""
    truth = torch.where(model.variance == 0, model.series, torch.nan)
    pairs = []
    for horizon, value in enumerate(paths):
        is_there = origin + horizon < len(truth)
        if int(is_there.sum()) < _FEWEST_ERRORS:
            break
        pairs.append((value[is_there], truth[origin[is_there] + horizon]))
    return pairs or [(paths[0], truth[origin])]
