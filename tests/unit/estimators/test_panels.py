"""Many series in long form."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from deeplfm import ConfigError, DeepLFMForecaster, InputError, ModelFileError, load
from deeplfm.estimators.pooling import _FACTORS, Evidence, Likelihood, pooled_prior
from deeplfm.statespace import PRIOR

MODEL = "trend + level"


def series(name: str, n_rows: int = 30, seed: int = 0) -> pd.DataFrame:
    y = 10 + np.random.default_rng(seed).standard_normal(n_rows).cumsum()
    ds = pd.date_range("2020-01-01", periods=n_rows, freq="MS")
    return pd.DataFrame({"unique_id": name, "ds": ds, "y": y})


def panel() -> pd.DataFrame:
    """Two good series, and one with a field that is no number."""
    frame = pd.concat([series("a"), series("b", 40, 1), series("bad", 30, 2)], ignore_index=True)
    frame["y"] = frame["y"].astype(object)
    frame.loc[75, "y"] = "oops"
    return frame


@pytest.fixture(scope="module")
def fitted() -> DeepLFMForecaster:
    return DeepLFMForecaster(MODEL, progress=False).fit(panel())


def quiet_forecast(model: DeepLFMForecaster, *args, **kwargs) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.forecast(*args, **kwargs)


def test_a_bad_series_is_in_the_table_and_stops_no_other(fitted):
    table = fitted.series_
    assert table.index.tolist() == ["a", "b", "bad"]
    assert table["status"].tolist() == ["fitted", "fitted", "failed"]
    assert "'oops' at row 5" in table.loc["bad", "reason"]
    with pytest.warns(UserWarning, match=r"1 of 3 series left out \(first: 'bad'"):
        found = fitted.forecast(2)
    assert found["unique_id"].tolist() == ["a", "a", "b", "b"]


def test_a_series_of_a_panel_is_fitted_as_it_is_by_itself(fitted):
    alone = DeepLFMForecaster(MODEL, progress=False).fit(series("b", 40, 1)[["ds", "y"]])
    found = quiet_forecast(fitted, 3, level=[80, 95])
    mine = found[found["unique_id"] == "b"].set_index("ds").drop(columns="unique_id")
    pd.testing.assert_frame_equal(mine, alone.forecast(3, level=[80, 95]), check_freq=False)
    pd.testing.assert_frame_equal(fitted["b"].forecast(3), alone.forecast(3))


def test_the_fallback_repeats_the_last_season_with_the_spread_of_its_changes(fitted):
    found = fitted.forecast(15, fallback=True).set_index("unique_id").loc["bad"]
    own = series("bad", 30, 2)["y"].to_numpy(copy=True)
    own[5] = np.nan
    np.testing.assert_allclose(found["y"].to_numpy()[:12], own[-12:])
    spread = np.sqrt(np.nanmean((own[12:] - own[:-12]) ** 2))
    std = found["y_std"].to_numpy()
    np.testing.assert_allclose(std[[0, 11, 12]], spread * np.sqrt([1, 1, 2]))
    assert (found["y_high"] - found["y"] > 1.96 * std).all()  # Student's t


def test_a_saved_panel_predicts_the_same_and_is_read_by_series(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    pd.testing.assert_frame_equal(quiet_forecast(loaded, 2), quiet_forecast(fitted, 2))
    pd.testing.assert_frame_equal(loaded.series_, fitted.series_)
    loaded.save(tmp_path / "m")  # over its own files
    parts = sorted((tmp_path / "m").glob("parts-*/*"))
    assert len(parts) == 3
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    assert len(loaded["a"].forecast(1)) == 1
    with pytest.raises(ModelFileError, match="damaged"):
        loaded["b"]


def test_tables_of_all_methods_are_long(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = fitted.components(2)
        filled = fitted.impute()
        folds = fitted.backtest(2, 3)
    assert parts.columns.tolist()[:4] == ["unique_id", "ds", "target", "component"]
    sums = parts.groupby(["unique_id", "ds"])["mean"].sum().to_numpy()
    np.testing.assert_allclose(sums, quiet_forecast(fitted, 2)["y"].to_numpy())
    assert len(filled) == 70
    assert folds.groupby("unique_id")["fold"].max().to_dict() == {"a": 2, "b": 2}


def test_each_series_gets_its_own_rows_of_a_frame():
    model = DeepLFMForecaster(MODEL, progress=False).fit(panel().iloc[:70])
    later = pd.concat([series("a", 32).iloc[30:], series("b", 43, 1).iloc[40:]])
    scores = model.evaluate(later)
    assert scores["unique_id"].tolist() == ["a", "b"] and scores["rows"].tolist() == [2, 3]
    before = model.forecast(1)["ds"]
    assert model.update(later) is model
    months = (model.forecast(1)["ds"] - before).dt.days
    assert (months > [50, 80]).all()
    with pytest.raises(InputError, match="'c' is not in the panel"):
        model.evaluate(later.assign(unique_id="c"))
    with pytest.warns(UserWarning, match=r"'c' is not in the panel. Their rows are left out"):
        scores = model.evaluate(pd.concat([series("a", 36)[-2:], series("c")]))
    assert scores["unique_id"].tolist() == ["a"]
    with pytest.raises(InputError, match="no column 'unique_id'"):
        model.evaluate(later.drop(columns="unique_id"))


@pytest.mark.parametrize("kind", ["named", "index", "arrow", "polars"])
def test_a_panel_is_found_in_every_form(kind):
    frame, options = panel().iloc[:70].astype({"y": float}), {}
    expected = DeepLFMForecaster(MODEL, progress=False).fit(frame).forecast(1)
    if kind == "named":
        names = {"unique_id": "shop", "ds": "month", "y": "sales"}
        frame, options = frame.rename(columns=names), {"series": "shop"}
    elif kind == "index":
        frame = frame.set_index(["unique_id", "ds"])
    else:
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
        frame = pytest.importorskip("polars").from_arrow(frame) if kind == "polars" else frame
    found = DeepLFMForecaster(MODEL, progress=False).fit(frame, **options).forecast(1)
    np.testing.assert_array_equal(found.iloc[:, 2:].to_numpy(), expected.iloc[:, 2:].to_numpy())


def test_one_series_of_a_panel_is_asked_by_name(fitted):
    with pytest.raises(InputError, match="no 'c' among the 3"):
        fitted["c"]
    with pytest.raises(InputError, match="'bad': it was not fitted"):
        fitted["bad"]
    with pytest.raises(ConfigError, match=r"Ask one: model\[name\]"):
        fitted.plot()
    assert "2 fitted, 1 failed" in fitted._repr_html_()
    alone = DeepLFMForecaster(MODEL, progress=False).fit(series("a")[["ds", "y"]])
    with pytest.raises(ConfigError, match="not fitted to a panel"):
        _ = alone.series_


def test_what_cannot_be_a_panel_is_refused():
    model = DeepLFMForecaster(MODEL, progress=False)
    frame = panel()
    with pytest.raises(InputError, match="no column 'shop'"):
        model.fit(frame, series="shop")
    with pytest.raises(InputError, match="row 0 is not named"):
        model.fit(frame.assign(unique_id=[None, *frame["unique_id"][1:]]))
    with pytest.raises(InputError, match="none of 1 series"):
        model.fit(frame.iloc[70:])


def test_a_prior_is_learned_from_the_series_and_used_by_new_ones(monkeypatch):
    many = pd.concat([series(f"s{i}", 24, i) for i in range(12)], ignore_index=True)
    model = DeepLFMForecaster(MODEL, progress=False).fit(many, pooled=True)
    prior = model.prior_[next(iter(model.prior_))]
    assert prior.level[1] < PRIOR.level[1]
    own = model["s0"].get_params()["prior"]
    assert own == {name: replace(PRIOR, widening=prior.widening) for name in model.prior_}
    monkeypatch.setattr("deeplfm.statespace.fit.minimize", None)  # new series need no fit
    new = model.forecast_new(series("new", 12, 99), 2)
    assert new["unique_id"].tolist() == ["new"] * 2
    assert len(model) == 12


def test_the_pooled_prior_is_that_of_a_normal_hierarchy():
    rng = np.random.default_rng(0)
    own = rng.normal(-1.0, 0.5, 400)
    variance = rng.uniform(0.01, 1.0, 400)
    seen = own + np.sqrt(variance) * rng.standard_normal(400)
    normal = norm.logpdf(rng.normal(0, 1.5, (400, 1)), scale=_FACTORS)  # of a std that says 1
    evidence = [
        Evidence(["m"], [Likelihood("m", "noise", m, v)], density, number)
        for number, (m, v, density) in enumerate(zip(seen, variance, normal, strict=True))
    ]
    found = pooled_prior(evidence).of()[0]["m"]
    assert abs(np.log(found.noise[0]) + 1.0) < 0.15  # four standard errors
    assert abs(found.noise[1] - 0.5) < 0.12
    assert found.rate == PRIOR.rate  # nothing is known of it
    assert abs(np.log(found.widening / 1.5)) < 0.15  # four standard errors, 1/√800, and the prior


def test_a_fit_that_was_ended_is_continued_from_its_parts(tmp_path, monkeypatch):
    from deeplfm.estimators import panel_parts as module

    place, frame = tmp_path / "state", panel()
    whole = DeepLFMForecaster(MODEL, progress=False).fit(frame)
    done: list[int] = []
    original = module.write_parts

    def killed(folder, parts):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return original(folder, parts)

    model = DeepLFMForecaster(MODEL, progress=False, checkpoint=place)
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_parts", killed)
        with pytest.raises(KeyboardInterrupt):
            model.fit(frame)
    fits: list[object] = []
    real = module.fit_part
    monkeypatch.setattr(module, "fit_part", lambda work: fits.append(work) or real(work))
    model.fit(frame)
    assert len(fits) == 1  # of three parts
    names = sorted(path.name.split("-")[0] for path in place.iterdir())
    assert names == ["part", "part", "part", "run"]  # nothing of single series
    pd.testing.assert_frame_equal(quiet_forecast(model, 2), quiet_forecast(whole, 2))
    with pytest.raises(InputError, match="another run"):
        model.fit(frame.iloc[:70])
