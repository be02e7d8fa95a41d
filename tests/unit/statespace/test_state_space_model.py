"""State-space models through the estimators: gaps, updates, files, covariates, calendars."""

import numpy as np
import pandas as pd
import pytest
import torch

from deeplfm import DeepLFMForecaster, DeepLFMRegressor, load
from deeplfm.errors import ConfigError, InputError
from deeplfm.statespace import StateSpaceLFM, fit
from deeplfm.terms import BroadBand, LocalLevel, MeanReversion, Season, Trend


def monthly(n_rows=84, noise=2.0):
    rng = np.random.default_rng(0)
    step = np.arange(n_rows)
    values = 100 + 0.5 * step + 10 * np.sin(step * np.pi / 6) + noise * rng.normal(size=n_rows)
    return pd.DataFrame(
        {"sales": values}, index=pd.date_range("2015-01-01", periods=n_rows, freq="MS")
    )


def test_the_default_of_a_calendar_series_is_two_sums_in_state_space_form():
    frame = monthly()
    model = DeepLFMForecaster(effort="fast").fit(frame.iloc[:72])
    assert [type(member) for member in model.regressor_.model_.members] == [StateSpaceLFM] * 2
    assert set(model.selection_.index) == {"level", "reversion"}
    assert model.selection_["sales_weight"].between(0.02, 0.98).all()
    assert model.selection_["sales_weight"].sum() == pytest.approx(1)
    forecast = model.forecast(12)
    error = (forecast["sales"] - frame["sales"].iloc[72:]).to_numpy()
    assert np.sqrt(np.mean(error**2)) < 4.0  # noise 2; the last value alone is off by 10 and more
    inside = frame["sales"].iloc[72:].between(forecast["sales_low"], forecast["sales_high"])
    assert inside.mean() >= 0.75


def test_forecasts_from_earlier_origins_are_the_scores():
    found = DeepLFMForecaster(effort="fast").fit(monthly(60)).selection_
    assert found["sales_mnll"].between(0, 6).all()
    assert found["sales_mnll"].is_monotonic_increasing  # the best first
    few = DeepLFMForecaster(effort="fast").fit(monthly(12)).selection_
    assert few["sales_mnll"].isna().all()  # no origin


def test_a_season_that_changes_keeps_the_last_rows_of_a_long_series(monkeypatch):
    monkeypatch.setattr("deeplfm.terms.state_space._MOST_TO_EVOLVE", 60)
    frame = monthly(84)
    model = DeepLFMForecaster(effort="fast").fit(frame)
    recent, whole = model.regressor_.model_.members
    assert (len(recent.x), len(whole.x)) == (60, 84)
    weight = model.regressor_.model_.weight_at(whole.x)[:, :, 0]
    assert (weight[0, :24] == 0).all()
    assert (weight[0, 24:] > 0).all()
    model.update(monthly(90).iloc[84:])
    assert (len(recent.x), len(whole.x)) == (66, 90)


def test_update_takes_in_rows_without_a_fit():
    frame = monthly()
    first = DeepLFMForecaster(effort="fast").fit(frame.iloc[:60])
    first.update(frame.iloc[60:])
    assert [len(member.x) for member in first.regressor_.model_.members] == [84, 84]
    forecast = first.forecast(6)
    assert forecast.index[0] == pd.Timestamp("2022-01-01")
    assert (forecast["sales"] - 100 - 0.5 * np.arange(84, 90)).abs().max() < 15


def test_a_saved_model_predicts_the_same_bits(tmp_path):
    frame = monthly()
    frame.iloc[20:23] = np.nan
    model = DeepLFMForecaster(effort="fast").fit(frame)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.forecast(12), model.forecast(12), check_exact=True)
    pd.testing.assert_frame_equal(
        again.impute(), model.impute(), check_exact=True, check_freq=False
    )


def test_outputs_with_different_cycles_have_seasons_of_their_own():
    time = np.arange(240) / 10
    y = np.column_stack([np.sin(2 * np.pi * time / 3.1), np.sin(2 * np.pi * time / 1.3)])
    y += 0.05 * np.random.default_rng(0).normal(size=y.shape)
    model = DeepLFMRegressor(Trend() + Season() + LocalLevel()).fit(time, y)
    (member,) = model.model_.members
    periods = [2 * np.pi / item.seasons[0].frequencies[0] * 23.9 for item in member.config]
    np.testing.assert_allclose(periods, [3.1, 1.3], rtol=0.01)


def test_covariates_have_straight_lines():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.arange(90.0), rng.normal(size=90)])
    y = 3 * x[:, 1] + 0.1 * rng.normal(size=90)
    model = DeepLFMRegressor("trend + level", is_series=True).fit(x, y)
    ahead = np.array([[92.0, 2.0], [92.0, -2.0]])
    assert model.predict(ahead) == pytest.approx([6.0, -6.0], abs=0.5)
    parts = model.components(ahead)["y"]["covariates"]["mean"]
    assert float(parts.iloc[0] - parts.iloc[1]) == pytest.approx(12.0, abs=0.6)


