"""Forecasts step by step: what they say of series whose continuation is known."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

from deeplfm.baselines.lags import LastPeriod, RidgeOnLags
from deeplfm.errors import InputError
from deeplfm.predictive.mixture import nmse

DATA = os.environ.get("DEEPLFM_DATA")
T = np.arange(200.0)
WAVE = 3 + np.sin(2 * np.pi * T / 20)
NEW = np.arange(200.0, 260.0)


@pytest.mark.skipif(not DATA, reason="DEEPLFM_DATA is not set")
@pytest.mark.parametrize(
    ("model", "bar"),
    [(RidgeOnLags(), [0.0065, 0.07, 0.0025]), (LastPeriod(), [0.0105, 0.0625, 0.0032])],
)
def test_physiology_bar(model, bar):
    """NMSE of the last 300 of 1000 rows; the bar that a model of these series has to beat."""
    path = Path(DATA) / "mimic_037_50hz_5000.csv"
    rows = np.loadtxt(path, delimiter=",", skiprows=1, max_rows=1000)
    model.fit(rows[:700, 0], rows[:700, 1:])
    mean = model.posterior(rows[700:, 0]).mean
    assert (nmse(mean, torch.as_tensor(rows[700:, 1:])) <= torch.tensor(bar)).all()


def test_ridge_continues_a_wave_of_unknown_period():
    model = RidgeOnLags(n_lags=10).fit(T, WAVE)
    np.testing.assert_allclose(model.predict(NEW), 3 + np.sin(2 * np.pi * NEW / 20), atol=0.01)


def test_ridge_recovers_an_autoregression_and_its_growing_errors():
    """y_t = 0.8 y_{t−1} + e: the variance of an error at horizon h is Σ_{i<h} 0.64^i."""
    rng = np.random.default_rng(0)
    y = np.zeros(1500)
    for t in range(1, len(y)):
        y[t] = 0.8 * y[t - 1] + rng.normal()
    model = RidgeOnLags(n_lags=1).fit(np.arange(1500.0), y)
    mean, std = model.predict(np.array([1500.0, 1502.0]), return_std=True)
    np.testing.assert_allclose(
        mean - y.mean(), (y[-1] - y.mean()) * 0.8 ** np.array([1, 3]), atol=0.1
    )
    np.testing.assert_allclose(std, np.sqrt([1, 1 + 0.64 + 0.64**2]), rtol=0.15)


def test_lags_of_other_outputs_are_used_where_they_help():
    """The second output is the first, three steps late, and both are noise to themselves."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=400)
    second = np.roll(first, 3)
    model = RidgeOnLags(n_lags=5).fit(np.arange(400.0), np.column_stack([first, second]))
    assert [uses_all for uses_all, _ in model.choice_][1]
    np.testing.assert_allclose(model.predict(np.arange(400.0, 403.0))[:, 1], first[397:], atol=0.1)


def test_last_period_repeats_each_output_at_its_own_period():
    rng = np.random.default_rng(0)
    cycles = [rng.normal(size=size) for size in (7, 12)]
    y = np.column_stack([np.resize(cycle, 60) for cycle in cycles])
    model = LastPeriod().fit(T[:60], y)
    assert model.period_[0] % 7 == 0 and model.period_[1] % 12 == 0
    np.testing.assert_allclose(
        model.predict(T[60:90]),
        np.column_stack(
            [np.resize(np.roll(c, -60 % len(c) and -(60 % len(c))), 30) for c in cycles]
        ),
    )


def test_last_value_is_repeated_where_nothing_oscillates():
    model = LastPeriod().fit(T, T)
    assert model.period_.tolist() == [1]
    np.testing.assert_allclose(model.predict(NEW), 199)


@pytest.mark.parametrize("model", [RidgeOnLags(n_lags=25), LastPeriod()])
def test_gaps_are_filled_from_what_came_before(model):
    holed = WAVE.copy()
    holed[100:130] = np.nan
    mean, std = model.fit(T, holed).predict(T, return_std=True)
    np.testing.assert_allclose(mean[100:130], WAVE[100:130], atol=0.02)
    assert std[99] <= std[129]
    np.testing.assert_allclose(model.predict(NEW), 3 + np.sin(2 * np.pi * NEW / 20), atol=0.02)


@pytest.mark.parametrize("model", [RidgeOnLags(n_lags=25), LastPeriod()])
def test_rows_left_out_are_rows_without_targets(model):
    """The toy of the paper leaves out the rows of its gap."""
    gap = np.r_[60, 100:130, 150:152]
    holed = WAVE.copy()
    holed[gap] = np.nan
    everywhere = np.r_[T, NEW]
    given = clone(model).fit(T, holed).posterior(everywhere)
    left_out = clone(model).fit(np.delete(T, gap), np.delete(WAVE, gap)).posterior(everywhere)
    torch.testing.assert_close(left_out.mean, given.mean)
    torch.testing.assert_close(left_out.std(), given.std())


def test_a_seed_changes_nothing():
    assert not RidgeOnLags.is_random and not LastPeriod.is_random
    for model in (RidgeOnLags(n_lags=10), LastPeriod()):
        one, two = (clone(model).set_params(random_state=seed).fit(T, WAVE) for seed in (0, 1))
        np.testing.assert_array_equal(one.predict(NEW), two.predict(NEW))


def test_order_of_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(len(T))
    shuffled = RidgeOnLags(n_lags=10).fit(T[order], WAVE[order]).predict(NEW)
    np.testing.assert_array_equal(shuffled, RidgeOnLags(n_lags=10).fit(T, WAVE).predict(NEW))


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (np.append(T, 200.5), "1 of 200 steps are not whole multiples .* after row 199.*a grid"),
        (np.sqrt(T), "steps are not whole multiples"),
        (np.repeat(T[:100], 2), "steps are not whole multiples"),
        (np.append(T, 1e6), "201 rows on a grid of 1000001, .* 10 times"),
        (T[:5], "5 rows, but"),
    ],
)
def test_irregular_steps_are_refused(time, message):
    with pytest.raises(InputError, match=message):
        RidgeOnLags().fit(time, np.sin(time))


def test_times_off_the_grid_are_refused():
    model = LastPeriod().fit(T, WAVE)
    for time in (200.5, -1.0):
        with pytest.raises(InputError, match=r"X: row 0 is .* steps after the first"):
            model.predict(np.array([time]))


def test_too_many_lags_for_the_gaps_are_refused():
    holed = WAVE.copy()
    holed[::10] = np.nan
    with pytest.raises(InputError, match=r"column 0 has no 31 known values in a row.*n_lags lower"):
        RidgeOnLags(n_lags=30).fit(T, holed)


def test_an_explosive_recursion_is_held_back():
    grows = 1.1 ** np.arange(60.0)
    far = RidgeOnLags(n_lags=2).fit(T[:60], grows).predict(np.array([1000.0]))
    assert np.isfinite(far).all()
