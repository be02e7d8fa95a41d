"""The start that hears itself: what it needs, what it finds, and what an estimator does with it."""

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.autoregression_candidates import (
    autoregression_candidate,
    check_series,
    linear_autoregression_candidate,
)
from deeplfm.ensemble.autoregression_steps import nonlinear_priors
from deeplfm.errors import ConfigError, InputError, UnsuitableError
from deeplfm.estimators.candidates import candidates_of
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.select import select
from deeplfm.terms import BuildContext, parse
from deeplfm.training import Rows


def plain() -> Candidate:
    """A function of time."""
    return candidates_of({"sinusoids": parse("sinusoids + broadband")}, BuildContext(), 2)[0]


def logistic(n_rows: int) -> np.ndarray:
    """A chaotic map of its own last value."""
    values = [0.3]
    while len(values) < n_rows:
        values.append(3.8 * values[-1] * (1 - values[-1]))
    return np.array(values)


@pytest.fixture(scope="module")
def fitted() -> DeepLFMRegressor:
    time, values = np.arange(120.0), logistic(120)
    return DeepLFMRegressor(model="autoregression", random_state=0, progress=False).fit(
        time, values
    )


def test_a_chaotic_map_is_forecast_for_a_while_and_then_with_its_own_spread(fitted) -> None:
    truth, time = logistic(220), np.arange(220.0)
    mean, std = fitted.predict(time, return_std=True)
    assert np.abs(mean - truth)[:124].max() < 0.05
    assert std[:122].max() < 0.05
    assert std[170:].min() > 0.5 * truth.std()
    low, high = fitted.predict_interval(time[170:], coverage=0.9)
    assert np.mean((low <= truth[170:]) & (truth[170:] <= high)) > 0.8


def test_the_same_seed_gives_the_same_bits(fitted) -> None:
    again = DeepLFMRegressor(model="autoregression", random_state=0, progress=False)
    again.fit(np.arange(120.0), logistic(120))
    x = np.arange(100.0, 140.0, 0.5)
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))


def test_a_saved_model_predicts_and_draws_the_same_numbers(fitted, tmp_path) -> None:
    fitted.save(tmp_path / "model")
    loaded = DeepLFMRegressor.load(tmp_path / "model")
    x = np.arange(-2.0, 150.0, 0.5)
    for one, other in zip(
        fitted.predict(x, return_std=True), loaded.predict(x, return_std=True), strict=True
    ):
        np.testing.assert_allclose(other, one, rtol=1e-12)
    np.testing.assert_allclose(loaded.sample_y(x, 3), fitted.sample_y(x, 3), rtol=1e-12)


def test_an_update_moves_the_forecast_to_the_new_end(tmp_path) -> None:
    truth, time = logistic(150), np.arange(150.0)
    model = DeepLFMRegressor(model="autoregression", random_state=0, progress=False)
    model.fit(time[:120], truth[:120])
    late = np.abs(model.predict(time[140:143]) - truth[140:143]).max()
    model.update(time[120:140], truth[120:140])
    assert np.abs(model.predict(time[140:143]) - truth[140:143]).max() < min(0.05, late)
    model.save(tmp_path / "model")
    loaded = DeepLFMRegressor.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(time), model.predict(time), rtol=1e-12)


def test_what_is_a_function_of_time_is_not_looked_for_in_it(fitted) -> None:
    assert fitted.hidden_layers(np.arange(5.0)) == []
    assert fitted.spectrum() == []
    assert fitted.filters() == []
    with pytest.raises(ConfigError, match="forces"):
        fitted.forces(np.arange(5.0))


def rows_of(time: np.ndarray, values: np.ndarray) -> Rows:
    x = torch.as_tensor(time, dtype=torch.float64).reshape(len(values), -1)
    return Rows(x, torch.as_tensor(values, dtype=torch.float64).reshape(len(values), -1))


def uneven() -> Rows:
    return rows_of(np.sort(np.random.default_rng(0).uniform(size=100)), logistic(100))


def with_covariate() -> Rows:
    return rows_of(np.random.default_rng(0).uniform(size=(100, 2)), logistic(100))


def with_missing(*which: int) -> Rows:
    values = logistic(100)
    values[list(which)] = np.nan
    return rows_of(np.arange(100.0), values)


def with_rows_left_out(*which: int) -> Rows:
    return rows_of(np.delete(np.arange(100.0 + len(which)), which), logistic(100))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (uneven(), "even steps"),
        (rows_of(np.arange(100.0) // 3, logistic(100)), "even steps"),
        (rows_of(np.append(np.arange(99.0), 1e9), logistic(100)), "even steps|missing"),
        (with_covariate(), "covariates"),
        (with_missing(*range(30, 52)), "22% are missing"),
        (
            rows_of(np.arange(100.0), np.array([logistic(100), np.full(100, np.nan)]).T),
            "every output",
        ),
        (with_rows_left_out(*range(30, 58)), "22% are missing"),
        (rows_of(np.arange(30.0), logistic(30)), "60 rows"),
        (rows_of(np.arange(70.0), np.tile(logistic(70)[:, None], 101)), "100 outputs"),
    ],
)
def test_rows_that_it_is_not_made_for_are_named(rows: Rows, reason: str) -> None:
    with pytest.raises(UnsuitableError, match=reason):
        check_series(rows)


