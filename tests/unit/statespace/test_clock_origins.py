"""Width and weight of forecasts of clocks, by those from earlier origins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.statespace import ClocksLFM
from deeplfm.statespace.origins import origins
from deeplfm.terms.warped_chain import build_clocks
from deeplfm.training import Rows

N = 160
PULSE = np.exp(2 * np.cos(2 * np.pi * np.arange(N) / 16)) / 4


def rows(n_rows: int = 120) -> Rows:
    noise = 0.1 * np.random.default_rng(0).normal(size=N)
    x = torch.linspace(0, 1, N, dtype=torch.float64)[:n_rows, None]
    return Rows(x, torch.as_tensor(PULSE + noise)[:n_rows, None], None)


@pytest.fixture(scope="module")
def model() -> ClocksLFM:
    found = build_clocks(rows(), n_clocks=1)
    found.calibrate()
    return found


def test_each_origin_scores_the_rows_after_it(model: ClocksLFM) -> None:
    assert int(model.n_origins[0]) == len(list(origins(120)))
    assert 0.3 < float(model.forecast_scale[0]) < 3.0
    # noise of 0.1 alone has log density 0.88; a constant has about -0.6
    assert 0.2 < float(model.forecast_density[0]) < 1.2


def test_an_origin_has_the_rows_before_it(model: ClocksLFM) -> None:
    early = model._as_of(90)
    assert len(early.x) == 90
    assert len(early.jumps) < len(model.jumps)
    later = rows(120)
    error = early.posterior(later.x[90:]).mean - later.y[90:]
    assert float(error.square().mean()) < 0.3 * float(later.y.var())


def test_only_forecasts_are_widened(model: ClocksLFM) -> None:
    inside, ahead = rows().x[60:70], rows(N).x[125:]
    before = model.posterior(inside).std(), model.posterior(ahead).std()
    mean, scale = model.posterior(ahead).mean, model.forecast_scale.clone()
    model.forecast_scale *= 2
    torch.testing.assert_close(model.posterior(inside).std(), before[0])
    torch.testing.assert_close(model.posterior(ahead).std(), 2 * before[1])
    torch.testing.assert_close(model.posterior(ahead).mean, mean)
    model.forecast_scale.copy_(scale)


def test_the_default_of_numbers_weighs_clocks_and_sinusoids_by_their_origins() -> None:
    time, y = np.arange(120.0), rows().y.numpy()
    model = DeepLFMRegressor(is_series=True, progress=False).fit(time, y)
    assert set(model.selection_.index) == {"clocks", "sinusoids", "level", "reversion"}
    assert model.selection_.filter(like="_weight").to_numpy().sum() == pytest.approx(1.0)
    error = model.predict(np.arange(120.0, N)).ravel() - PULSE[120:]
    assert np.mean(error**2) < 0.1 * PULSE.var()


def test_rows_without_a_cycle_have_no_clock() -> None:
    y = np.random.default_rng(2).normal(size=30)
    model = DeepLFMRegressor(is_series=True, progress=False).fit(np.arange(30.0), y)
    left_out = model.selection_["left_out"]
    assert "cycle" in left_out.get("clocks", "cycle")
    assert np.isfinite(model.predict(np.arange(30.0, 35.0))).all()


def test_clocks_that_rows_do_not_suit_are_left_out_wherever_they_stand() -> None:
    y = 5 + 0.1 * np.arange(14) + 0.01 * np.random.default_rng(3).normal(size=14)
    candidates = {"line": "trend", "clock": "warped"}
    model = DeepLFMRegressor(candidates, progress=False).fit(np.arange(14.0), y)
    assert model.model_.members[0].components == ["trend"]
    assert "cycle" in model.selection_.loc["clock", "left_out"]
