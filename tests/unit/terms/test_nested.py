"""Days in weeks."""

from __future__ import annotations

import numpy as np
import pytest

from deeplfm.terms.nested import MOST_SINUSOIDS, find_nested
from deeplfm.terms.season import find_season
from deeplfm.terms.spectrum import Array, matching_pursuit

HOURS = np.arange(3.5 * 168)


def week(hours: Array, seed: int = 0) -> Array:
    """A sharp peak every day, lower on the last two of seven, with noise."""
    height = np.where(hours // 24 % 7 < 5, 1.0, 0.4)
    noise = 0.05 * np.random.default_rng(seed).normal(size=len(hours))
    peak: Array = height * np.exp(-0.5 * ((hours % 24 - 12) / 1.2) ** 2)
    return peak + noise


def rounds_of(*series: tuple[Array, Array]) -> list[Array]:
    """Frequencies of all lines that were found."""
    found = find_nested(series, find_season(series, 20))
    return [lines.frequency[: lines.n_supported] for lines in found]


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_multiples_of_the_week(seed: int) -> None:
    (frequency,) = rounds_of((HOURS, week(HOURS, seed)))
    in_weeks = frequency * 168 / (2 * np.pi)
    assert np.abs(in_weeks - np.round(in_weeks)).max() < 0.05
    multiples = set(np.round(in_weeks).astype(int))
    assert {7, 14, 21} <= multiples  # the day
    assert multiples - {7 * k for k in range(1, 30)}  # and what sets days apart
    assert len(multiples) <= MOST_SINUSOIDS


def test_a_season_by_itself_is_unchanged() -> None:
    """Three harmonics of one period: any others would have to be noise."""
    phase = 2 * np.pi * HOURS / 24
    value = np.sin(phase) + 0.5 * np.sin(2 * phase) + 0.3 * np.cos(3 * phase)
    series = [(HOURS, value + 0.3 * np.random.default_rng(0).normal(size=len(HOURS)))]
    plain = find_season(series, 20)
    assert find_nested(series, plain) is plain


def test_outputs_share_the_week_and_gaps_are_no_trouble() -> None:
    """An output that is known three quarters of the time, in stretches, and one that has only days."""
    some = HOURS[HOURS // 50 % 4 != 0]
    days = np.sin(2 * np.pi * HOURS / 24) + 0.1 * np.random.default_rng(1).normal(size=len(HOURS))
    found = rounds_of((HOURS, week(HOURS)), (some, week(some, seed=1)), (HOURS, days))
    in_weeks = [frequency * 168 / (2 * np.pi) for frequency in found]
    for multiples in in_weeks[:2]:
        assert np.abs(multiples - np.round(multiples)).max() < 0.05
        assert (np.round(multiples) % 7 != 0).sum() > 3
    assert in_weeks[2] == pytest.approx(7.0 * np.arange(1, 13), rel=1e-6)  # all that a day can have


def test_the_most_recent_rows_of_a_long_series_decide() -> None:
    hours = np.arange(40 * 168.0)
    values = week(hours)
    values[: 8 * 168] = 0.0  # before that, nothing
    (frequency,) = rounds_of((hours, values))
    assert (np.round(frequency * 168 / (2 * np.pi)) % 7 != 0).sum() > 3


def test_an_output_that_is_never_known_is_no_trouble() -> None:
    nothing = HOURS[:0]
    assert [len(item) > 10 for item in rounds_of((HOURS, week(HOURS)), (nothing, nothing))] == [
        True,
        False,
    ]


@pytest.mark.parametrize("n_rows", [0, 1, 3, 30])
def test_hardly_any_rows_have_no_weeks(n_rows: int) -> None:
    series = [(HOURS[:n_rows], week(HOURS[:n_rows]))]
    plain = find_season(series, 20)
    assert find_nested(series, plain) is plain


def test_pursuit_among_few_frequencies_takes_no_other() -> None:
    among = 2 * np.pi / np.array([24.0, 20.0, 12.0, 7.0])
    value = 2 * np.cos(among[2] * HOURS) + np.sin(among[0] * HOURS)
    found = matching_pursuit(HOURS, value, 2, among)
    assert found.frequency == pytest.approx(among[[2, 0]])
    assert found.amplitude == pytest.approx([2.0, 1.0], rel=1e-6)
    assert found.residual_variance[2] < 1e-9


def test_an_output_that_is_seldom_known_is_no_trouble() -> None:
    """Once a day, a day has no multiples; once a week, there is nothing to see."""
    daily, weekly = HOURS[::24], HOURS[::168]
    frequencies = rounds_of((HOURS, week(HOURS)), (daily, week(daily)), (weekly, week(weekly)))
    assert len(frequencies[0]) > 10
    assert len(frequencies[2]) == 0
