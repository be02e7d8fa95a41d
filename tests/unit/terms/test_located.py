"""Frequencies of a state-space model that are found in the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.statespace import SeasonConfig, StateSpaceConfig, StateSpaceLFM
from deeplfm.statespace.solved import Known
from deeplfm.terms import MeanReversion, Sinusoids, Trend
from deeplfm.terms.located import located

TIME = np.arange(200.0)
FAST, SLOW = 2 * np.pi / 7.3, 2 * np.pi / 23.0
SUM = Trend() + Sinusoids(6) + MeanReversion()


def known(values: np.ndarray, n_rows: int = 200) -> Known:
    ones = np.ones(n_rows)
    return Known(TIME[:n_rows, None], values[:n_rows], ones, 0 * ones)


def config(season: SeasonConfig) -> StateSpaceConfig:
    return StateSpaceConfig(1, 0.0, 1.0, 199.0, seasons=(season,))


def test_sinusoids_have_a_state_space_form_that_continues_them() -> None:
    assert SUM.is_markov
    assert not (Trend() + Sinusoids(jitter=0.001)).is_markov
    noise = 0.1 * np.random.default_rng(0).normal(size=200)
    y = np.sin(FAST * TIME) + 0.7 * np.cos(SLOW * TIME) + noise
    model = DeepLFMRegressor(SUM, is_series=True, progress=False).fit(TIME[:160, None], y[:160])
    (member,) = model.model_.members
    assert isinstance(member, StateSpaceLFM)
    (season,) = member.config[0].seasons
    unit = float(model.scaling_.x_scale[0])
    assert np.array(season.frequencies[:2]) / unit == pytest.approx([FAST, SLOW], rel=0.01)
    error = model.predict(TIME[160:, None]) - y[160:]
    assert np.sqrt(np.mean(error**2)) < 0.2  # the noise is 0.1, and the mean is off by 0.9


def test_noise_has_no_sinusoids() -> None:
    noise = np.random.default_rng(1).normal(size=200)
    model = DeepLFMRegressor(SUM, is_series=True, progress=False).fit(TIME[:, None], noise)
    assert model.model_.members[0].config[0].seasons == ()


def test_an_origin_does_not_know_the_sinusoids_of_later_rows() -> None:
    values = np.sin(FAST * TIME) + np.where(TIME < 100, 0.0, np.sin(SLOW * TIME))
    values = values + 0.1 * np.random.default_rng(0).normal(size=200)
    every = SeasonConfig("sinusoids", (FAST, SLOW), (1, 1))
    (before,) = located(config(every), known(values, 100), is_found=False).seasons
    assert before.frequencies == pytest.approx([FAST], rel=0.01)


def test_a_found_season_moves_to_the_frequency_of_the_rows_and_a_given_one_stays() -> None:
    values = np.sin(1.01 * FAST * TIME)
    season = SeasonConfig("season", (FAST, 2 * FAST), (1, 2))
    (moved,) = located(config(season), known(values), is_found=True).seasons
    assert moved.frequencies == pytest.approx([1.01 * FAST, 2.02 * FAST], rel=1e-3)
    assert located(config(season), known(values), is_found=False).seasons == (season,)


def test_origins_without_rows_keep_the_season() -> None:
    season = SeasonConfig("season", (FAST,), (1,))
    assert located(config(season), known(np.zeros(200), 2), is_found=True).seasons == (season,)
    assert torch.isfinite(torch.tensor(season.frequencies)).all()
