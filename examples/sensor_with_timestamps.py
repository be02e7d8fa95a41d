"""A sensor with irregular timestamps in a time zone, and a heating plan that is known in advance.

The temperature of a room is read about once an hour, never on the hour, and is lost for a whole day. The
heating plan is a covariate: known for the past, and for the 60 hours to be forecast, in which the clocks
go forward (31 March) and a holiday comes (1 April). The forecast is in local time. A backtest
estimates its error, and a model without the plan shows the value of the plan.

Run it with ``python sensor_with_timestamps.py [folder for the figure]``.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from deeplfm import DeepLFMForecaster

ZONE = "Europe/Berlin"
# One model and few steps, for a quick run; all settings are optional.
SETTINGS = {"model": "trend + sinusoids + broadband", "n_steps": 10, "random_state": 0}


def heating(times: pd.DatetimeIndex) -> pd.DataFrame:
    """The plan: three degrees more from 7 to 19 h on working days, by the clock on the wall."""
    is_holiday = np.isin(times.strftime("%Y-%m-%d"), ["2024-03-29", "2024-04-01"])
    is_on = (times.hour >= 7) & (times.hour < 19) & (times.day_of_week < 5) & ~is_holiday
    return pd.DataFrame({"heating": np.where(is_on, 3.0, 0.0)}, index=times)


def temperature(times: pd.DatetimeIndex) -> pd.Series:
    """The truth: heating, the sun, and a slow change of the weather."""
    days = (times - pd.Timestamp("2024-03-18", tz=ZONE)) / pd.Timedelta(days=1)
    sun = 1.5 * np.sin(2 * np.pi * (days - 0.375))
    weather = 0.8 * np.sin(2 * np.pi * days / 5.3)
    return heating(times)["heating"] + 17 + sun + weather


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(0)
hours = pd.date_range("2024-03-18", "2024-03-30 23:00", freq="h", tz=ZONE, name="read_at")
times = (hours + pd.to_timedelta(rng.integers(1, 3600, len(hours)), unit="s")).rename("read_at")
frame = heating(times).assign(room=temperature(times) + 0.2 * rng.normal(size=len(times)))
frame.loc["2024-03-23", "room"] = np.nan  # lost; the plan is known all the same

ahead = pd.date_range("2024-03-31", periods=60, freq="h", tz=ZONE, name="read_at")
model = DeepLFMForecaster(**SETTINGS).fit(frame, targets="room", covariates="heating")
forecast = model.forecast(covariates=heating(ahead))  # at the times for which there is a plan
lost = model.impute().loc["2024-03-23", "room"]
truth = temperature(ahead)
figure = model.plot(covariates=heating(ahead), later=heating(ahead).assign(room=truth))
figure.savefig(folder / "sensor_with_timestamps.png")

print(forecast.assign(truth=truth).iloc[1:50:12].round(2).to_string())
scores = model.backtest(folds=3, horizon=24)
print("\nbacktest: 24 readings at a time, forecast from those before them (noise 0.2)")
print(scores[["start", "end", "train_rows", "rmse", "coverage95"]].to_string(float_format="%.2f"))


def error(guess: pd.Series) -> float:
    """Root mean square error to the truth."""
    return np.sqrt(((guess - temperature(guess.index)) ** 2).mean())


without = DeepLFMForecaster(**SETTINGS).fit(frame, targets="room").forecast(times=ahead)
inside = truth.between(forecast["room_low"], forecast["room_high"]).mean()
print(f"\n95 % interval: holds the truth in {inside:.0%} of the {len(ahead)} hours")
print(f"root mean square error to the truth of the lost day: {error(lost):.2f}")
print(f"... of the forecast with the plan: {error(forecast['room']):.2f}")
print(f"... of a forecast without it: {error(without['room']):.2f}")
