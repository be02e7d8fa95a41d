"""Logarithms of targets, for series whose amplitude grows with their level, such as sales.

The logarithm of such a series has a constant amplitude. But a linear trend is not linear in logarithms.
So both scales are fitted, and the evidence of all rows decides: the few held-out cycles show little of
an amplitude that grows.
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
from deeplfm.selection.fitting import log_evidence
from deeplfm.selection.parallel import FAILURES
from deeplfm.selection.select import Comparison
from deeplfm.terms import BuildContext
from deeplfm.terms.candidates import SERIES
from deeplfm.training import RowSource
from deeplfm.training.interruption import stop_requested, time_left, within

_EVIDENCE = "season + level"  # the model whose evidence compares both scales
_MOST_ROWS = 1000  # before those held out, whose evidence is computed


class Trial(NamedTuple):
    """A comparison of candidates, on targets as a scaling transforms them."""

    scaling: Scaling
    rows: RowSource
    comparison: Comparison

    def evidence(self, of: Bool[ndarray, " D"]) -> Float64[ndarray, " E"]:
        """Log density of the rows of some targets, in the user's units.

        The sum of the density of the held-out rows, as the average predicts them, and of the evidence of
        the rows before, for each target alone, of a season on a random walk with drift.
        """
        split = self.comparison.split
        held_out, training = split.held_out, split.training
        before = training.take(torch.arange(max(0, len(training) - _MOST_ROWS), len(training)))
        season = candidates_of(
            {_EVIDENCE: SERIES[_EVIDENCE]}, BuildContext(dtype=before.y.dtype), n_steps=None
        )[0]
        explained = [log_evidence(season, before.output(d)) for d in range(len(of)) if of[d]]
        predicted = held_out.sum_by_count(self.comparison.density.cpu() - self.log_jacobian)
        log_jacobian = before.sum_by_count(self.scaling.log_jacobian(before.y))
        return np.array(explained) + (predicted - log_jacobian).numpy()[of]

    @property
    def log_jacobian(self) -> Float[Tensor, "N D"]:
        """Log density of the held-out rows in the model's units minus that in the user's."""
        return self.scaling.log_jacobian(self.comparison.split.held_out.y)


def best_trial(trial: Callable[[Bool[ndarray, " D"]], Trial], may_be: Bool[ndarray, " D"]) -> Trial:
    """Targets unchanged, or by their logarithms where these make the rows more probable."""
    n_more = min(int(may_be.sum()), 2)  # comparisons that may follow, each as long as the refits
    with within(time_left() * 2 / (2 + n_more)):
        plain = trial(np.zeros_like(may_be))
    if not n_more:
        return plain
    is_cut = False
    with suppress(*FAILURES, InputError, UnsuitableError):  # where no candidate suits them
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
    if is_cut:  # the comparison, or its evidence
        plain.comparison.selection.logarithms_untried = True
    return plain


def may_be_logarithms(arrays: Arrays, is_series: bool) -> Bool[ndarray, " D"]:
    """Targets whose logarithms are tried; of rows in memory, in order of time."""
    if not is_series or arrays.are_large:
        return np.zeros(arrays.y.shape[1], dtype=bool)
    return amplitude_grows(arrays.read(slice(None))[1])


def check_positive(
    y: Float64[ndarray, "N D"], is_log: Bool[ndarray, " D"], names: list[str]
) -> None:
    """Refuse values without a logarithm of targets that are modelled by theirs."""
    for column, by_logarithm, name in zip(y.T, is_log, names, strict=True):
        rows = np.flatnonzero(column <= 0)
        if by_logarithm and len(rows):
            raise InputError(
                f"{name}: {column[rows[0]]:g} found, which has no logarithm, and this target is "
                "modelled by it. Fit with log_targets=False."
            )
