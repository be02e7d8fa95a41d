"""Forecasts, filled gaps and scores are right in the user's units, by the user's clock."""

import doctest
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from deeplfm import ConfigError, InputError
from deeplfm.estimators import DeepLFMForecaster
from deeplfm.estimators import forecaster as module
from deeplfm.terms import Season, Trend

BERLIN = "Europe/Berlin"
HOURS = pd.date_range("2024-03-30", periods=120, freq="h", tz=BERLIN, name="when")


def quick(**options: Any) -> DeepLFMForecaster:
    return DeepLFMForecaster(
        **{"model": "sinusoids + broadband", "n_steps": 5, "random_state": 0} | options
    )


def truth(hours: pd.DatetimeIndex) -> pd.DataFrame:
    """Two waves that pass 12 and 8 hours, whatever the clock on the wall shows."""
    passed = (hours - HOURS[0]) / pd.Timedelta(hours=1)
    return pd.DataFrame(
        {
            "load": 500 + 40 * np.sin(2 * np.pi * passed / 12),
            "flow": 1e-3 * np.cos(2 * np.pi * passed / 8),
        },
        index=hours,
    )


@pytest.fixture(scope="module")
def gappy() -> pd.DataFrame:
    """A user's frame: times in a column, rows mixed, an index of its own, gaps and a text column."""
    frame = truth(HOURS)
    frame.iloc[40:46, 0] = np.nan
    frame.iloc[70:74, 1] = np.nan
    frame = frame.reset_index()
    frame.insert(1, "site", ["north", "south"] * 60)
    frame.index = pd.Index([f"row {i}" for i in range(120)], name="row")
    return frame.sample(frac=1, random_state=3)


@pytest.fixture(scope="module")
def fitted(gappy: pd.DataFrame) -> DeepLFMForecaster:
    return quick().fit(gappy, time="when")


@pytest.fixture(scope="module")
def driven() -> DeepLFMForecaster:
    """Fitted with a covariate."""
    time = np.arange(80) * 0.1
    heating = np.where(time % 2 < 1, 1.0, -1.0)
    frame = pd.DataFrame({"t": time, "heat": heating, "y": np.sin(3 * time) + heating})
    return quick().fit(frame, "t", "y", "heat")


def test_examples_run() -> None:
    assert doctest.testmod(module).failed == 0


def test_what_was_learned_from_is_kept_in_order(fitted: DeepLFMForecaster) -> None:
    assert fitted.targets_ == ["load", "flow"]
    assert fitted.covariates_ == []
    assert fitted.training_.index.equals(HOURS)
    assert fitted.training_.index.name == "when"
    pd.testing.assert_series_equal(
        fitted.training_["load"].dropna(), truth(HOURS)["load"].drop(HOURS[40:46])
    )


def test_a_wave_goes_on_across_the_change_of_clocks(fitted: DeepLFMForecaster) -> None:
    forecast = fitted.forecast(horizon=36)
    expected = pd.date_range(HOURS[-1], periods=37, freq="h")[1:]
    assert forecast.index.equals(expected)
    assert forecast.index.name == "when"
    assert list(forecast.columns) == [
        *("load", "load_std", "load_low", "load_high"),
        *("flow", "flow_std", "flow_low", "flow_high"),
    ]
    later = truth(expected)
    assert forecast["load"].to_numpy() == pytest.approx(later["load"].to_numpy(), abs=4)
    assert forecast["flow"].to_numpy() == pytest.approx(later["flow"].to_numpy(), abs=1e-4)
    assert (forecast["load_low"] < forecast["load"]).all()
    assert (forecast["load"] < forecast["load_high"]).all()


