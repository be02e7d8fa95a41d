"""Targets by their logarithms: where the swings of a series grow with its level, as sales do.

In logarithms such swings are the same everywhere, and what foresees them need not grow. But a level
that grows evenly does not do so in logarithms. So both race, and all rows decide: a few rounds that are
held out hear little of swings that grow.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from numpy import ndarray
from torch import Tensor

from deeplfm.errors import InputError, UnsuitableError
from deeplfm.estimators.arrays import Arrays
from deeplfm.estimators.candidates import candidates_of
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.targets import amplitude_grows
from deeplfm.selection.candidate import log_evidence
from deeplfm.selection.parallel import FAILURES
from deeplfm.selection.select import Comparison
from deeplfm.terms import BuildContext
from deeplfm.terms.candidates import SERIES
from deeplfm.training import RowSource
from deeplfm.training.interruption import stop_requested, time_left, within

_EVIDENCE = "season + level"  # the model whose evidence compares both scales
_MOST_ROWS = 1000  # before those held out, of which the evidence is asked


class Trial(NamedTuple):
    """A comparison of candidates, on targets as a scaling transforms them."""

    scaling: Scaling
    rows: RowSource
    comparison: Comparison

    def evidence(self, of: Bool[ndarray, " D"]) -> Float64[ndarray, " E"]:
        """Logarithm of the density of the rows in the user's units, of some targets.

        Of those held out as the race foresees them, of those before as one start explains them: a rhythm
        on a level that wanders and drifts, for each target by itself.
        """
        split = self.comparison.split
        held_out, training = split.held_out, split.training
        before = training.take(torch.arange(max(0, len(training) - _MOST_ROWS), len(training)))
        season = candidates_of(
            {_EVIDENCE: SERIES[_EVIDENCE]}, BuildContext(dtype=before.y.dtype), n_steps=None
        )[0]
        explained = [log_evidence(season, before.output(d)) for d in range(len(of)) if of[d]]
        foreseen = held_out.sum_by_count(self.comparison.density.cpu() - self.log_jacobian)
        units = before.sum_by_count(self.scaling.log_units(before.y))
        return np.array(explained) + (foreseen - units).numpy()[of]

    @property
    def log_jacobian(self) -> Float[Tensor, "N D"]:
        """What log densities of the held-out rows are less in the user's units than in the model's."""
        return self.scaling.log_units(self.comparison.split.held_out.y)


def best_trial(trial: Callable[[Bool[ndarray, " D"]], Trial], may_be: Bool[ndarray, " D"]) -> Trial:
    """Targets as they are, or by logarithms where these make the rows more probable.

    Args:
        trial: a race with logarithms of some targets.
        may_be: targets of which they are worth a race.
    """
    n_more = min(int(may_be.sum()), 2)  # races that may follow, each to have as long as the refits
    with within(time_left() * 2 / (2 + n_more)):
        plain = trial(np.zeros_like(may_be))
    if not n_more:
        return plain
    is_cut = False
    with suppress(*FAILURES, InputError, UnsuitableError):  # where no start is made for them
        with within(time_left() * 2 / (1 + n_more)):
            is_cut = stop_requested()
            if not is_cut:
                logarithms = trial(may_be)
                is_better = may_be.copy()
                is_better[may_be] = logarithms.evidence(may_be) > plain.evidence(may_be)
                is_cut = stop_requested()
        if not is_cut and (is_better == may_be).all():
            return logarithms
        if not is_cut and is_better.any() and not stop_requested():
            return trial(is_better)
    if is_cut:  # the race, or its evidence
        plain.comparison.selection.logarithms_untried = True
    return plain


def may_be_logarithms(arrays: Arrays, is_series: bool) -> Bool[ndarray, " D"]:
    """Targets whose logarithms are worth a look; of rows in memory, in order of time."""
    if not is_series or arrays.are_large:
        return np.zeros(arrays.y.shape[1], dtype=bool)
    return amplitude_grows(arrays.read(slice(None))[1])


def check_positive(
    y: Float64[ndarray, "N D"], is_log: Bool[ndarray, " D"], names: list[str]
) -> None:
    """Refuse values without a logarithm of targets that are heard by theirs."""
    for column, is_heard, name in zip(y.T, is_log, names, strict=True):
        rows = np.flatnonzero(column <= 0)
        if is_heard and len(rows):
            raise InputError(
                f"{name}: {column[rows[0]]:g} found, which has no logarithm, and the model hears this "
                "target by it. Fit with log_targets=False."
            )
