"""Restarts of a candidate: the highest objective of the training rows is kept."""

import numpy as np
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.fitting import fit_candidate
from deeplfm.terms import BuildContext, Reference
from deeplfm.training import History, Rows

TIME = torch.linspace(0, 1, 60)[:, None]
ROWS = Rows(TIME, torch.sin(20 * TIME))
SMALL = Reference(n_features=5, n_samples=3)


def fitted(n_restarts: int) -> tuple[int, History]:
    def build(rows: Rows, seed: int):
        return SMALL.build(rows, BuildContext(seed, torch.float32))

    candidate = Candidate("small", build, SMALL.schedule(60), n_restarts=n_restarts)
    model, history = fit_candidate(candidate, ROWS, True, seed=0, progress=False)
    return model.seed, history


def test_more_restarts_never_have_a_lower_objective() -> None:
    (first, once), (_, best) = fitted(1), fitted(4)
    assert first == 0  # one restart is the fit without any
    assert best.final_loss <= once.final_loss
    assert fitted(4)[1].loss == best.loss


def test_the_final_loss_is_a_mean_over_steps() -> None:
    assert History(loss=[100.0, *np.arange(50.0)]).final_loss == 24.5
    assert History().final_loss == 0


def test_a_declared_number_of_restarts_is_used() -> None:
    declared = Reference(n_features=5, n_samples=3, n_restarts=2)
    models = [
        DeepLFMRegressor(item, n_steps=5, progress=False).fit(TIME.numpy(), ROWS.y.numpy())
        for item in (SMALL, declared)
    ]
    losses = [model.history_["loss"].mean() for model in models]
    assert losses[1] <= losses[0]
