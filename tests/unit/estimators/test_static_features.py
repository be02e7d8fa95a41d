"""Features of whole series, and the prior of new series that depends on them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from deeplfm import ConfigError, DeepLFMForecaster, InputError, load
from deeplfm.estimators.pooling import _FACTORS, Evidence, Likelihood, SharedPrior, pooled_prior
from deeplfm.estimators.static_features import StaticFeatures, static_rows

MODEL = "trend + level"
TABLE = pd.DataFrame(
    {"unique_id": ["a", "b", "c"], "size": [1.0, 2.0, 6.0], "kind": ["x", "y", "x"]}
)


def learned(
    effect: float, n_series: int, rng: np.random.Generator
) -> tuple[SharedPrior, SharedPrior]:
    """Prior without and with the features of a simulated panel: one matters, one is noise."""
    static = features(n_series, rng)
    theta = -1.0 + effect * (static["kind"] == "x") + 0.4 * rng.standard_normal(n_series)
    variance = rng.uniform(0.05, 0.5, n_series)
    seen = theta + np.sqrt(variance) * rng.standard_normal(n_series)
    evidence = [
        Evidence(["m"], [Likelihood("m", "noise", m, v)], np.zeros(len(_FACTORS)), number)
        for number, (m, v) in enumerate(zip(seen, variance, strict=True))
    ]
    return pooled_prior(evidence), pooled_prior(evidence, static)


def features(n_series: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {"kind": rng.choice(["x", "y"], n_series), "other": rng.normal(size=n_series)}
    )


def gains(effect: float, seed: int) -> float:
    """How much higher the mean log density of new series' parameters is with features."""
    rng = np.random.default_rng(seed)
    without, with_features = learned(effect, 60, rng)
    static = features(4000, rng)
    theta = -1.0 + effect * (static["kind"] == "x") + 0.4 * rng.standard_normal(len(static))
    median, spread = without.of()[0]["m"].noise
    alone = norm.logpdf(theta, np.log(median), spread)
    median, spread = np.array([found["m"].noise for found in with_features.of(static)]).T
    return float((norm.logpdf(theta, np.log(median), spread) - alone).mean())


def test_parameters_of_new_series_are_more_probable_by_a_feature_that_matters():
    # The parameters have spread .4 within a kind and .81 over both: log(.81 / .4) = .7 nats to be had.
    # Seeds 100 to 199 gain .50 with standard deviation .037: .3 is five of these below, one in 1e6.
    found = [gains(effect=1.4, seed=seed) for seed in range(5)]
    assert min(found) > 0.3


def test_features_that_do_not_matter_cost_next_to_nothing():
    # Seeds 100 to 199 lose .010 with standard deviation .005, the worst .034; a mean of five below
    # -.02 is four standard errors away, one in 1e4.
    found = [gains(effect=0.0, seed=seed) for seed in range(5)]
    assert np.mean(found) > -0.02


def test_an_unknown_label_widens_the_prior():
    _, shared = learned(1.4, 60, np.random.default_rng(0))
    static = pd.DataFrame({"kind": ["x", "y", "z"], "other": [0.0, 0.0, 0.0]})
    x, y, z = (found["m"].noise for found in shared.of(static))
    assert x[0] > 2 * y[0]
    assert z[1] > 1.2 * max(x[1], y[1])


def test_columns_of_a_design():
    rows = static_rows(TABLE, "unique_id", ["c", "a", "b"])
    assert rows["size"].tolist() == [6.0, 1.0, 2.0]
    found = StaticFeatures.of(rows)
    assert found.labels == {"kind": ["x"]}  # nobody shares y
    design, is_unknown = found.design(rows)
    assert design[:, 0].mean() == pytest.approx(0)
    assert design[:, 0].std() == pytest.approx(1)
    assert design[:, 1].tolist() == [1, 1, 0]
    assert is_unknown.tolist() == [[0, 0], [0, 0], [0, 1]]
    with pytest.raises(InputError, match="no column 'kind'"):
        found.design(rows.drop(columns="kind"))
    with pytest.raises(InputError, match="'size' has a value that is no number"):
        found.design(rows.assign(size="large"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.rename(columns={"unique_id": "shop"}), "no column 'unique_id'"),
        (pd.concat([TABLE, TABLE["kind"]], axis=1), "two columns are named 'kind'"),
        (TABLE[["unique_id"]], "no column found beside 'unique_id'"),
        (TABLE[:2], r"1 of 3 series have no row \(first: 'c'\)"),
        (pd.concat([TABLE, TABLE[:1]]), "series 'a' has 2 rows"),
        (TABLE.assign(kind=["x", None, "y"]), r"'kind' has 1 missing values \(first: series 'b'\)"),
        (TABLE.assign(size=[1.0, np.inf, 2.0]), "'size' has infinite values"),
    ],
)
def test_a_table_of_features_that_does_not_fit_is_refused(table, message):
    with pytest.raises(InputError, match=message):
        static_rows(table, "unique_id", ["a", "b", "c"])


def test_new_series_have_the_prior_of_their_features_also_after_saving(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    names = [f"s{i}" for i in range(12)]
    y = [10 + rng.standard_normal(20).cumsum() for _ in names]
    ds = pd.date_range("2020-01-01", periods=20, freq="MS")
    frame = pd.concat(
        [pd.DataFrame({"unique_id": n, "ds": ds, "y": v}) for n, v in zip(names, y, strict=True)]
    )
    static = pd.DataFrame({"unique_id": names, "size": rng.normal(size=12)})
    model = DeepLFMForecaster(MODEL, progress=False)
    with pytest.raises(ConfigError, match="Add pooled=True"):
        model.fit(frame, static=static)
    with pytest.raises(InputError, match="the frame holds one series"):
        model.fit(frame[:20].drop(columns="unique_id"), pooled=True)
    model.fit(frame, pooled=True, static=static).save(tmp_path / "model")
    monkeypatch.setattr("deeplfm.statespace.fit.minimize", None)  # new series need no fit
    new = frame[:60].replace({"unique_id": {"s0": "n0", "s1": "n1", "s2": "n2"}})
    own = pd.DataFrame({"unique_id": ["n2", "n1", "n0"], "size": [3.0, 0.0, -3.0]})
    found = model.forecast_new(new, 2, static=own)
    assert found["unique_id"].tolist() == ["n0", "n0", "n1", "n1", "n2", "n2"]
    pd.testing.assert_frame_equal(load(tmp_path / "model").forecast_new(new, 2, static=own), found)
    swapped = own.assign(size=-own["size"])
    assert not found["y_std"].equals(model.forecast_new(new, 2, static=swapped)["y_std"])
    with pytest.raises(InputError, match="fitted with features 'size'"):
        model.forecast_new(new, 2)
