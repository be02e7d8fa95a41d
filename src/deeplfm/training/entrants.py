"""Those who race, what rows held out said of them, and what they are kept for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import TrainingDivergedError
from deeplfm.model import DeepLFM
from deeplfm.training.calibration import calibrate
from deeplfm.training.loop import History
from deeplfm.training.recipe import Recipe
from deeplfm.training.rows import Rows, RowSource
from deeplfm.training.stack import series_weights

_KEEP_ABOVE = 0.05


class Judgement(NamedTuple):
    """What rows that a model does not know said of it, once they had calibrated it.

    Attributes:
        temperature: of each output.
        inflation: of the noise of each output.
        mean: what it expected.
        density: logarithm of the density of what was there; NaN where that is not known.
    """

    temperature: Float[Tensor, " D"]
    inflation: Float[Tensor, " D"]
    mean: Float[Tensor, "N D"]
    density: Float[Tensor, "N D"]


@dataclass
class Entrant:
    """A recipe that has been fitted without some rows.

    Attributes:
        recipe: what was fitted.
        model: its model.
        history: of its training.
        ahead: what the held-out rows said: the tail of a series.
        in_gaps: what values said that were hidden like the gaps of a series, if any were.
    """

    recipe: Recipe
    model: DeepLFM
    history: History
    ahead: Judgement
    in_gaps: Judgement | None = None


class Job(NamedTuple):
    """What a model is kept for.

    Attributes:
        by: the judgement that calibrates it.
        share: its weights ahead of the rows, and in gaps.
    """

    by: Judgement
    share: Float[Tensor, "2 D"]


def judge(model: DeepLFM, inner: RowSource, rows: Rows) -> Judgement:
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
    return Judgement(*calibration, posterior.mean, density)


def weight_in_gaps(entrants: list[Entrant], weight: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
    """Weights by the values hidden like gaps; of an output that has none, those of the tail.

    Args:
        entrants: some of them judged by gaps.
        weight: of all of them, by the tail.
    """
    judged = {b: item.in_gaps.density for b, item in enumerate(entrants) if item.in_gaps}
    if not judged:
        return weight
    densities = torch.stack(list(judged.values()))
    # what is there for gaps alone is not behind in them
    handicaps = [item.recipe.handicap if item.recipe.foretells else 0.0 for item in entrants]
    found = torch.zeros_like(weight)
    found[list(judged)] = series_weights(densities, weight.new_tensor(handicaps)[list(judged)])
    return torch.where(densities[0].isnan().all(0), weight, found)


def jobs_of(
    entrants: list[Entrant],
    weight: Float[Tensor, "B D"],
    in_gaps: Float[Tensor, "B D"] | None = None,
) -> list[list[Job]]:
    """What each entrant is kept for: nothing, all rows, those ahead, gaps, or a copy for each of both.

    A model that does not know what comes is calibrated to be unsure of it. It would then be as unsure in
    a gap, both sides of which it knows: hence the copies.

    Args:
        entrants: all of them.
        weight: by the tail.
        in_gaps: by values hidden like gaps, if there are any.
    """
    stays = _staying(entrants, weight)
    between = weight if in_gaps is None else torch.zeros_like(weight)
    shares = torch.stack([weight, between], dim=1)  # B 2 D
    jobs = [
        [Job(entrant.ahead, share)] if is_kept else []
        for entrant, share, is_kept in zip(entrants, shares, stays, strict=True)
    ]
    if in_gaps is not None:
        for entrant, share, found in zip(entrants, in_gaps, jobs, strict=True):
            if entrant.in_gaps is not None and float(share.max()) >= _KEEP_ABOVE:
                both = torch.stack([torch.zeros_like(share), share])
                found.append(Job(entrant.in_gaps, both))
    return jobs


def _staying(entrants: list[Entrant], weight: Float[Tensor, "B D"]) -> list[bool]:
    """Who has a share worth keeping; and in any case a function of time, to be looked into."""
    stays = [float(share.max()) >= _KEEP_ABOVE for share in weight]
    in_time = [
        i
        for i, entrant in enumerate(entrants)
        if entrant.model.is_function_of_time and entrant.recipe.foretells
    ]
    if in_time and not any(stays[i] for i in in_time):
        best = max(in_time, key=lambda i: float(entrants[i].ahead.density.nanmean()))
        stays[best] = True
    return stays
