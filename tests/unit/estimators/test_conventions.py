"""Conventions of other libraries: levels, quantiles, periods, Prophet's frames, categories, holidays."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deeplfm import ConfigError, DeepLFMForecaster, InputError, load

QUICK = {"model": "trend + season(12) + level", "n_steps": 3}


def series(index: pd.Index, **columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wave = (
        10 + 3 * np.sin(2 * np.pi * np.arange(len(index)) / 12) + 0.2 * rng.normal(size=len(index))
    )
    return pd.DataFrame({"y": wave, **columns}, index=index)


def monthly(n: int = 60) -> pd.DataFrame:
    return series(pd.date_range("2019-01-31", periods=n, freq="ME"))


@pytest.fixture(scope="module")
def fitted() -> DeepLFMForecaster:
    return DeepLFMForecaster(**QUICK).fit(monthly())


def test_levels_are_nested_intervals_with_labelled_columns(fitted: DeepLFMForecaster) -> None:
    table = fitted.forecast(6, level=[80, 95])
    ends = ["y", "y_std", "y_low_80", "y_high_80", "y_low_95", "y_high_95"]
    assert list(table.columns) == ends
    inner, outer = table["y_high_80"] - table["y_low_80"], table["y_high_95"] - table["y_low_95"]
    assert (inner < outer).all()
    plain = fitted.forecast(6)
    assert np.allclose(plain["y_low"], table["y_low_95"])


def test_quantiles_are_columns_in_order(fitted: DeepLFMForecaster) -> None:
    table = fitted.forecast(6, quantiles=[0.1, 0.5, 0.9])
    assert list(table.columns) == ["y", "y_std", "y_q0.1", "y_q0.5", "y_q0.9"]
    assert (table["y_q0.1"] < table["y_q0.5"]).all()
    assert (table["y_q0.5"] < table["y_q0.9"]).all()
    both = fitted.forecast(6, level=80, quantiles=0.5)
    assert np.allclose(both["y_low_80"], table["y_q0.1"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.95}, r"level: 0.95 found.*per cent.*coverage=0.95"),
        ({"level": "high"}, "level: 'high' found. Give numbers"),
        ({"quantiles": [0, 0.5]}, "quantiles: 0 found"),
        ({"coverage": 95}, "coverage: 95 found"),
    ],
)
def test_levels_beyond_their_range_are_refused(
    fitted: DeepLFMForecaster, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        fitted.forecast(3, **options)


def test_predict_is_the_point_forecast_alone(fitted: DeepLFMForecaster) -> None:
    expected = fitted.forecast(4)["y"]
    assert list(fitted.predict(4).columns) == ["y"]
    assert np.allclose(fitted.predict(4)["y"], expected)
    assert np.allclose(fitted.predict(expected.index)["y"], expected)
    assert np.allclose(
        fitted.predict(pd.DataFrame(index=expected.index, data={"a": 1}))["y"], expected
    )


@pytest.mark.parametrize("freq", ["ME", "MS", "W-WED", "QE-NOV", "BME", "2h", "YS-JAN"])
def test_the_frequency_of_the_index_is_kept(freq: str, tmp_path: Path) -> None:
    index = pd.date_range("2010-01-01", periods=40, freq=freq, name="when")
    model = DeepLFMForecaster(**QUICK).fit(series(index))
    wanted = pd.date_range(index[-1], periods=6, freq=freq, name="when")[1:]
    for one in (model, load(model.save(tmp_path / "m") or tmp_path / "m")):
        found = one.forecast(5).index
        assert found.equals(wanted)
        assert found.freqstr == freq
        assert one.components(5).index.freqstr == freq


@pytest.mark.parametrize("freq", ["M", "Q", "W", "D"])
def test_periods_stay_periods(freq: str, tmp_path: Path) -> None:
    index = pd.period_range("2010-01-01", periods=40, freq=freq, name="when")
    frame = series(index)
    frame.iloc[20] = np.nan
    model = DeepLFMForecaster(**QUICK).fit(frame)
    found = model.forecast(5)
    assert isinstance(found.index, pd.PeriodIndex)
    assert found.index.equals(pd.period_range(index[-1] + 1, periods=5, freq=freq, name="when"))
    assert model.impute().index.equals(index)
    assert np.allclose(model.predict(found.index), model.predict(5))
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").forecast(5).equals(found)


def test_a_frame_of_prophet_is_found() -> None:
    frame = monthly().rename_axis("ds").reset_index()
    model = DeepLFMForecaster(**QUICK).fit(frame)
    assert (model.timeline_.name, model.targets_) == ("ds", ["y"])
    future = pd.DataFrame({"ds": pd.date_range(frame["ds"].iloc[-1], periods=4, freq="ME")[1:]})
    assert np.allclose(model.predict(future), model.predict(3))


def test_the_only_column_of_timestamps_is_the_time_and_two_are_refused() -> None:
    frame = monthly().rename_axis("day").reset_index()[["y", "day"]]
    assert DeepLFMForecaster(**QUICK).fit(frame).timeline_.name == "day"
    with pytest.raises(InputError, match=r"'day', 'sent' hold timestamps.*time='day'"):
        DeepLFMForecaster(**QUICK).fit(frame.assign(sent=frame["day"]))


@pytest.mark.parametrize(("part", "count"), [("quarter", 4), ("month", 12)])
def test_a_year_and_its_part_are_the_time(part: str, count: int, tmp_path: Path) -> None:
    rows = np.arange(48)
    frame = pd.DataFrame({"year": 2000 + rows // count, part: 1 + rows % count, "gdp": rows + 1.0})
    model = DeepLFMForecaster(**QUICK).fit(frame)
    named = DeepLFMForecaster(**QUICK).fit(frame, time=["year", part])
    assert model.targets_ == named.targets_ == ["gdp"]
    first = model.forecast(2).index[0]
    assert (first.year, first.month) == (2000 + 48 // count, 1)
    later = pd.DataFrame({"year": [first.year], part: [1], "gdp": [49.0]})
    assert int(model.evaluate(later)["rows"].iloc[0]) == 1
    model.save(tmp_path / "m")
    written = load(tmp_path / "m").timeline_.written(model.forecast(2).index)
    assert written.to_dict("list") == {"year": [first.year] * 2, part: [1, 2]}


@pytest.mark.parametrize("name", ["YEAR", "time"])
def test_a_column_of_years_or_times_is_the_time_and_no_target(name: str) -> None:
    frame = pd.DataFrame({name: 1900 + np.arange(40), "flow": np.arange(40.0) % 7})
    shuffled = frame.sample(frac=1, random_state=0)  # its index counts the rows, in another order
    models = [DeepLFMForecaster(**QUICK).fit(given) for given in (frame, shuffled)]
    assert [model.targets_ for model in models] == [["flow"]] * 2
    assert models[1].forecast(2).equals(models[0].forecast(2))
    assert models[0].forecast(2).index.tolist() == [1940, 1941]
    repeated = frame.assign(**{name: np.arange(40) // 2})  # no time: it repeats
    assert DeepLFMForecaster(**QUICK).fit(repeated).targets_ == [name, "flow"]


def test_times_are_found_in_filtered_frames_and_in_years_of_many_series() -> None:
    frame = monthly().rename_axis("ds").reset_index()
    some = frame[frame["ds"].dt.year > 2000]
    assert DeepLFMForecaster(**QUICK).fit(some[::-1]).timeline_.name == "ds"
    years = pd.DataFrame({"year": [*range(1950, 1980)] * 2, "life": np.arange(60.0) % 9})
    panel = DeepLFMForecaster(**QUICK).fit(years.assign(item_id=["a"] * 30 + ["b"] * 30))
    assert panel.forecast(1)["year"].tolist() == [1980, 1980]


def test_parts_of_a_year_are_checked() -> None:
    frame = pd.DataFrame({"year": [2000] * 4, "quarter": [1, 2, 3, 5], "gdp": 1.0})
    with pytest.raises(InputError, match="column 'quarter': '5' at row 3 is no quarter"):
        DeepLFMForecaster(**QUICK).fit(frame)
    with pytest.raises(InputError, match="Give a year and a quarter"):
        DeepLFMForecaster(**QUICK).fit(frame, time=["quarter", "year"])


def test_texts_and_truth_values_are_categories(tmp_path: Path) -> None:
    frame = monthly()
    kind = np.array(["calm", "storm", "rain"])[np.arange(60) % 3]
    frame["y"] += 20 * (kind == "storm")
    frame["kind"], frame["open"] = kind, np.arange(60) % 2 == 0
    model = DeepLFMForecaster(**QUICK).fit(frame, targets="y", covariates=["kind", "open"])
    assert model.regressor_.n_features_in_ == 1 + 2 + 1
    later = pd.DataFrame(
        {"kind": ["calm", "storm"], "open": [True, False]},
        index=pd.date_range(frame.index[-1], periods=3, freq="ME")[1:],
    )
    found = model.forecast(covariates=later)["y"]
    assert found.iloc[1] - found.iloc[0] == pytest.approx(20, abs=5)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").forecast(covariates=later)["y"].equals(found)
    with pytest.raises(InputError, match=r"'snow' at row 0 is no level.*calm, rain, storm"):
        model.forecast(covariates=later.assign(kind="snow"))


def test_weekdays_and_holidays_need_no_table_of_the_future(tmp_path: Path) -> None:
    pytest.importorskip("holidays")
    days = pd.date_range("2022-01-01", periods=730, name="day")
    christmas = (days.month == 12) & (days.day == 25)
    values = 10.0 + 5 * (days.dayofweek == 6) + 30 * christmas
    frame = pd.DataFrame({"sales": values}, index=days)
    model = DeepLFMForecaster(model="trend + level", n_steps=3).fit(
        frame, calendar="weekday", holidays="DE"
    )
    found = model.forecast(366)["sales"]
    assert found["2024-12-25"] - found["2024-12-23"] > 15
    sunday, monday = found["2024-02-04"], found["2024-02-05"]
    assert sunday - monday == pytest.approx(5, abs=1)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").forecast(366)["sales"].equals(found)


def test_unknown_countries_and_parts_of_the_calendar_are_refused() -> None:
    model = DeepLFMForecaster(**QUICK)
    with pytest.raises(ConfigError, match="calendar: 'decade' is not known"):
        model.fit(monthly(), calendar="decade")
    with pytest.raises(InputError, match="they need timestamps"):
        model.fit(monthly().reset_index(drop=True), calendar="month")
    pytest.importorskip("holidays")
    with pytest.raises(ConfigError, match="holidays: 'XX' is not known"):
        model.fit(monthly(), holidays="XX")


def test_a_floor_ends_forecasts_and_intervals(tmp_path: Path) -> None:
    frame = (monthly() - 9).clip(lower=0)
    model = DeepLFMForecaster(**QUICK).fit(frame, floor=0, cap=12)
    table = model.forecast(24, level=99)
    assert (table["y_low_99"] >= 0).all() and (table["y_high_99"] <= 12).all()
    assert table["y_low_99"].min() == 0
    assert (table["y"] >= table["y_low_99"]).all()
    assert model.posterior(table.index).sample(50).min() >= 0
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").forecast(24, level=99).equals(table)
    assert np.isfinite(model.backtest(folds=2, horizon=6)["crps"]).all()
    with pytest.raises(InputError, match="values are beyond floor=1"):
        DeepLFMForecaster(**QUICK).fit(frame, floor=1)
    with pytest.raises(ConfigError, match="a floor below the cap"):
        DeepLFMForecaster(**QUICK).fit(frame, floor=1, cap=0)


def test_sentinel_values_are_gaps() -> None:
    frame = monthly()
    frame.iloc[10:20, 0] = -200
    frame.iloc[30, 0] = -999
    model = DeepLFMForecaster(**QUICK).fit(frame, missing_values=[-200, -999])
    assert int(model.training_["y"].isna().sum()) == 11
    assert model.impute()["y"].min() > 0
    whole = pd.DataFrame({"n": np.r_[np.arange(30), -1, np.arange(31, 60)]})
    filled = DeepLFMForecaster(**QUICK).fit(whole, missing_values=-1).impute()
    assert filled["n"].iloc[30] == pytest.approx(30, abs=3)
    with pytest.raises(ConfigError, match="missing_values: 'none' found"):
        model.fit(frame, missing_values="none")
