"""Quickstart: a series with a gap in; filled gap, forecast, intervals and a figure out.

Run it with ``python quickstart.py [folder for the figure]``.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from deeplfm import DeepLFMForecaster

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

t = np.arange(0, 30, 0.2)
truth = np.sin(2 * t) + 0.5 * np.cos(5 * t)
series = pd.DataFrame({"y": truth + 0.1 * np.random.default_rng(0).normal(size=len(t))}, index=t)
past, future = series.iloc[:110].copy(), series.iloc[110:]
past.iloc[40:55] = np.nan  # a gap is what is missing, and needs no other mark

model = DeepLFMForecaster(random_state=0).fit(past)
filled = model.impute()  # the same frame, its gap filled
forecast = model.forecast(horizon=len(future))  # columns y, y_std, y_low and y_high
scores = model.evaluate(future)  # the forecast beside what came true
model.plot(len(future), later=future).savefig(folder / "quickstart.png")

print(forecast.head(3).round(2))
error = filled["y"].iloc[40:55] - truth[40:55]
print(f"gap: root mean square error {np.sqrt((error**2).mean()):.3f} to the truth without noise")
print(f"forecast: root mean square error {scores.loc['y', 'rmse']:.3f} where the noise has 0.1")
print(f"95 % interval: held {scores.loc['y', 'coverage95']:.0%} of {len(future)} later values")
