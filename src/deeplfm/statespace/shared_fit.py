"""Parameters of forces that outputs share: as many forces as the evidence asks for.

The seasons and parameters of each output are fitted first, each output by itself. The rows without their
seasons, or as they are where the evidence is higher without seasons, are then fitted together: levels,
reversions and noise again, rates of the forces, and loadings. A force is kept where the evidence
rises (by Schwarz's criterion, which stands for the integral over its loadings), and a prior shrinks
loadings to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from deeplfm.statespace.chain import Array
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.evidence import Evidence
from deeplfm.statespace.fit import APART, REACH, Posterior, draws_around, fit_output
from deeplfm.statespace.forces import N_STATES
from deeplfm.statespace.parameters import JointLayout, Layout
from deeplfm.statespace.solved import Known, Solved

_FIRST_STEPS, _STEPS = 20, 40  # of the optimiser: before a force looks promising, and after
_MOST_CURVED = 90  # parameters whose curvature is found; with more, the mode is used
_MOST_WORK = 2e6  # times × states², of the rows that determine parameters: the most recent
_START = 0.5  # share of the variance of an output's own processes, before the fit


class SharedFit(NamedTuple):
    """Forces that the outputs share.

    Attributes:
        layout: places of the parameters.
        draws: draws of the parameters from their posterior, ``S K``.
        has_seasons: the outputs keep their seasons; False where forces explain what looked like a season.
        gain: rise of the log evidence, by Schwarz's criterion.
    """

    layout: JointLayout
    draws: Array
    has_seasons: bool
    gain: float


def without_seasons(config: StateSpaceConfig) -> StateSpaceConfig:
    """The same model without its seasons."""
    return replace(config, seasons=(), n_draws=1)


def fit_forces(
    config: Sequence[StateSpaceConfig],
    known: Sequence[Known],
    modes: Sequence[Array],
    log_evidence: float,
    frequencies: Sequence[float],
    seed: int = 0,
) -> SharedFit | None:
    """Fit the forces that outputs share; None where the evidence prefers none.

    Args:
        config: what the model of each output is made of.
        known: rows of each output with a known target, in order of time.
        modes: parameters of each output, fitted by itself.
        log_evidence: of these fits together.
        frequencies: of the forces that are tried, in this order; 0 for a low-pass force.
        seed: of the draws.
    """
    first = _first_time(known, int(_MOST_WORK / (3 * len(config) + N_STATES) ** 2))
    has_all = first <= min(float(item.x[0, 0]) for item in known)
    left = [_left(*item, first) for item in zip(config, known, modes, strict=True)]
    states = [_State.alone(config, left, log_evidence, has_seasons=True)]
    if has_all and any(item.seasons for item in config):
        states.append(_State.alone(config, known, None, has_seasons=False))
    state = max((_with_forces(item, frequencies) for item in states), key=lambda x: x.evidence)
    if not state.frequency or state.evidence <= log_evidence:
        return None
    draws = state.draws(max(item.n_draws for item in config), seed)
    return SharedFit(state.layout, draws, state.has_seasons, state.evidence - log_evidence)


def _with_forces(state: _State, frequencies: Sequence[float]) -> _State:
    """Forces are added while the evidence rises."""
    for frequency in frequencies:
        trial = state.wider(frequency)
        if trial.evidence > state.evidence - trial.penalty / 2:
            trial = trial.improved(_STEPS)
        if trial.evidence > state.evidence:
            state = trial
    return state


@dataclass(frozen=True)
class _State:
    """Parameters with some forces.

    Attributes:
        known: rows that are fitted.
        posterior: density of the parameters.
        mode: parameters.
        evidence: of all outputs, penalised for loadings and rates.
        has_seasons: seasons are taken out of the rows.
    """

    known: tuple[Known, ...]
    posterior: Posterior
    mode: Array
    evidence: float
    has_seasons: bool

    @classmethod
    def alone(
        cls,
        config: Sequence[StateSpaceConfig],
        known: Sequence[Known],
        log_evidence: float | None,
        has_seasons: bool,
    ) -> _State:
        """No forces; the evidence of given rows unless it is known."""
        plain = tuple(map(without_seasons, config))
        own = [fit_output(part, item) for part, item in zip(plain, known, strict=True)]
        if log_evidence is None:
            log_evidence = sum(item.log_evidence for item in own)
        mode = np.concatenate([item.mode for item in own])
        posterior = Posterior(Evidence(plain, known))
        return cls(tuple(known), posterior, mode, log_evidence, has_seasons)

    @property
    def layout(self) -> JointLayout:
        """Places of the parameters."""
        return self.posterior.evidence.layout

    @property
    def frequency(self) -> tuple[float, ...]:
        """Of the forces."""
        return self.layout.frequency

    @property
    def penalty(self) -> float:
        """Of the rate and the loadings of one force, by Schwarz's criterion."""
        n_parameters = 1 + N_STATES * len(self.known)
        n_times = len(np.unique(self.posterior.evidence.x[:, 0]))
        return 0.5 * n_parameters * float(np.log(n_times))

    def wider(self, frequency: float) -> _State:
        """With one more force, after a few steps."""
        layout = JointLayout(self.layout.config, (*self.frequency, frequency))
        posterior = Posterior(Evidence(layout.config, self.known, layout.frequency))
        start = _start(self.layout, layout, self.mode, self.known)
        mode, value = _maximise(posterior, start, _FIRST_STEPS)
        evidence = self.evidence + value + self.posterior(self.mode)[0] - self.penalty
        return replace(self, posterior=posterior, mode=mode, evidence=evidence)

    def improved(self, n_steps: int) -> _State:
        """After further steps of the optimiser."""
        mode, value = _maximise(self.posterior, self.mode, n_steps)
        evidence = self.evidence + value + self.posterior(self.mode)[0]
        return replace(self, mode=mode, evidence=evidence)

    def draws(self, n_draws: int, seed: int) -> Array:
        """Draws from a normal approximation around the mode; the mode where it is too large."""
        if n_draws == 1 or len(self.mode) > _MOST_CURVED:
            return np.tile(self.mode, (n_draws, 1))
        root, _ = self.posterior.laplace(self.mode, APART * self.posterior.spread)
        return draws_around(self.mode, root, n_draws, seed)


