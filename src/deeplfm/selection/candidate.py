"""A candidate: a way to a trained model, and how a selection treats it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from deeplfm.model import DeepLFM
from deeplfm.randomness import seed_for
from deeplfm.selection.split import rows_to_initialise
from deeplfm.training.loop import History, train
from deeplfm.training.progress import progress_bar
from deeplfm.training.rows import Rows, RowSource
from deeplfm.training.schedule import Schedule


@dataclass(frozen=True)
class Candidate:
    """A way to a trained model.

    Attributes:
        name: of the candidate.
        build: makes a model with initial values from training rows (of very many, from some of them)
            and a seed.
        schedule: how the model is trained.
        margin: nats per row by which it must lead the candidates without a margin. A candidate that was
            found by a search through many has more chances to be lucky on the held-out rows. Infinite:
            it fills the gaps of a series and does not forecast.
        fills_gaps: it predicts gaps, not only what comes after the rows.
    """

    name: str
    build: Callable[[Rows, int], DeepLFM]
    schedule: Schedule
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
) -> tuple[DeepLFM, History]:
    """Build a model and train it; ``solve`` as in :func:`train`."""
    shown = rows_to_initialise(rows, is_series)
    model = candidate.build(shown, seed).to(shown.x.device)
    with progress_bar(label or candidate.name, progress) as bar:
        history = train(
            model, rows, candidate.schedule, seed_for(seed, "step"), progress=bar, solve=solve
        )
    return model, history


def log_evidence(candidate: Candidate, rows: Rows) -> float:
    """Log evidence of a series under a candidate, or a bound of it where there are hidden layers."""
    _, history = fit_candidate(candidate, rows, is_series=True, seed=0, progress=False, solve=False)
    return -history.loss[-1] * len(rows)