def test_horizon_until_and_times_agree(fitted: DeepLFMForecaster) -> None:
    by_horizon = fitted.forecast(horizon=5)
    end = by_horizon.index[-1]
    for same in (
        fitted.forecast(until=end),
        fitted.forecast(until=end.tz_localize(None).isoformat()),
        fitted.forecast(times=by_horizon.index),
        fitted.forecast(times=by_horizon.index.tz_convert("UTC").map(str)),
    ):
        pd.testing.assert_frame_equal(same, by_horizon, check_freq=False)
    assert len(fitted.forecast()) == 12  # a tenth of the rows
    with pytest.raises(InputError, match=r"horizon and until found\. Give only one"):
        fitted.forecast(5, end)
    with pytest.raises(InputError, match="horizon: 0 found"):
        fitted.forecast(0)
    with pytest.raises(InputError, match=r"numbers found .*fitted on timestamps"):
        fitted.forecast(times=[3.5])


def test_forecasts_are_what_the_posterior_says(fitted: DeepLFMForecaster) -> None:
    times = [HOURS[3], HOURS[50], HOURS[-1] + pd.Timedelta(days=1)]
    forecast, posterior = fitted.forecast(times=times, coverage=0.5), fitted.posterior(times)
    low, high = posterior.interval(0.5)
    for output, name in enumerate(fitted.targets_):
        assert forecast[name].tolist() == posterior.mean[:, output].tolist()
        assert forecast[f"{name}_std"].tolist() == posterior.std()[:, output].tolist()
        assert forecast[f"{name}_low"].tolist() == low[:, output].tolist()
        assert forecast[f"{name}_high"].tolist() == high[:, output].tolist()


def test_gaps_are_filled_near_the_truth_and_all_else_is_as_it_was(
    fitted: DeepLFMForecaster, gappy: pd.DataFrame
) -> None:
    filled = fitted.impute()
    assert not filled.isna().any(axis=None)
    expected = truth(pd.DatetimeIndex(filled["when"]))
    assert filled["load"].to_numpy() == pytest.approx(expected["load"].to_numpy(), abs=4)
    assert filled["flow"].to_numpy() == pytest.approx(expected["flow"].to_numpy(), abs=1e-4)
    was_known = gappy["load"].notna()
    assert filled["load"][was_known].equals(gappy["load"][was_known])
    pd.testing.assert_frame_equal(filled[["when", "site"]], gappy[["when", "site"]])
    assert list(filled.columns) == list(gappy.columns)


def test_intervals_of_filled_gaps_hold_the_truth(
    fitted: DeepLFMForecaster, gappy: pd.DataFrame
) -> None:
    filled = fitted.impute(intervals=True)
    in_gap = gappy["load"].isna()
    assert filled["load_std"].notna().equals(in_gap)
    gap = filled[in_gap]
    expected = truth(pd.DatetimeIndex(gap["when"]))["load"].to_numpy()
    assert ((gap["load_low"] - 1 < expected) & (expected < gap["load_high"] + 1)).all()


def test_other_frames_are_filled_too(fitted: DeepLFMForecaster) -> None:
    frame = truth(HOURS[:3])
    frame.iloc[1, 1] = np.nan
    filled = fitted.impute(frame)
    assert filled["flow"].to_numpy() == pytest.approx(truth(HOURS[:3])["flow"].to_numpy(), abs=1e-4)
    whole = truth(HOURS[:3])
    pd.testing.assert_frame_equal(fitted.impute(whole), whole)