def test_logarithms_are_chosen_by_the_evidence():
    rng = np.random.default_rng(0)
    step = np.arange(96)
    growing = np.exp(4 + 0.03 * step + 0.4 * np.sin(step * np.pi / 6) + 0.05 * rng.normal(size=96))
    index = pd.date_range("2015-01-01", periods=96, freq="MS")
    steady = 100 + 10 * np.sin(step * np.pi / 6) + rng.normal(size=96)
    frame = pd.DataFrame({"growing": growing, "steady": steady}, index=index)
    model = DeepLFMForecaster(effort="fast").fit(frame)
    assert model.regressor_.scaling_.is_log.tolist()[0] is True
    assert (model.forecast(12)["growing_low"] > 0).all()
    plain = DeepLFMForecaster(effort="fast", log_targets=False).fit(frame)
    assert not plain.regressor_.scaling_.is_log.any()


def test_sums_with_other_terms_or_settings_use_features():
    assert (Trend() + Season(12) + LocalLevel()).is_markov
    assert not (Trend() + Season(12) + BroadBand()).is_markov
    assert not (Trend() + LocalLevel(damped=True, n_features=50)).is_markov
    assert not (Trend() + Season(12, bandwidth=1.0)).is_markov
    model = DeepLFMRegressor("trend + level", input_dependent_noise=True, n_steps=2)
    model.fit(np.arange(40.0), np.arange(40.0) % 7)
    assert not isinstance(model.model_.members[0], StateSpaceLFM)
    with pytest.raises(ConfigError, match=r"broadband in its place"):
        DeepLFMRegressor(MeanReversion() + BroadBand()).fit(np.arange(40.0), np.arange(40.0) % 7)


def test_an_effort_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match=r"effort: 'much' is not known. Choose one of fast"):
        DeepLFMForecaster(effort="much").fit(monthly())


def test_very_few_rows_and_constants_are_predicted():
    few = DeepLFMRegressor(effort="fast").fit(np.arange(4.0), np.array([1.0, 2.0, 1.0, 2.0]))
    assert bool(torch.isfinite(few.posterior(np.array([5.0])).std()).all())
    same = DeepLFMRegressor(effort="fast").fit(np.arange(20.0), np.full(20, 7.0))
    assert same.predict(np.array([25.0])) == pytest.approx([7.0], abs=1.0)


@pytest.mark.parametrize("reason", ["time", "interrupt"])
def test_work_that_is_to_end_keeps_the_parameters_so_far(reason, monkeypatch):
    x = np.arange(40.0)
    y = np.random.default_rng(0).normal(size=(40, 6)).cumsum(0)
    y[:, 2] -= y[:, 2].min() - 1  # positive: logarithms are compared, and of this output only
    model = DeepLFMRegressor("trend + level", progress=False, time_limit=0.0)
    if reason == "interrupt":
        model.time_limit = None
        monkeypatch.setattr("deeplfm.training.interruption.stop_reason", lambda: "interrupt")
        monkeypatch.setattr("deeplfm.estimators.by_evidence.stop_reason", lambda: "interrupt")
        monkeypatch.setattr("deeplfm.estimators.fitting.warnings.warn", lambda *_, **__: None)
    n_evaluations = []
    plain = fit.Posterior.__call__
    monkeypatch.setattr(
        fit.Posterior, "__call__", lambda *given: n_evaluations.append(0) or plain(*given)
    )
    mean, std = model.fit(x, y).predict([40.0, 41.0], return_std=True)
    assert len(n_evaluations) < 3 * 6 * 8  # a fit and its curvature take about 25 for each output
    assert np.isfinite(mean).all() and (np.abs(mean - y[-1]) < 6).all() and (std < 30).all()
    assert model.fit_result_.interrupted == (reason == "interrupt")


def test_a_killed_fit_does_not_fit_again_what_is_finished(tmp_path, monkeypatch):
    frame = monthly(48)
    expected = DeepLFMForecaster().fit(frame)
    plain, n_calls = StateSpaceLFM.fit, []

    def killed_at(last):
        def fit_or_die(self, *arguments, **options):
            n_calls.append(0)
            if len(n_calls) == last:
                raise KeyboardInterrupt
            plain(self, *arguments, **options)

        n_calls.clear()
        monkeypatch.setattr(StateSpaceLFM, "fit", fit_or_die)

    killed_at(3)  # two compare the scale, and one of them is a sum already; this is the other sum
    with pytest.raises(KeyboardInterrupt):
        DeepLFMForecaster(checkpoint=tmp_path / "run").fit(frame)
    killed_at(10)
    model = DeepLFMForecaster(checkpoint=tmp_path / "run").fit(frame)
    assert len(n_calls) == 1
    pd.testing.assert_frame_equal(model.forecast(6), expected.forecast(6), check_exact=True)
    assert model.selection_["sales_mnll"].equals(expected.selection_["sales_mnll"])
    with pytest.raises(InputError, match="data differ"):
        DeepLFMForecaster(checkpoint=tmp_path / "run").fit(frame + 1)
    weekly = frame.set_axis(pd.date_range("2015-01-01", periods=48, freq="W"))
    with pytest.raises(InputError, match="is of another run"):
        DeepLFMForecaster(checkpoint=tmp_path / "run").fit(weekly)
