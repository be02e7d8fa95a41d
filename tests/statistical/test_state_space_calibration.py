"""Calibration of state-space models by simulation: parameters and functions are drawn from the prior.

Series with a gap are simulated without the code of the model. Given the true parameters, the share of
the posterior below a true value is uniform over many runs: this is tested by χ² for each quantity, and
the smallest p value times their number must exceed 0.01, as in ``test_simulation_based_calibration.py``.

Fitted parameters have a normal approximation of their posterior (Laplace), which is not exact. So
forecasts by fitted parameters are tested in the same way, but parameters and the function inside the gap
only for the coverage of their intervals; ``docs/reliability.md`` has the figures.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from deeplfm.statespace import PRIOR, StateSpaceConfig
from deeplfm.statespace.fit import fit_output
from deeplfm.statespace.parameters import CONSTANT
from deeplfm.statespace.solved import Known, Solved

pytestmark = pytest.mark.slow
N_RUNS, N_BINS, LEAST_P = 160, 8, 0.01
N_OBSERVED, N_DRAWS = 40, 32
TIME = np.arange(N_OBSERVED + 8.0)
KNOWN = np.r_[0:12, 18:N_OBSERVED]
PLACES = {"in the gap": 15, "at the end": 39, "1 ahead": 40, "4 ahead": 43, "8 ahead": 47}
NAMES = ("noise", "slope", "level", "reversion", "rate")
CONFIG = StateSpaceConfig(
    n_inputs=1,
    begin=0.0,
    step=1.0,
    span=float(N_OBSERVED - 1),
    has_slope=True,
    has_level=True,
    has_reversion=True,
    seasons=(),
    n_draws=N_DRAWS,
)


def simulated(random: np.random.Generator) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """Parameters, a function and noisy observations, step by step from the equations."""
    value = {}
    for name in NAMES:
        median, spread = getattr(PRIOR, name)
        value[name] = median * np.exp(spread * random.normal())
    function = CONSTANT * random.normal() + value["slope"] * random.normal() * (
        TIME / CONFIG.span - 0.5
    )
    walk, kept = 0.0, np.exp(-value["rate"])
    reverting = value["reversion"] * random.normal()
    for n in range(len(TIME)):
        if n:
            walk += value["level"] * random.normal()
            shock = value["reversion"] * np.sqrt(1 - kept**2)
            reverting = kept * reverting + shock * random.normal()
        function[n] += walk + reverting
    return value, function, function + value["noise"] * random.normal(size=len(TIME))


@pytest.fixture(scope="module")
def below() -> dict[str, np.ndarray]:
    """Share of the posterior below the true value: quantities × runs."""
    found: dict[str, list[float]] = {}
    for run in range(N_RUNS):
        value, function, y = simulated(np.random.default_rng(run))
        known = Known(TIME[KNOWN, None], y[KNOWN], np.ones(len(KNOWN)), np.zeros(len(KNOWN)))
        fitted = fit_output(CONFIG, known, run)
        for k, name in enumerate(NAMES):
            spread = fitted.draws[:, k].std()
            share = norm.cdf(np.log(value[name]), fitted.mode[k], spread)
            found.setdefault(name, []).append(share)
        places = np.array(list(PLACES.values()))
        solved = [Solved.of([CONFIG], [known], [draw], TIME[places, None]) for draw in fitted.draws]
        mean, variance = np.array([item.moments() for item in solved]).transpose(1, 0, 2)
        noise = np.array([item.noise[0] for item in solved])[:, None]
        of_function = norm.cdf(function[places], mean, np.sqrt(variance)).mean(0)
        of_value = norm.cdf(y[places], mean, np.sqrt(variance + noise**2)).mean(0)
        for i, place in enumerate(PLACES):
            found.setdefault(f"function {place}", []).append(of_function[i])
            if place != "at the end":  # where y is known
                found.setdefault(f"value {place}", []).append(of_value[i])
    return {name: np.array(shares) for name, shares in found.items()}


def p_value(shares: np.ndarray) -> float:
    counts = np.histogram(shares, np.linspace(0, 1, N_BINS + 1))[0]
    return float(chisquare(counts).pvalue)


def is_forecast(name: str) -> bool:
    return "ahead" in name


def test_forecasts_of_fitted_models_are_calibrated(below: dict[str, np.ndarray]) -> None:
    found = {name: p_value(shares) for name, shares in below.items() if is_forecast(name)}
    worst = min(found, key=lambda name: found[name])
    assert len(found) * found[worst] > LEAST_P, (worst, found)


def test_intervals_of_everything_else_are_nearly_right(below: dict[str, np.ndarray]) -> None:
    for name, shares in below.items():
        if not is_forecast(name):
            inside = np.abs(shares - 0.5) < 0.45
            assert abs(inside.mean() - 0.9) < 0.15, (name, inside.mean())


def test_functions_are_calibrated_given_the_parameters() -> None:
    places = np.array(list(PLACES.values()))
    found = []
    for run in range(3 * N_RUNS):
        value, function, y = simulated(np.random.default_rng(run))
        known = Known(TIME[KNOWN, None], y[KNOWN], np.ones(len(KNOWN)), np.zeros(len(KNOWN)))
        parameters = np.log([value[name] for name in NAMES])
        mean, variance = Solved.of([CONFIG], [known], [parameters], TIME[places, None]).moments()
        found.append(norm.cdf(function[places], mean, np.sqrt(variance)))
    p_values = [p_value(shares) for shares in np.array(found).T]
    assert len(p_values) * min(p_values) > LEAST_P, p_values
