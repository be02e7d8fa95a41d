"""Folds train on the past alone and score the rows that follow."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deeplfm import InputError
from deeplfm.estimators import DeepLFMForecaster
from deeplfm.estimators.evaluation import rolling_origins

DAYS = pd.date_range("2024-01-01", periods=60, name="day")


def quick() -> DeepLFMForecaster:
    return DeepLFMForecaster(model="sinusoids + broadband", n_steps=3, random_state=0)


def waves(index: pd.DatetimeIndex) -> pd.DataFrame:
    step = np.arange(len(index))
    return pd.DataFrame({"a": np.sin(0.9 * step), "b": 5 + np.cos(0.7 * step)}, index=index)


def test_windows_follow_one_another_up_to_the_last_row() -> None:
    frame = waves(DAYS)
    assert rolling_origins(frame, 3, 10) == [(30, 40), (40, 50), (50, 60)]
    assert rolling_origins(frame, 5, None) == [(30 + 6 * i, 36 + 6 * i) for i in range(5)]
    assert rolling_origins(frame, 1, None) == [(54, 60)]
    assert rolling_origins(frame, 10, None)[0] == (30, 33)


def test_each_fold_scores_what_a_model_of_the_past_forecasts() -> None:
    frame = waves(DAYS)
    frame.iloc[-3:, 1] = np.nan
    model = quick().fit(frame)
    scores = model.backtest(folds=2, horizon=6)
    assert list(scores.columns) == [
        *("fold", "target", "train_rows", "test_rows", "start", "end"),
        *("nmse", "mnll", "crps", "rmse", "mae", "coverage95"),
    ]
    assert scores["fold"].tolist() == [1, 1, 2, 2]
    assert scores["target"].tolist() == ["a", "b", "a", "b"]
    assert scores["train_rows"].tolist() == [48, 48, 54, 54]
    assert scores["test_rows"].tolist() == [6, 6, 6, 3]
    assert scores["start"].tolist() == [DAYS[48], DAYS[48], DAYS[54], DAYS[54]]
    assert scores["end"].tolist() == [DAYS[53], DAYS[53], DAYS[59], DAYS[59]]
    assert scores["rmse"].max() < 0.2
    past = quick().fit(frame.iloc[:48]).evaluate(frame.iloc[48:54])
    assert scores.loc[0, "mnll"] == pytest.approx(past.loc["a", "mnll"], rel=1e-6)
    assert scores.loc[1, "crps"] == pytest.approx(past.loc["b", "crps"], rel=1e-6)


def test_a_target_without_values_in_a_fold_has_no_scores_there() -> None:
    frame = waves(DAYS)
    frame.iloc[-6:, 1] = np.nan
    scores = quick().fit(frame).backtest(folds=1, horizon=6)
    assert scores["test_rows"].tolist() == [6, 0]
    assert scores.loc[1, ["nmse", "mnll", "crps", "rmse", "mae", "coverage95"]].isna().all()


@pytest.mark.parametrize(
    ("folds", "horizon", "message"),
    [
        (5, 12, "5 folds of 12 rows leave 0 of 60 rows"),
        (2, 29, "2 folds of 29 rows leave 2 of 60 rows.*at least 3"),
        (0, None, "folds: 0 found"),
        (2.5, None, "folds: 2.5 found"),
        (2, 0, "horizon: 0 found"),
        (2, True, "horizon: True found"),
    ],
)
def test_folds_need_rows_to_train_on(folds: Any, horizon: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rolling_origins(waves(DAYS), folds, horizon)


def test_every_target_must_be_known_before_the_first_origin() -> None:
    frame = waves(DAYS)
    frame.iloc[:40, 1] = np.nan
    with pytest.raises(InputError, match="with 0 known values of column 'b'"):
        rolling_origins(frame, 3, 10)


def test_progress_is_shown_fold_by_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    model = quick().fit(waves(DAYS))
    shown = []

    class Bar:
        def update(self, step: int, n_steps: int, loss: float) -> None:
            shown.append((step, n_steps, np.isfinite(loss)))

    def progress_bar(label: str, enabled: bool | None) -> nullcontext[Bar]:
        shown.append((label, enabled))
        return nullcontext(Bar())

    monkeypatch.setattr("deeplfm.estimators.evaluation.progress_bar", progress_bar)
    model.set_params(progress=True).backtest(folds=2, horizon=5)
    assert shown == [("backtest", True), (0, 2, False), (1, 2, True), (2, 2, True)]


def test_conformal_intervals_hold_what_they_say() -> None:
    """Noise of two values: a normal 80 % interval holds both, and a conformal one is narrower.

    96 later values set the width, so that the share inside is a draw of Beta(78, 19). It lies outside
    0.66 to 0.92 with a probability below 0.002.
    """
    rng = np.random.default_rng(3)
    values = rng.choice([-1.0, 1.0], 700) + 0.1 * rng.normal(size=700)
    frame = pd.DataFrame({"y": values}, index=pd.RangeIndex(700, name="t"))
    model = DeepLFMForecaster(model="trend", progress=False).fit(frame[:200])
    later = frame["y"][200:].to_numpy()
    shares = []
    for conformal in (None, 8):
        ahead = model.forecast(12, level=80, conformal=conformal)
        low, high = ahead["y_low_80"].mean(), ahead["y_high_80"].mean()
        shares.append(((later > low) & (later < high)).mean())
    assert shares[0] > 0.95
    assert 0.66 < shares[1] < min(0.92, shares[0])


def test_a_conformal_interval_that_is_too_wide_for_the_values_is_refused() -> None:
    model = quick().fit(waves(DAYS))
    with pytest.raises(InputError, match=r"conformal: 4 values of 'a' follow 2 origins.*needs 19"):
        model.forecast(2, conformal=2)
