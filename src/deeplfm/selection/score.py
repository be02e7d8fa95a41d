"""Calibrate fitted candidates on held-out rows, score them there, and weigh them by the scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import TrainingDivergedError
from deeplfm.model import DeepLFM
from deeplfm.selection.average import series_weights, stacking_weights
from deeplfm.selection.candidate import Candidate
from deeplfm.training.loop import History, statistics
from deeplfm.training.rows import Rows, RowSource

TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
INFLATIONS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
_PRIOR_POWERS = (-1.0, -0.5)  # of a temperature, and of an inflation: a variance
_ROWS_PER_FACT = 30  # neighbouring residuals of a series repeat each other
_LEAST_WEIGHT = 0.05  # of a member, in one output at least
_LEAST_LEAD = 15.0  # nats over all rows, where there is a margin: few rows leave more to luck


class Score(NamedTuple):
    """Calibration and log density of a model on rows that it was not fitted on.

    Attributes:
        temperature: of each output.
        inflation: of the noise of each output.
        mean: the predicted values.
        density: log density of the targets; NaN where they are missing.
        counts: how many targets each one stands for.
    """

    temperature: Float[Tensor, " D"]
    inflation: Float[Tensor, " D"]
    mean: Float[Tensor, "N D"]
    density: Float[Tensor, "N D"]
    counts: Float[Tensor, "N D"]

    @property
    def mean_density(self) -> Float[Tensor, " D"]:
        """Mean log density of each output; NaN where no target of it is known."""
        return (self.density.nan_to_num(0.0) * self.counts).sum(0) / self.counts.sum(0)


@dataclass
class FittedCandidate:
    """A candidate that was fitted without the held-out rows.

    Attributes:
        candidate: what was fitted.
        model: its model.
        history: of its training.
        score: on the held-out rows.
        gap_score: on values hidden like the gaps of a series, if any were.
        weight: after the rows, and in gaps; None where it is not to be a member.
        gap_weight: of a copy that is calibrated for gaps; None where there is to be none.
    """

    candidate: Candidate
    model: DeepLFM
    history: History
    score: Score
    gap_score: Score | None = None
    weight: Float[Tensor, "2 D"] | None = None
    gap_weight: Float[Tensor, " D"] | None = None

    @property
    def members(self) -> list[tuple[Score, Float[Tensor, "2 D"]]]:
        """Calibration and weights, after the rows and in gaps, of every member that it becomes."""
        found = [] if self.weight is None else [(self.score, self.weight)]
        if self.gap_score is not None and self.gap_weight is not None:
            weight = torch.stack([torch.zeros_like(self.gap_weight), self.gap_weight])
            found.append((self.gap_score, weight))
        return found


def score(model: DeepLFM, training: RowSource, held_out: Rows) -> Score:
    """Calibrate a model on held-out rows, and score it there."""
    calibrate(model, training, held_out)
    posterior = model.posterior(held_out.x)
    density = posterior.log_prob(held_out.y)
    if bool((density.isnan() & ~held_out.y.isnan()).any()):
        raise TrainingDivergedError("its prediction of the held-out rows is not a number")
    calibration = model.temperature.clone(), model.likelihood.inflation.clone()
    return Score(*calibration, posterior.mean, density, held_out.counts)


@torch.no_grad()
def calibrate(model: DeepLFM, training: RowSource, held_out: Rows) -> None:
    """Set temperature and noise inflation of each output by the density of the held-out rows.

    The mean of their logarithms over the grid, weighted by that density: with few independent
    residuals the best point of the grid is mostly luck. A priori twice the temperature is half as
    likely, and so is twice the standard deviation of the noise: without evidence both stay near one,
    since a temperature also shrinks the function towards zero where its values are known.
    """
    is_tempered = model.has_exact_output and model.is_tempered
    temperatures = TEMPERATURES if is_tempered else (1.0,)
    model.likelihood.inflation.fill_(1.0)
    remoteness = model.likelihood.remoteness(held_out.x)
    known = statistics(model, training) if model.has_exact_output else ()
    worst = -1e9  # of a prediction that is not a number
    grid, scores = [], []
    for temperature in temperatures:
        model.temperature.fill_(temperature)
        if known:
            model.solve(*known)
        posterior = model.posterior(held_out.x)
        plain_noise = posterior.component_noise
        for inflation in INFLATIONS:
            posterior.component_noise = plain_noise * inflation**remoteness
            grid.append([temperature, inflation])
            density = posterior.log_prob(held_out.y).nan_to_num(worst)
            scores.append((density * held_out.counts).sum(0))
    density = torch.stack(scores)  # grid D
    logs = torch.tensor(grid, dtype=density.dtype, device=density.device).log()
    prior = logs @ logs.new_tensor(_PRIOR_POWERS)
    share = torch.softmax(density / _ROWS_PER_FACT + prior[:, None], dim=0)
    set_calibration(model, *(logs.T @ share).exp())
    if known:
        model.solve(*known)


def set_calibration(model: DeepLFM, temperature: Tensor, inflation: Tensor) -> None:
    """Write both into a model."""
    model.temperature.copy_(temperature)
    model.likelihood.inflation.copy_(inflation)


def forecast_weights(fitted: list[FittedCandidate], is_series: bool) -> Float[Tensor, "B D"]:
    """Weights by the held-out rows, of the candidates that forecast."""
    weigh = series_weights if is_series else stacking_weights
    some = [b for b, item in enumerate(fitted) if item.candidate.forecasts] or range(len(fitted))
    return _weights(weigh, fitted, {b: fitted[b].score for b in some})


def gap_weights(fitted: list[FittedCandidate]) -> Float[Tensor, "B D"]:
    """Weights by the values hidden like gaps; zero in an output that has none."""
    scored = {b: item.gap_score for b, item in enumerate(fitted) if item.gap_score is not None}
    if not scored:
        return torch.zeros_like(fitted[0].score.density[:1]).expand(len(fitted), -1)
    is_hidden = ~next(iter(scored.values())).density.isnan().all(0)
    return _weights(series_weights, fitted, scored) * is_hidden


def _weights(
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor],
    fitted: list[FittedCandidate],
    scores: dict[int, Score],
) -> Float[Tensor, "B D"]:
    """Weights of some candidates, zero of the others; one for gaps alone has no margin there."""
    density = torch.stack([item.density for item in scores.values()])
    candidates = [fitted[b].candidate for b in scores]
    margin = density.new_tensor([item.margin if item.forecasts else 0.0 for item in candidates])
    least = _LEAST_LEAD / max(1, density.shape[1])
    margin = torch.where(margin > 0, margin.clamp_min(least), 0.0)
    weight = density.new_zeros(len(fitted), density.shape[-1])
    weight[list(scores)] = weigh(density, margin, next(iter(scores.values())).counts)
    return weight


def choose_members(
    fitted: list[FittedCandidate], weight: Float[Tensor, "B D"], in_gaps: Float[Tensor, "B D"]
) -> list[FittedCandidate]:
    """Candidates whose weights are large enough, with these weights.

    A model with a large error after the rows gets a wide interval there. In a gap, where rows on both
    sides are known, that interval would be too wide: hence copies with a calibration of their own.

    Args:
        fitted: all candidates.
        weight: by the held-out rows.
        in_gaps: by values hidden like gaps; an output without such values takes ``weight`` in gaps too.
    """
    between = torch.where(in_gaps.sum(0) > 0, 0.0, weight)
    both = torch.stack([weight, between], dim=1)  # B 2 D
    for item, share, gap_share in zip(fitted, both, in_gaps, strict=True):
        item.weight = share if float(share[0].max()) >= _LEAST_WEIGHT else None
        is_for_gaps = item.gap_score is not None and float(gap_share.max()) >= _LEAST_WEIGHT
        item.gap_weight = gap_share if is_for_gaps else None
    # An autoregression has no say within its rows: one candidate that does is kept in any case.
    within = [b for b, item in enumerate(fitted) if _is_within_rows(item)]
    if within and all(fitted[b].weight is None for b in within):
        best = max(within, key=lambda b: float(fitted[b].score.mean_density.nanmean()))
        fitted[best].weight = both[best]
    return [item for item in fitted if item.members]


def _is_within_rows(item: FittedCandidate) -> bool:
    return item.candidate.fills_gaps and item.candidate.forecasts
