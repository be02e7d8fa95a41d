"""The prior of a clock whose rate wanders, against closed forms of the integrated OU process."""

import numpy as np
import pytest

from deeplfm.terms.clock import STEADIEST, Clock

CYCLES = 20


def clock(diffusion: float = 0.3, lasting: float = 0.1) -> Clock:
    return Clock.steady(2 * np.pi * CYCLES, 1.0, 1000, diffusion, lasting)


def increment(item: Clock, lag: float) -> float:
    """Prior variance of w(t + lag) − w(t)."""
    columns = item.columns(np.array([0.3, 0.3 + lag]))[:, :-1]
    return float(np.square(columns[1] - columns[0]).sum())


@pytest.mark.parametrize("lag", [0.1, 0.4])
def test_without_a_lasting_rate_it_is_a_wiener_process(lag: float) -> None:
    """D² lag (1 − lag/window), to what the shortest waves leave out; D per root of a cycle."""
    expected = 0.3**2 * CYCLES * (lag - lag**2 / 4)
    assert increment(clock(lasting=0.0), lag) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("lag", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("lasting", [0.03, 0.1])
def test_a_lasting_rate_has_the_increments_of_an_integrated_ou_process(
    lag: float, lasting: float
) -> None:
    """D² (lag − τ(1 − e^{−lag/τ})), the textbook variance of the distance of a Brownian particle."""
    short = lag - lasting * (1 - np.exp(-lag / lasting))
    window = lag**2 / 4  # a random walk of waves repeats itself
    expected = 0.3**2 * CYCLES * (short - window)
    assert increment(clock(lasting=lasting), lag) == pytest.approx(expected, rel=0.1)


def test_the_phase_stays_when_the_prior_changes() -> None:
    rng = np.random.default_rng(0)
    first = clock()
    weight = np.append(rng.normal(size=2 * first.n_waves), first.fundamental)
    first = Clock(**{**vars(first), "weight": weight})
    time = np.linspace(0, 1.4, 50)
    np.testing.assert_allclose(first.with_prior(1.0, 0.03).phase(time), first.phase(time))


def test_a_random_walk_phase_needs_evidence_and_more_of_it_for_few_cycles() -> None:
    assert clock(STEADIEST).log_prior == 0
    assert clock(0.3).log_prior < clock(0.03).log_prior < 0
    few = Clock.steady(2 * np.pi * 2, 1.0, 1000, 0.3, 0.1)
    assert few.log_prior == pytest.approx(5 * clock(0.3).log_prior)


def test_drift_is_known() -> None:
    drift = Clock.drift(2.0)
    np.testing.assert_allclose(drift.phase(np.array([0.0, 2.0])), [0.0, 1.0])
    assert drift.precision.min() > 1e8