def _maximise(posterior: Posterior, start: Array, n_steps: int) -> tuple[Array, float]:
    """Mode and its log density, in coordinates in which the prior is round."""
    off = (start - posterior.mean) / posterior.spread
    found = minimize(
        posterior.whitened,
        np.clip(off, -REACH, REACH),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-REACH, REACH)] * len(off),
        options={"maxiter": n_steps, "ftol": 1e-5},
    )
    return posterior.mean + posterior.spread * found.x, -float(found.fun)


def _first_time(known: Sequence[Known], most: int) -> float:
    """Time of the first of the rows that determine the parameters."""
    times = np.unique(np.concatenate([item.x[:, 0] for item in known]))
    return float(times[-min(most, len(times))])


def _left(config: StateSpaceConfig, known: Known, mode: Array, first: float) -> Known:
    """Rows of an output from some time on, without its seasons."""
    solved = Solved.of([config], [known], [mode], known.x)
    y = known.y - sum(
        (solved.moments(0, item.name)[0] for item in config.seasons), np.zeros_like(known.y)
    )
    some = known.x[:, 0] >= first
    return Known(known.x[some], y[some], known.weight[some], known.error[some])


def _start(layout: JointLayout, wider: JointLayout, best: Array, known: Sequence[Known]) -> Array:
    """Parameters with one more force, which loads on what correlates between the outputs."""
    own, n_outputs, n_forces = sum(layout.counts), len(known), len(layout.frequency)
    mean, _ = wider.prior()
    loadings = np.zeros((n_outputs, n_forces + 1, N_STATES))
    loadings[:, :n_forces] = best[own + n_forces :].reshape(n_outputs, n_forces, N_STATES)
    score, loading = _principal(layout, best, known)
    loadings[:, n_forces, 0] = loading
    parts = [item.copy() for item in layout.own(best)]
    for d, config in enumerate(layout.config):
        names = Layout(config).names
        for name in ("level", "reversion"):
            if name in names:
                parts[d][names.index(name)] += 0.5 * np.log(_START)
    rates = [*best[own : own + n_forces], mean[own + n_forces]]
    if not wider.frequency[-1]:
        near = float(score[1:] @ score[:-1] / max(float(score @ score), 1e-12))
        rates[-1] = np.log(-np.log(np.clip(near, 0.05, 0.98)) / layout.config[0].step)
    return np.concatenate([*parts, rates, loadings.ravel()])


def _principal(layout: JointLayout, best: Array, known: Sequence[Known]) -> tuple[Array, Array]:
    """First principal component of what the fitted forces leave: its values in time, and loadings."""
    times = np.unique(np.concatenate([item.x[:, 0] for item in known]))
    table = np.zeros((len(times), len(known)))
    functions = None
    if layout.frequency:
        evidence = Evidence(layout.config, known, layout.frequency)
        functions = evidence.shared(best)
    for d, item in enumerate(known):
        value = item.y - (functions[d] if functions else 0.0)
        place = np.searchsorted(times, item.x[:, 0])
        table[place, d] = value - value.mean()
    left, size, right = np.linalg.svd(table, full_matrices=False)
    score = left[:, 0] * size[0]
    spread = max(float(score.std()), 1e-6)
    return score / spread, np.sqrt(_START) * right[0] * spread
