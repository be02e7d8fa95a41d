"""Candidates of a selection, the members that they become, and their scores on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from deeplfm.likelihoods import Likelihood
from deeplfm.predictive.mixture import Predictive
from deeplfm.training.rows import Conditioned
from deeplfm.training.schedule import History, Schedule


class Member(Conditioned, Protocol):
    """A model that an average can hold: a :class:`DeepLFM`, or one of another family."""

    @property
    def likelihood(self) -> Likelihood:
        """Noise, whose inflation held-out rows calibrate."""

    @property
    def temperature(self) -> Tensor | None:
        """Of the exact weights of each output, calibrated by held-out rows; None where there is none."""

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""

    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Keep what prediction needs of the training rows; ``reach`` as in :class:`Likelihood`."""

    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Take in further rows without training."""

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """Rows at which it may have weight beside other members."""

    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Predictive distribution of each row."""

    def to(self, device: torch.device) -> Self:
        """The model on a device."""


@dataclass(frozen=True)
class Candidate:
    """A way to a trained model.

    Attributes:
        name: of the candidate.
        build: makes a model with initial values from training rows (of very many, from some of them)
            and a seed.
        schedule: how the model is trained; None where it is complete once it is built.
        margin: nats per row by which it must lead the candidates without a margin. A candidate that was
            found by a search through many has more chances to be lucky on the held-out rows. Infinite:
            it fills the gaps of a series and does not forecast.
        fills_gaps: it predicts gaps, not only what comes after the rows.
        n_restarts: how often it is trained from other random initial values; the highest objective of
            the training rows decides.
    """

    name: str
    build: Callable[..., Member]
    schedule: Schedule | None
    margin: float = 0.0
    fills_gaps: bool = True
    n_restarts: int = 1

    @property
    def forecasts(self) -> bool:
        """Whether it may have a weight after the end of the rows."""
        return not math.isinf(self.margin)


Fit = Callable[..., tuple[Member, History]]  # of a candidate and rows


class Score(NamedTuple):
    """Calibration and log density of a model on rows that it was not fitted on."""

    temperature: Float[Tensor, " D"] | None  # where the model has one
    inflation: Float[Tensor, " D"]  # of the noise
    mean: Float[Tensor, "N D"]
    density: Float[Tensor, "N D"]  # log density of the targets; NaN where they are missing
    counts: Float[Tensor, "N D"]  # how many targets each one stands for

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
    model: Member
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
