import numpy as np
import pandas as pd
import pytest
from sample_series import quick

from deeplfm.estimators import DeepLFMForecaster, arrays
from deeplfm.report.clock import Clock
from deeplfm.report.content import fitted_rows, gather

WAVE = pd.DataFrame({"y": np.sin(np.arange(90.0))}, index=pd.Index(np.arange(90.0), name="t"))


def test_the_rows_used_and_the_tail_are_those_of_the_fit() -> None:
    model = quick().fit(WAVE.iloc[:80])
    used = fitted_rows(model, Clock.of(WAVE.index))
    assert (used.n_rows, used.first, used.last) == (80, 0, 79)
    assert used.held_out == 20  # a quarter of the rows, from the last one fitted
    model.update(WAVE.iloc[80:])
    assert fitted_rows(model, Clock.of(WAVE.index)) == used


def test_a_shortened_series_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_LONGEST_SERIES", 60)
    with pytest.warns(UserWarning, match="60 most recent"):
        model = quick().fit(WAVE)
    used = fitted_rows(model, Clock.of(WAVE.index))
    assert (used.n_rows, used.first) == (60, 30)


def test_the_content_agrees_with_forecast_and_scores(
    forecaster: DeepLFMForecaster, later: pd.DataFrame
) -> None:
    forecast = forecaster.forecast(horizon=30)
    case = gather(forecaster, forecast, later)
    assert case.evaluation is not None
    drawn = case.prediction.mean[-30:]
    assert drawn == pytest.approx(forecast[forecaster.targets_].to_numpy())
    assert case.prediction.low[95][-30:, 0] == pytest.approx(forecast["abp_low"].to_numpy())
    for index, share in enumerate(case.evaluation.scores["coverage95"]):
        assert case.evaluation.coverage(index, 0.95) == pytest.approx(share)
    assert case.horizon == pytest.approx(11.9)
    assert case.peaks["abp"][0].period == pytest.approx(1, rel=0.05)
