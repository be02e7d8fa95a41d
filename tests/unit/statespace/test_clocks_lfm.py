"""Cycles on clocks through the estimator: gaps, skips, several outputs, files, updates."""

import copy

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMForecaster, DeepLFMRegressor, load
from deeplfm.errors import ConfigError, InputError
from deeplfm.statespace import ClocksConfig, ClocksLFM
from deeplfm.terms import LocalLevel, Season, WarpedTime
from deeplfm.terms.warped_chain import build_clocks, orders_of
from deeplfm.training import Rows

N, TRAIN, PERIOD = 400, 340, 20.0


def record(skip: bool = False, seed: int = 0, sharp: float = 2.0) -> np.ndarray:
    """A pulse whose rate varies by 2 % and lasts for five cycles."""
    rng = np.random.default_rng(seed)
    kept, rate, phase = np.exp(-1 / (5 * PERIOD)), 0.0, np.zeros(N)
    for n in range(1, N):
        rate = kept * rate + 0.02 * np.sqrt(1 - kept**2) * rng.normal()
        phase[n] = (
            phase[n - 1] + 2 * np.pi / PERIOD * (1 + rate) + (2.5 if skip and n == 200 else 0)
        )
    pulse = np.exp(sharp * np.cos(phase)) / sharp
    return pulse + 0.1 * rng.normal(size=N)


@pytest.fixture(scope="module")
def two() -> DeepLFMRegressor:
    """A pulse with a gap, and the same cycle in another shape; fitted by the text of the term."""
    first, second = record(), record(sharp=1.0) * 2 + 1
    values = np.stack([first, second], axis=1)[:TRAIN]
    values[150:175, 0] = np.nan
    return DeepLFMRegressor("warped", progress=False).fit(np.arange(TRAIN), values)


def member(model: DeepLFMRegressor) -> ClocksLFM:
    found = model.model_.members[0]
    assert isinstance(found, ClocksLFM)
    return found


def test_a_gap_and_what_follows_are_predicted(two: DeepLFMRegressor) -> None:
    truth = record()
    gap, ahead = np.arange(150, 175), np.arange(TRAIN, TRAIN + 20)
    assert np.mean((two.predict(gap)[:, 0] - truth[gap]) ** 2) < 0.1 * truth.var()
    assert np.mean((two.predict(ahead)[:, 0] - truth[ahead]) ** 2) < 0.2 * truth.var()


def test_outputs_of_one_cycle_share_a_clock(two: DeepLFMRegressor) -> None:
    assert len(member(two).config.clocks) == 1
    assert two.hidden_share(np.arange(TRAIN, N))["y1"] > 0.9


def test_uncertainty_grows_with_that_of_the_phase(two: DeepLFMRegressor) -> None:
    std = two.posterior(np.arange(TRAIN, TRAIN + 200)).std().numpy()[:, 0]
    assert std[180:].mean() > 1.5 * std[:20].mean()


def test_components_add_up(two: DeepLFMRegressor) -> None:
    model, x = member(two), torch.linspace(-1.5, 2, 50, dtype=torch.float64)[:, None]
    parts = [model.component_moments(x, name)[0] for name in model.components]
    drawn = model.draw(x, 256, 0)
    carried = model._noise_at(x)[0]
    torch.testing.assert_close(sum(parts) + carried, drawn.mean(0))
    assert model.components == ["warped season", "level"]


def test_a_file_gives_the_same_predictions(two: DeepLFMRegressor, tmp_path) -> None:
    two.save(tmp_path / "model")
    at = np.arange(TRAIN - 20, TRAIN + 20)
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.predict(at), two.predict(at), atol=1e-10)
    config = member(two).config
    assert ClocksConfig.from_dict(config.to_dict()).to_dict() == config.to_dict()


def test_new_rows_are_taken_in() -> None:
    truth = record(seed=3)
    model = DeepLFMRegressor(WarpedTime(Season()) + LocalLevel(damped=True), progress=False)
    model.fit(np.arange(280), truth[:280])
    ahead = np.arange(TRAIN, TRAIN + 20)
    before = np.mean((model.predict(ahead) - truth[ahead]) ** 2)
    model.update(np.arange(280, TRAIN), truth[280:TRAIN])
    assert len(member(model).x) == TRAIN
    after = np.mean((model.predict(ahead) - truth[ahead]) ** 2)
    assert after < min(before, 0.2 * truth.var())


def test_a_skip_is_survived_and_may_happen_again() -> None:
    truth = record(skip=True)
    rows = Rows(torch.arange(TRAIN)[:, None] / TRAIN, torch.as_tensor(truth[:TRAIN, None]))
    model = build_clocks(rows, 1)
    assert model._hazard()[0] > 0
    (shape,) = model.config.shapes
    assert shape.noise < 0.02  # 0.01 is that of the record
    ahead = torch.arange(TRAIN, TRAIN + 20)[:, None] / TRAIN
    mean = model.posterior(ahead).mean[:, 0].numpy()
    assert np.mean((mean - truth[TRAIN : TRAIN + 20]) ** 2) < 0.25 * truth.var()


def test_a_forecaster_fits_it() -> None:
    import pandas as pd

    frame = pd.DataFrame({"pulse": record()[:TRAIN]})
    model = DeepLFMForecaster(WarpedTime(Season()), progress=False).fit(frame)
    forecast = model.forecast(10)
    assert forecast.shape == (10, 4)
    assert bool((forecast["pulse_high"] > forecast["pulse_low"]).all())


def test_orders_are_below_the_nyquist_frequency_and_distinct() -> None:
    orders = orders_of(0, np.array([10.0, 1.5]), 50.0)
    angular = np.abs(orders @ np.array([10.0, 1.5]))
    assert angular.max() < 45 and angular.min() > 0
    assert len(np.unique(orders, axis=0)) == len(orders)
    assert [1, 1] in orders.tolist() and [1, -1] in orders.tolist()


def test_rows_before_the_first_knot_are_left_out(two: DeepLFMRegressor) -> None:
    model = copy.deepcopy(member(two))
    early = torch.tensor([[-5.0], [-4.0]], dtype=torch.float64)
    x, y = torch.cat([early, model.x]), torch.cat([torch.ones(2, 2).double(), model.y])
    mean = model.posterior(model.x).mean
    model.set_train_data(x, y)
    assert len(model.x) == len(x) - 2
    torch.testing.assert_close(model.posterior(model.x).mean, mean)


def test_times_too_far_to_follow_are_refused(two: DeepLFMRegressor) -> None:
    """Memory grew with the distance: ten million cycles took all of it."""
    for use in (two.predict, lambda x: copy.deepcopy(two).update(x, [[1.0, 1.0]])):
        with pytest.raises(InputError, match=r"clocks: a time is .* quarters of a cycle after"):
            use(np.array([1e9]))


def test_rows_with_a_gap_of_thousands_of_cycles_have_no_clock() -> None:
    """They took memory for every knot of the gap: 21 GB, where it was four months of heartbeats."""
    times = np.r_[0.0:150.0, 1e8 : 1e8 + 150]
    values = np.sin(2 * np.pi * times / PERIOD)
    models = {"clocks": "warped(season) + level", "level": "trend + level"}
    model = DeepLFMRegressor(models, progress=False).fit(times, values)
    assert model.selection_["left_out"]["clocks"].startswith("a cycle that repeats")


def test_sums_over_rows_are_refused(two: DeepLFMRegressor) -> None:
    with pytest.raises(ConfigError, match="keeps its rows"):
        member(two).solve(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1))
