"""What looks like a fault of a measurement, and what does not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from deeplfm import DeepLFMForecaster, DeepLFMRegressor
from deeplfm.estimators.faults import find_faults

STEPS = np.arange(400.0)


def level(seed: int = 0) -> np.ndarray:
    """A daily wave around 100, with noise."""
    noise = np.random.default_rng(seed).normal(size=len(STEPS))
    return 100 + np.sin(2 * np.pi * STEPS / 24) + 0.3 * noise


def beats(n_rows: int) -> np.ndarray:
    """A flat line with sharp peaks, as of a heart: few rows are far, and some lie between."""
    time = np.arange(n_rows) / 125
    noise = 0.02 * np.random.default_rng(0).normal(size=n_rows)
    values = np.exp(-0.5 * ((time % 0.8 - 0.4) / 0.01) ** 2) + noise
    assert 0.01 < (values > 0.4).mean() < 0.05
    return values


def test_readings_of_zero_are_faults() -> None:
    values = level()
    values[[20, 21, 22, 150]] = 0.0
    found = find_faults(values)
    assert found is not None
    assert (found.count, found.stretches, found.span) == (4, 2, (0.0, 0.0))
    assert found.others == pytest.approx((98.3, 101.7), abs=0.6)


def test_what_is_far_at_the_end_counts_for_nothing() -> None:
    values = level()
    values[[20, 21, 150, 398, 399]] = -999.0
    found = find_faults(values)
    assert found is not None
    assert (found.count, found.stretches) == (3, 2)


def test_an_outage_with_slow_sides_is_one() -> None:
    values = level()
    values[200:214] = [70, 40, *[24.1] * 8, 30, 50, 70, 85]
    found = find_faults(values)
    assert found is not None
    assert found.stretches == 1


@pytest.mark.parametrize(
    "values",
    [
        level(),
        beats(250),  # two of them
        beats(2000),
        np.where(STEPS < 390, level(), 0.0),  # the end: it may stay so
        np.where(STEPS % 4 == 0, 0.0, level()),  # too many to be faults
        np.random.default_rng(0).lognormal(sigma=2.0, size=400),
        np.where(STEPS == 7, 1.0, 0.0),  # the rest has no range
        np.array([0.0, *[100.0, 101.0, 102.0] * 3]),  # too few to say
        np.full(50, np.nan),
    ],
)
def test_what_is_part_of_the_signal_is_none(values: np.ndarray) -> None:
    assert find_faults(values) is None


def test_the_user_is_told_which_column_and_what_to_do() -> None:
    values = level()
    values[100:103] = [-999.0, np.nan, -999.0]
    frame = pd.DataFrame({"flow": values, "other": level(1)}, index=STEPS)
    with pytest.warns(UserWarning, match=r"flow: 2 values .*\(-999; .*in 1 stretch\..* \(NaN\)"):
        DeepLFMForecaster(model="sinusoids + broadband", n_steps=1).fit(frame)
    frame.loc[100:102, "flow"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepLFMForecaster(model="sinusoids + broadband", n_steps=1).fit(frame)


def test_rare_values_of_a_table_are_not_spoken_of() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = np.where(STEPS == 9, 1e4, x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepLFMRegressor(model="nearest-neighbour-gp").fit(x, y)
