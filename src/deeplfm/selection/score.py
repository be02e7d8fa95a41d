"""Those who race, what rows held out said of them, and what they are kept for."""

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
from deeplfm.selection.calibrate import calibrate
from deeplfm.selection.candidate import Candidate
from deeplfm.training.loop import History
from deeplfm.training.rows import Rows, RowSource

IN_GAPS = ", in gaps"  # added to the name of a candidate's copy for gaps
_KEEP_ABOVE = 0.05
_LEAST_LEAD = 15.0  # nats over all rows, where there is a margin: few rows leave more to luck


class Score(NamedTuple):
    """What rows that a model does not know said of it, once they had calibrated it.

    Attributes:
        temperature: of each output.
        inflation: of the noise of each output.
        mean: what it expected.
        density: logarithm of the density of what was there; NaN where that is not known.
        counts: how many targets each one stands for.
    """

    temperature: Float[Tensor, " D"]
    inflation: Float[Tensor, " D"]
    mean: Float[Tensor, "N D"]
    density: Float[Tensor, "N D"]
    counts: Float[Tensor, "N D"]

    @property
    def score(self) -> Float[Tensor, " D"]:
        """Mean logarithm of the density of each output; NaN where nothing of it is known."""
        return (self.density.nan_to_num(0.0) * self.counts).sum(0) / self.counts.sum(0)


@dataclass
class Entrant:
    """A candidate that has been fitted without some rows.

    Attributes:
        candidate: what was fitted.
        model: its model.
        history: of its training.
        ahead: what the held-out rows said: the tail of a series.
        in_gaps: what values said that were hidden like the gaps of a series, if any were.
    """

    candidate: Candidate
    model: DeepLFM
    history: History
    ahead: Score
    in_gaps: Score | None = None


class Job(NamedTuple):
    """What a model is kept for.

    Attributes:
        by: the judgement that calibrates it.
        share: its weights ahead of the rows, and in gaps.
    """

    by: Score
    share: Float[Tensor, "2 D"]


def judge(model: DeepLFM, inner: RowSource, rows: Rows) -> Score:
    """Calibrate a model by rows that it does not know, and score it there.

    Args:
        model: fitted.
        inner: rows that it knows.
        rows: others.
    """
    calibrate(model, inner, rows)
    posterior = model.posterior(rows.x)
    density = posterior.log_prob(rows.y)
    if bool((density.isnan() & ~rows.y.isnan()).any()):
        raise TrainingDivergedError("its prediction of the held-out rows is not a number")
    calibration = model.temperature.clone(), model.likelihood.inflation.clone()
    return Score(*calibration, posterior.mean, density, rows.counts)


def weight_ahead(entrants: list[Entrant], is_series: bool) -> Float[Tensor, "B D"]:
    """Weights by the held-out rows, of those that foretell."""
    weigh = series_weights if is_series else stacking_weights
    some = [b for b, item in enumerate(entrants) if item.candidate.forecasts] or range(
        len(entrants)
    )
    return _weights(weigh, entrants, {b: entrants[b].ahead for b in some})


def weight_in_gaps(entrants: list[Entrant]) -> Float[Tensor, "B D"]:
    """Weights by the values hidden like gaps; none of an output that has none."""
    judged = {b: item.in_gaps for b, item in enumerate(entrants) if item.in_gaps is not None}
    if not judged:
        return torch.zeros_like(entrants[0].ahead.density[:1]).expand(len(entrants), -1)
    found = _weights(series_weights, entrants, judged)
    is_hidden = ~next(iter(judged.values())).density.isnan().all(0)
    return found * is_hidden


def _weights(
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor],
    entrants: list[Entrant],
    by: dict[int, Score],
) -> Float[Tensor, "B D"]:
    """Weights of some entrants, and none of the others; who is there for gaps has no margin there."""
    density = torch.stack([judgement.density for judgement in by.values()])
    recipes = [entrants[b].candidate for b in by]
    margin = density.new_tensor([item.margin if item.forecasts else 0.0 for item in recipes])
    least = _LEAST_LEAD / max(1, density.shape[1])
    margin = torch.where(margin > 0, margin.clamp_min(least), 0.0)
    weight = density.new_zeros(len(entrants), density.shape[-1])
    weight[list(by)] = weigh(density, margin, next(iter(by.values())).counts)
    return weight


def jobs_of(
    entrants: list[Entrant], weight: Float[Tensor, "B D"], in_gaps: Float[Tensor, "B D"]
) -> list[list[Job]]:
    """What each entrant is kept for: nothing, all rows, those ahead, gaps, or a copy for each of both.

    A model that does not know what comes is calibrated to be unsure of it. It would then be as unsure in
    a gap, both sides of which it knows: hence the copies.

    Args:
        entrants: all of them.
        weight: by the tail.
        in_gaps: by values hidden like gaps; where an output has no such weights, those of the tail hold.
    """
    between = torch.where(in_gaps.sum(0) > 0, 0.0, weight)
    shares = torch.stack([weight, between], dim=1)  # B 2 D
    jobs = []
    for entrant, share, more, stays in zip(
        entrants, shares, in_gaps, _staying(entrants, weight), strict=True
    ):
        found = [Job(entrant.ahead, share)] if stays else []
        if entrant.in_gaps is not None and float(more.max()) >= _KEEP_ABOVE:
            found.append(Job(entrant.in_gaps, torch.stack([torch.zeros_like(more), more])))
        jobs.append(found)
    return jobs


def _staying(entrants: list[Entrant], weight: Float[Tensor, "B D"]) -> list[bool]:
    """Who has a share worth keeping; and in any case a function of time, to be looked into."""
    stays = [float(share.max()) >= _KEEP_ABOVE for share in weight]
    in_time = [
        i
        for i, entrant in enumerate(entrants)
        if entrant.model.is_function_of_time and entrant.candidate.forecasts
    ]
    if in_time and not any(stays[i] for i in in_time):
        best = max(in_time, key=lambda i: float(entrants[i].ahead.score.nanmean()))
        stays[best] = True
    return stays
