"""A candidate: a way to a trained model, and how a selection treats it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from deeplfm.likelihoods import Likelihood
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import seed_for
from deeplfm.selection.split import rows_to_initialise
from deeplfm.training.conditioning import Conditioned, condition
from deeplfm.training.loop import History, train
from deeplfm.training.progress import progress_bar
from deeplfm.training.rows import Rows, RowSource
from deeplfm.training.schedule import Schedule

_MOST_TRAIN_ROWS = 200_000  # that a model keeps


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
    """

    name: str
    build: Callable[[Rows, int], Member]
    schedule: Schedule | None
    margin: float = 0.0
    fills_gaps: bool = True

    @property
    def forecasts(self) -> bool:
        """Whether it may have a weight after the end of the rows."""
        return not math.isinf(self.margin)


def fit_candidate(
    candidate: Candidate,
    rows: RowSource,
    is_series: bool,
    seed: int,
    progress: bool | None = None,
    label: str = "",
    solve: bool = True,
) -> tuple[Member, History]:
    """Build a model and train it; ``solve`` as in :func:`train`."""
    began = time.monotonic()
    shown = rows_to_initialise(rows, is_series)
    model = candidate.build(shown, seed).to(shown.x.device)
    if candidate.schedule is None or not isinstance(model, DeepLFM):
        if solve:
            set_train_data(model, rows)
            condition(model, rows)
        return model, History(seconds=time.monotonic() - began)
    with progress_bar(label or candidate.name, progress) as bar:
        history = train(
            model, rows, candidate.schedule, seed_for(seed, "step"), progress=bar, solve=solve
        )
    return model, history


@torch.no_grad()
def set_train_data(model: Member, rows: RowSource, reach: float | None = None) -> None:
    """Give rows to a model: all, or evenly spaced ones of very many, which alone are read."""
    n_rows = len(rows)
    n_kept = min(n_rows, _MOST_TRAIN_ROWS)
    some = torch.arange(n_kept) * n_rows // n_kept
    kept = rows.everything() if n_kept == n_rows else rows.take(some)
    model.set_train_data(kept.x, kept.y, kept.weight, reach)


def log_evidence(candidate: Candidate, rows: Rows) -> float:
    """Log evidence of a series under a candidate, or a bound of it where there are hidden layers."""
    _, history = fit_candidate(candidate, rows, is_series=True, seed=0, progress=False, solve=False)
    return -history.loss[-1] * len(rows)