@pytest.mark.parametrize(
    "rows",
    [with_missing(20, 50, 51, 99), with_rows_left_out(50, 51, 52), with_rows_left_out(7, 60)],
)
def test_a_few_short_gaps_are_filled(rows: Rows) -> None:
    check_series(rows)
    model = autoregression_candidate(BuildContext()).build(rows, 0)
    step = torch.as_tensor(model.place(rows.x)).round().long()
    assert len(model.series) == int(step[-1]) + 1
    assert model.series.isfinite().all()
    is_known = ~rows.y.isnan()
    torch.testing.assert_close(model.series[step][is_known], rows.y[is_known], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("candidate", "missing"),
    [
        (autoregression_candidate, range(95, 100)),
        (linear_autoregression_candidate, range(95, 100)),
        (linear_autoregression_candidate, [row for row in range(100) if row % 22 > 17]),
    ],
    ids=["last rows", "last rows of many", "no long run"],
)
def test_gaps_that_leave_too_little_are_named(candidate, missing) -> None:
    with pytest.raises(UnsuitableError, match="gaps leave too few"):
        candidate(BuildContext()).build(with_missing(*missing), 0)


def test_an_outage_is_neither_learned_from_nor_in_the_way() -> None:
    values, time = logistic(160), np.arange(160.0)
    gap = slice(40, 60)
    values[gap] = np.nan
    rows = rows_of(time[:150], values[:150])
    model = autoregression_candidate(BuildContext()).build(rows, 0)
    model.set_train_data(rows.x, rows.y)
    model.solve(*model.statistics(rows.x, rows.y))
    assert model.n_lags == 1
    assert (model.variance[gap] > 0).all() and int((model.variance > 0).sum()) == 20
    sure = torch.ones(151, dtype=torch.bool)
    sure[0], sure[41:61] = False, False  # nothing is before the first, a guess before those
    torch.testing.assert_close(model.has_known_lags, sure)
    ahead = model.posterior(torch.arange(150.0, 153.0, dtype=torch.float64)[:, None])
    assert np.abs(ahead.mean[:, 0].numpy() - values[150:153]).max() < 0.02


def test_steps_of_a_month_are_even_enough() -> None:
    month = np.arange("2015-01", "2025-01", dtype="datetime64[M]").astype("datetime64[D]")
    check_series(rows_of(month.astype(float), logistic(120)))


def test_a_selection_goes_on_without_an_unsuitable_candidate() -> None:
    candidates = [
        autoregression_candidate(BuildContext()),
        plain(),
    ]
    _, selection = select(candidates, uneven(), is_series=True)
    assert selection.names == ["sinusoids"]
    assert not selection.failed
    assert "even steps" in selection.unsuitable["autoregression"]
    with pytest.raises(InputError, match="even steps"):
        select(candidates[:1], uneven(), is_series=True)


def test_beside_functions_of_time_it_wins_where_they_know_nothing() -> None:
    time, values = np.arange(160.0), logistic(160)
    candidates = [
        plain(),
        autoregression_candidate(BuildContext()),
    ]
    average, selection = select(candidates, rows_of(time / 160, values - 0.6), is_series=True)
    assert selection.weight["autoregression"][0] > 0.8
    assert isinstance(average.members[selection.names.index("autoregression")], Autoregression)
    assert set(selection.names) == {"sinusoids", "autoregression"}  # one to be looked into


def test_forces_and_spectra_of_an_ensemble_are_those_of_a_function_of_time(tmp_path) -> None:
    time = np.arange(100.0)
    model = DeepLFMRegressor("ensemble", n_steps=2, random_state=0, progress=False)
    model.fit(time, logistic(100))
    assert "autoregression" in model.fit_result_.names
    in_time = set(model.fit_result_.names) - {"autoregression", "linear autoregression"}
    assert {curve.member for curve in model.forces(time)} & in_time
    assert {found.member for found in model.spectrum()} <= in_time
    assert model.sample_y(np.arange(90.0, 110.0), 4).shape == (20, 4)
    model.save(tmp_path / "model")
    loaded = DeepLFMRegressor.load(tmp_path / "model")
    x = np.arange(80.0, 120.0)
    np.testing.assert_allclose(loaded.predict(x), model.predict(x), rtol=1e-12)
    assert loaded.fit_result_ == model.fit_result_
    assert "nearest-neighbour GP" in loaded.fit_result_.unsuitable  # there is no gap


def test_the_evidence_finds_the_noise_of_a_step() -> None:
    """True noise variance 0.01; the grid is coarse, so half a decade either way is right."""
    generator = torch.Generator().manual_seed(0)
    lags = torch.randn(300, 2, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(300, 1, generator=generator, dtype=torch.float64)
    (prior,) = nonlinear_priors(lags, torch.sin(lags[:, :1]) * lags[:, 1:] + noise)
    assert 0.003 < prior.noise_variance < 0.03
    assert prior.scale > 0.1