def test_scores_of_unseen_rows(fitted: DeepLFMForecaster) -> None:
    later = truth(pd.date_range(HOURS[-1], periods=25, freq="h")[1:])
    later.iloc[:4, 1] = np.nan
    scores = fitted.evaluate(later)
    assert list(scores.index) == ["load", "flow"]
    assert list(scores.columns) == ["rows", "nmse", "mnll", "crps", "rmse", "mae", "coverage95"]
    assert scores["rows"].tolist() == [24, 20]
    error = fitted.forecast(times=later.index)["load"] - later["load"]
    assert scores.loc["load", "rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert scores.loc["load", "mae"] == pytest.approx(error.abs().mean())
    assert scores.loc["load", "nmse"] == pytest.approx(
        (error**2).mean() / later["load"].var(ddof=0)
    )
    density = fitted.posterior(later.index).log_prob(later.to_numpy(copy=True))[:, 0]
    assert scores.loc["load", "mnll"] == pytest.approx(-density.mean().item())
    assert scores["coverage95"].between(0, 1).all()


def test_seen_values_are_not_scored_but_those_of_gaps_are(fitted: DeepLFMForecaster) -> None:
    with pytest.warns(UserWarning, match="later: 230 of 240 values were known in training"):
        scores = fitted.evaluate(truth(HOURS))
    assert scores["rows"].tolist() == [6, 4]
    with pytest.raises(InputError, match="later: none of its 6 known values is new"):
        fitted.evaluate(truth(HOURS[:3]))


def test_frames_must_have_the_columns_of_training(fitted: DeepLFMForecaster) -> None:
    later = truth(HOURS[-1:] + pd.Timedelta(days=1))
    with pytest.raises(InputError, match="frame: there is no column 'flow'"):
        fitted.evaluate(later.drop(columns="flow"))
    with pytest.raises(InputError, match="time: there is no column 'when'"):
        fitted.evaluate(later.rename_axis("time"))


def test_covariates_count_and_are_needed_for_the_future(driven: DeepLFMForecaster) -> None:
    future = pd.DataFrame({"t": 8.0 + np.arange(10) * 0.1, "heat": 1.0})
    warm = driven.forecast(covariates=future)
    cold = driven.forecast(10, covariates=future.assign(heat=-1.0))
    assert warm.index.to_numpy() == pytest.approx(future["t"].to_numpy())
    assert warm.index.equals(cold.index)
    assert (warm["y"] - cold["y"] > 0.5).all()
    with pytest.raises(
        InputError, match=r"column 'heat'.* 8 of 8 values are missing \(first: time 8.0"
    ):
        driven.forecast()
    with pytest.raises(InputError, match=r"2 of 12 values are missing \(first: time 9\.0"):
        driven.forecast(12, covariates=future)
    with pytest.raises(InputError, match=r"column 'heat'.*1 of 10 values are missing"):
        driven.forecast(covariates=future.assign(heat=[np.nan, *[1.0] * 9]))
    assert len(driven.forecast(times=[0.1, 0.2])) == 2  # known from training
    posterior = driven.posterior(future["t"], future)
    assert posterior.mean[:, 0].numpy() == pytest.approx(warm["y"].to_numpy())


def test_covariates_are_refused_where_there_are_none(fitted: DeepLFMForecaster) -> None:
    with pytest.raises(InputError, match="covariates: given, but the model was fitted without any"):
        fitted.forecast(2, covariates=truth(HOURS))


def test_news_are_taken_in(gappy: pd.DataFrame) -> None:
    model = quick().fit(gappy, time="when")
    before = model.forecast(times=HOURS[40:46])
    news = truth(pd.date_range(HOURS[40], HOURS[-1] + pd.Timedelta("2h30min"), freq="30min")[1:])
    with pytest.warns(UserWarning, match="values were known in training"):
        model.update(news.reset_index(names="when"))
    assert not model.training_.iloc[41:].isna().any(axis=None)
    assert model.training_.index[-1] == HOURS[-1] + pd.Timedelta("2h30min")
    assert model.training_.index.is_monotonic_increasing
    assert (model.forecast(times=HOURS[41:46])["load_std"] < before["load_std"].iloc[1:]).all()
    assert model.forecast(1).index[0] == HOURS[-1] + pd.Timedelta("3h30min")
    assert len(model.impute()) == len(model.training_)


def test_a_constant_target_is_forecast_as_it_is_with_a_warning() -> None:
    frame = pd.DataFrame({"a": np.sin(np.arange(40.0)), "b": 7.0})
    with pytest.warns(UserWarning, match="column 'b': all known values are 7"):
        model = quick().fit(frame)
    assert model.forecast(3)["b"].to_numpy() == pytest.approx([7.0, 7.0, 7.0], abs=0.05)


def test_rows_of_one_time_may_be_averaged() -> None:
    time = np.repeat(np.arange(40.0), 2)
    frame = pd.DataFrame({"t": time, "y": np.sin(time) + np.tile([1.0, -1.0], 40)})
    with pytest.raises(InputError, match=r"time 0\.0: found in 2 rows \(0, 1\)"):
        quick().fit(frame, "t")
    frame.loc[20:21, "y"] = np.nan
    model = quick().fit(frame, "t", duplicates="mean")
    assert model.training_["y"].drop(10.0).to_numpy() == pytest.approx(
        np.sin(np.delete(np.arange(40.0), 10))
    )
    assert model.impute()["y"].iloc[20:22].to_numpy() == pytest.approx(
        np.sin([10.0, 10.0]), abs=0.2
    )


def test_local_times_get_their_zone() -> None:
    frame = truth(HOURS).tz_localize(None)
    model = quick(n_steps=1).fit(frame.reset_index(names="when"), "when", "load", zone=BERLIN)
    assert model.training_.index.equals(HOURS)
    with pytest.raises(
        InputError, match="zone: 'Europe/Berlin' given, but column 't' holds numbers"
    ):
        quick().fit(pd.DataFrame({"t": np.arange(9), "y": np.arange(9.0)}), "t", zone=BERLIN)


def test_the_order_of_days_and_months_is_stored() -> None:
    days = pd.date_range("2024-01-01", periods=40)
    frame = pd.DataFrame({"day": days.strftime("%d/%m/%Y"), "y": np.sin(np.arange(40.0))})
    model = quick(n_steps=1).fit(frame, "day")
    later = pd.DataFrame({"day": ["01/03/2024", "02/03/2024"], "y": [0.0, 1.0]})
    assert model.evaluate(later)["rows"].tolist() == [2]
    assert model.forecast(until="12/02/2024").index[-1] == pd.Timestamp("2024-02-12")


def test_before_fitting_nothing_is_predicted() -> None:
    for method in ("forecast", "impute", "backtest"):
        with pytest.raises(NotFittedError):
            getattr(quick(), method)()
    with pytest.raises(NotFittedError):
        quick().save("nowhere")


def test_parameters_survive_cloning_and_tables_are_refused() -> None:
    model = quick(model=Trend() + Season(12))
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(ConfigError, match="is_series: False found"):
        quick(is_series=False).fit(truth(HOURS))


def test_a_bad_fit_leaves_the_old_one(gappy: pd.DataFrame) -> None:
    model = quick(n_steps=1).fit(truth(HOURS), targets="load")
    before = model.forecast(2)
    with pytest.raises(InputError):
        model.fit(gappy, time="when", targets="lode")
    pd.testing.assert_frame_equal(model.forecast(2), before)


def test_a_figure_has_a_panel_for_each_target(
    fitted: DeepLFMForecaster, driven: DeepLFMForecaster
) -> None:
    later = truth(pd.date_range(HOURS[-1], periods=5, freq="h")[1:])
    figure = fitted.plot(horizon=12, later=later, since=HOURS[60], title="two waves")
    assert len(figure.axes) == 2
    with pytest.raises(InputError, match=r"since: .* is after all that is shown"):
        fitted.plot(since="2030-01-01")
    future = pd.DataFrame({"t": 8.0 + np.arange(10) * 0.1, "heat": 1.0})
    assert len(driven.plot(covariates=future).axes) == 1


def test_figures_show_the_posterior(
    fitted: DeepLFMForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {}
    monkeypatch.setattr(
        "deeplfm.plots.forecast_figure",
        lambda times, fans, *_, **__: drawn.update({"": (times, fans)}),
    )
    monkeypatch.setattr("deeplfm.estimators.predicting._PREDICTION_ROWS", 7)
    fitted.plot(horizon=12)
    times, fans = drawn[""]
    expected = fitted.posterior(times)
    assert fans["flow"].mean.tolist() == expected.mean[:, 1].tolist()
    for coverage, ends in fans["flow"].bands.items():
        for end, wanted in zip(ends, expected.interval(coverage), strict=True):
            assert end == pytest.approx(wanted[:, 1].numpy(), rel=1e-9, abs=1e-12)
